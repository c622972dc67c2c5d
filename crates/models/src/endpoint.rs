//! Resolves the URL of a provider and the key that is sent there.
//!
//! A key from the environment belongs to the operator. It is sent to the vendor's URL and to the URL that the operator
//! sets in the environment. It is never sent to a URL from a definition, because the author of an agent could name
//! their own server. A definition with its own URL needs its own key, or uses none.

use secrecy::{ExposeSecret, SecretString};
use url::Url;

use crate::{ErrorKind, ModelConfig, ModelError, Provider};

/// The key that is sent when no key is configured, because the protocol requires one. Most local servers ignore the
/// key.
const PLACEHOLDER_KEY: &str = "none";

/// The URL of a provider, and who chose it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelEndpoint {
    /// The base URL, in the form that the vendor's SDK expects. `None` for a provider whose URL this crate does not
    /// know.
    pub url: Option<Url>,
    /// Who chose the URL.
    pub source: UrlSource,
}

/// Who chose a URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UrlSource {
    /// The vendor. This is the default.
    Vendor,
    /// The operator, by environment variable. Exempt from the egress rules.
    Operator,
    /// The author of a definition. Subject to the egress rules.
    Definition,
}

/// Looks up an environment variable.
pub(crate) type Environment = dyn Fn(&str) -> Option<String> + Send + Sync;

/// The names of a provider's environment variables.
struct VariableNames {
    key: String,
    base_url: String,
}

/// Returns the endpoint of the configured model.
pub(crate) fn resolve_endpoint(config: &ModelConfig, environment: &Environment) -> Result<ModelEndpoint, ModelError> {
    let operator = variable_names(config.provider).and_then(|names| lookup(environment, &names.base_url));
    let operator = operator.map(|url| parse_base_url(&url)).transpose()?;
    let definition = config.base_url.as_deref().filter(|url| !url.trim().is_empty());
    let definition = definition.map(parse_base_url).transpose()?;
    let vendor = vendor_url(config.provider).map(parse_base_url).transpose()?;
    Ok(match (definition, operator) {
        (Some(url), operator) if Some(&url) == operator.as_ref() => {
            ModelEndpoint { url: operator, source: UrlSource::Operator }
        }
        (Some(url), _) if Some(&url) == vendor.as_ref() => ModelEndpoint { url: vendor, source: UrlSource::Vendor },
        (Some(url), _) => ModelEndpoint { url: Some(url), source: UrlSource::Definition },
        (None, Some(url)) => ModelEndpoint { url: Some(url), source: UrlSource::Operator },
        (None, None) => ModelEndpoint { url: vendor, source: UrlSource::Vendor },
    })
}

/// Returns the key for a URL from `source`.
pub(crate) fn resolve_key(
    config: &ModelConfig,
    source: UrlSource,
    environment: &Environment,
) -> Result<SecretString, ModelError> {
    if let Some(key) = config.api_key.as_ref().filter(|key| !key.expose_secret().trim().is_empty()) {
        return Ok(key.clone());
    }
    let names = variable_names(config.provider);
    let operator_key = names.as_ref().and_then(|names| lookup(environment, &names.key));
    match (source, operator_key, names) {
        (UrlSource::Vendor | UrlSource::Operator, Some(key), _) => Ok(key.into()),
        (UrlSource::Vendor, None, Some(names)) => Err(ModelError::new(
            ErrorKind::Auth,
            format!("an API key for {} is required; set {} or the secret of the model", config.provider, names.key),
        )),
        _ => Ok(PLACEHOLDER_KEY.into()),
    }
}

/// Returns the name of the environment variable with the key of a provider, and whether it is set.
pub(crate) fn key_variable(provider: Provider, environment: &Environment) -> Option<(String, bool)> {
    let names = variable_names(provider)?;
    let is_set = lookup(environment, &names.key).is_some();
    Some((names.key, is_set))
}

fn variable_names(provider: Provider) -> Option<VariableNames> {
    let key = match provider {
        Provider::Helix => "HELIX_API_KEY",
        Provider::Scripted => return None,
        other => other.adapter()?.default_key_env_name()?,
    };
    let stem = key.strip_suffix("_API_KEY").unwrap_or(key);
    Some(VariableNames { key: key.to_owned(), base_url: format!("{stem}_BASE_URL") })
}

fn vendor_url(provider: Provider) -> Option<&'static str> {
    match provider {
        Provider::Anthropic => Some("https://api.anthropic.com"),
        Provider::OpenAi | Provider::OpenAiResponses => Some("https://api.openai.com/v1"),
        Provider::Google => Some("https://generativelanguage.googleapis.com"),
        Provider::Helix | Provider::Scripted | Provider::Other(_) => None,
    }
}

fn lookup(environment: &Environment, name: &str) -> Option<String> {
    environment(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty())
}

