//! Where a provider is reached, and whose key goes there.
//!
//! A key from the environment belongs to the operator. It goes to the vendor's own address and to the address that
//! the operator sets beside it, never to one that a definition chose: whoever may write an agent must not be able to
//! have the key sent to a server of theirs. A definition with its own address brings its own key, or goes without.

use secrecy::{ExposeSecret, SecretString};
use url::Url;

use crate::{ErrorKind, ModelConfig, ModelError, Provider};

/// What is sent where the interface demands a key and there is none, as with most local servers.
const NO_KEY: &str = "none";

/// An address, and who chose it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// The address, as the vendor's own SDK takes it; None for a provider whose address this crate does not know.
    pub url: Option<Url>,
    /// Who chose it.
    pub source: UrlSource,
}

/// Who chose an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UrlSource {
    /// Nobody: it is the vendor's own.
    Vendor,
    /// The operator, by environment. Exempt from the egress rules.
    Operator,
    /// Whoever wrote the definition. Under the egress rules.
    Definition,
}

/// A lookup of environment variables.
pub(crate) type Environment = dyn Fn(&str) -> Option<String> + Send + Sync;

/// The variables of a provider.
struct Variables {
    key: String,
    base_url: String,
}

/// The address for `config`.
pub(crate) fn endpoint(config: &ModelConfig, environment: &Environment) -> Result<Endpoint, ModelError> {
    let of_operator = variables(config.provider).and_then(|names| set(environment, &names.base_url));
    let of_operator = of_operator.map(|url| parse(&url)).transpose()?;
    let of_definition = config.base_url.as_deref().filter(|url| !url.trim().is_empty()).map(parse).transpose()?;
    let vendor = vendor_url(config.provider).map(parse).transpose()?;
    Ok(match (of_definition, of_operator) {
        (Some(url), operator) if Some(&url) == operator.as_ref() => {
            Endpoint { url: operator, source: UrlSource::Operator }
        }
        (Some(url), _) if Some(&url) == vendor.as_ref() => Endpoint { url: vendor, source: UrlSource::Vendor },
        (Some(url), _) => Endpoint { url: Some(url), source: UrlSource::Definition },
        (None, Some(url)) => Endpoint { url: Some(url), source: UrlSource::Operator },
        (None, None) => Endpoint { url: vendor, source: UrlSource::Vendor },
    })
}

/// The key to send to `source`.
pub(crate) fn key(
    config: &ModelConfig,
    source: UrlSource,
    environment: &Environment,
) -> Result<SecretString, ModelError> {
    if let Some(key) = config.api_key.as_ref().filter(|key| !key.expose_secret().trim().is_empty()) {
        return Ok(key.clone());
    }
    let names = variables(config.provider);
    let of_operator = names.as_ref().and_then(|names| set(environment, &names.key));
    match (source, of_operator, names) {
        (UrlSource::Vendor | UrlSource::Operator, Some(key), _) => Ok(key.into()),
        (UrlSource::Vendor, None, Some(names)) => Err(ModelError::new(
            ErrorKind::Auth,
            format!("there is no key for {}; set {} or give the model a secret", config.provider, names.key),
        )),
        _ => Ok(NO_KEY.into()),
    }
}

fn variables(provider: Provider) -> Option<Variables> {
    let key = match provider {
        Provider::Helix => "HELIX_API_KEY",
        Provider::Scripted => return None,
        other => other.adapter()?.default_key_env_name()?,
    };
    let stem = key.strip_suffix("_API_KEY").unwrap_or(key);
    Some(Variables { key: key.to_owned(), base_url: format!("{stem}_BASE_URL") })
}

fn vendor_url(provider: Provider) -> Option<&'static str> {
    match provider {
        Provider::Anthropic => Some("https://api.anthropic.com"),
        Provider::OpenAi | Provider::OpenAiResponses => Some("https://api.openai.com/v1"),
        Provider::Google => Some("https://generativelanguage.googleapis.com"),
        Provider::Helix | Provider::Scripted | Provider::Other(_) => None,
    }
}

fn set(environment: &Environment, name: &str) -> Option<String> {
    environment(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty())
}

/// A URL that ends in a slash, so that paths can be joined to it and two spellings of one address are equal.
fn parse(text: &str) -> Result<Url, ModelError> {
    let wrong = |why: &str| ModelError::new(ErrorKind::InvalidRequest, format!("the base URL of the model {why}"));
    let mut url = Url::parse(text.trim()).map_err(|error| wrong(&format!("cannot be read: {error}")))?;
    if !matches!(url.scheme(), "http" | "https") || url.host().is_none() {
        return Err(wrong("is not an http or https address"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(wrong("holds a credential; give the model a secret instead"));
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
        let endpoint = endpoint(config, environment).unwrap();
        let key = key(config, endpoint.source, environment).unwrap();
        (endpoint.url.map(String::from).unwrap_or_default(), endpoint.source, key.expose_secret().to_owned())
    }

    #[test]
    fn the_operators_key_goes_to_the_vendor_and_to_the_operators_address_only() {
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
    fn a_definitions_own_key_goes_anywhere() {
        let environment = environment(&[("ANTHROPIC_API_KEY", "sk-op")]);
        let mut config = config(Provider::Anthropic, Some("https://proxy.example"));
        config.api_key = Some("sk-own".into());
        assert_eq!(resolve(&config, &environment).2, "sk-own");
    }

    #[test]
    fn each_provider_has_its_variables() {
        for (provider, stem) in [
            (Provider::Anthropic, "ANTHROPIC"),
            (Provider::OpenAi, "OPENAI"),
            (Provider::OpenAiResponses, "OPENAI"),
            (Provider::Google, "GEMINI"),
            (Provider::Helix, "HELIX"),
            ("groq".parse().unwrap(), "GROQ"),
        ] {
            let names = variables(provider).unwrap();
            assert_eq!((names.key, names.base_url), (format!("{stem}_API_KEY"), format!("{stem}_BASE_URL")));
        }
        assert!(variables(Provider::Scripted).is_none());
    }

    #[test]
    fn a_missing_key_names_its_variable_and_a_local_server_needs_none() {
        let empty = environment(&[("GEMINI_API_KEY", "  ")]);
        let error = key(&config(Provider::Google, None), UrlSource::Vendor, &empty).unwrap_err();
        assert!(error.kind == ErrorKind::Auth && error.message.contains("GEMINI_API_KEY"), "{error}");
        assert_eq!(key(&config(Provider::OpenAi, None), UrlSource::Operator, &empty).unwrap().expose_secret(), "none");
        let ollama = config("ollama".parse().unwrap(), None);
        assert!(key(&ollama, UrlSource::Vendor, &empty).is_ok());
    }

    #[test]
    fn an_address_that_is_none_is_refused_without_repeating_it() {
        for url in ["nonsense", "ftp://host/", "https://user:sk-secret@host/v1", "file:///etc"] {
            let error = endpoint(&config(Provider::OpenAi, Some(url)), &environment(&[])).unwrap_err();
            assert!(error.kind == ErrorKind::InvalidRequest && !error.message.contains("sk-secret"), "{url}: {error}");
        }
    }
}