/// Parses a base URL. The result ends in a slash, so that paths can be joined to it and equal URLs compare equal.
fn parse_base_url(text: &str) -> Result<Url, ModelError> {
    let invalid = |rule: &str| ModelError::new(ErrorKind::InvalidRequest, format!("the base URL of the model {rule}"));
    let mut url = Url::parse(text.trim()).map_err(|error| invalid(&format!("must be a valid URL: {error}")))?;
    if !matches!(url.scheme(), "http" | "https") || url.host().is_none() {
        return Err(invalid("must be an http or https URL with a host"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(invalid("must not contain credentials; set the secret of the model instead"));
    }
    let path = url.path().trim_end_matches('/').to_owned();
    url.set_path(&format!("{path}/"));
    url.set_fragment(None);
    Ok(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(pairs: &'static [(&'static str, &'static str)]) -> impl Fn(&str) -> Option<String> {
        move |name| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
    }

    fn config(provider: Provider, base_url: Option<&str>) -> ModelConfig {
        ModelConfig { base_url: base_url.map(str::to_owned), ..ModelConfig::new(provider, "m") }
    }

    fn resolve(config: &ModelConfig, environment: &Environment) -> (String, UrlSource, String) {
        let endpoint = resolve_endpoint(config, environment).unwrap();
        let key = resolve_key(config, endpoint.source, environment).unwrap();
        (endpoint.url.map(String::from).unwrap_or_default(), endpoint.source, key.expose_secret().to_owned())
    }

    #[test]
    fn operator_key_is_sent_to_the_vendor_and_operator_urls_only() {
        let vendor = environment(&[("OPENAI_API_KEY", "sk-op")]);
        let own = environment(&[("OPENAI_API_KEY", "sk-op"), ("OPENAI_BASE_URL", "http://gateway:1/v1")]);
        let plain = config(Provider::OpenAi, None);
        let foreign = config(Provider::OpenAi, Some("https://evil.example/v1"));
        assert_eq!(resolve(&plain, &vendor), ("https://api.openai.com/v1/".into(), UrlSource::Vendor, "sk-op".into()));
        assert_eq!(resolve(&plain, &own), ("http://gateway:1/v1/".into(), UrlSource::Operator, "sk-op".into()));
        for environment in [&vendor as &Environment, &own] {
            let (url, source, key) = resolve(&foreign, environment);
            assert_eq!(
                (url.as_str(), source, key.as_str()),
                ("https://evil.example/v1/", UrlSource::Definition, "none")
            );
        }
        let same = config(Provider::OpenAi, Some("http://gateway:1/v1/"));
        assert_eq!(resolve(&same, &own).1, UrlSource::Operator);
        let vendors = config(Provider::OpenAi, Some("https://api.openai.com/v1"));
        assert_eq!(
            resolve(&vendors, &vendor),
            ("https://api.openai.com/v1/".into(), UrlSource::Vendor, "sk-op".into())
        );
    }

    #[test]
    fn key_of_a_definition_is_sent_to_the_url_of_the_definition() {
        let environment = environment(&[("ANTHROPIC_API_KEY", "sk-op")]);
        let mut config = config(Provider::Anthropic, Some("https://proxy.example"));
        config.api_key = Some("sk-own".into());
        assert_eq!(resolve(&config, &environment).2, "sk-own");
    }

    #[test]
    fn environment_variable_names_start_with_the_provider_name() {
        for (provider, stem) in [
            (Provider::Anthropic, "ANTHROPIC"),
            (Provider::OpenAi, "OPENAI"),
            (Provider::OpenAiResponses, "OPENAI"),
            (Provider::Google, "GEMINI"),
            (Provider::Helix, "HELIX"),
            ("groq".parse().unwrap(), "GROQ"),
        ] {
            let names = variable_names(provider).unwrap();
            assert_eq!((names.key, names.base_url), (format!("{stem}_API_KEY"), format!("{stem}_BASE_URL")));
        }
        assert!(variable_names(Provider::Scripted).is_none());
    }

    #[test]
    fn missing_key_is_an_error_for_a_vendor_and_not_for_a_local_server() {
        let empty = environment(&[("GEMINI_API_KEY", "  ")]);
        let error = resolve_key(&config(Provider::Google, None), UrlSource::Vendor, &empty).unwrap_err();
        assert!(error.kind == ErrorKind::Auth && error.message.contains("GEMINI_API_KEY"), "{error}");
        let placeholder = resolve_key(&config(Provider::OpenAi, None), UrlSource::Operator, &empty).unwrap();
        assert_eq!(placeholder.expose_secret(), "none");
        let ollama = config("ollama".parse().unwrap(), None);
        assert!(resolve_key(&ollama, UrlSource::Vendor, &empty).is_ok());
    }

    #[test]
    fn invalid_url_is_rejected_without_repeating_its_credentials() {
        for url in ["nonsense", "ftp://host/", "https://user:sk-secret@host/v1", "file:///etc"] {
            let error = resolve_endpoint(&config(Provider::OpenAi, Some(url)), &environment(&[])).unwrap_err();
            assert!(error.kind == ErrorKind::InvalidRequest && !error.message.contains("sk-secret"), "{url}: {error}");
        }
    }
}
