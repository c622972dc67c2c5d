//! Which model: provider, name, and what overrides the provider's defaults.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use genai::adapter::AdapterKind;
use secrecy::SecretString;

/// How long a model may be silent, unless configured.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(120);

/// What a model is built from.
#[derive(Debug, Clone)]
pub struct ModelConfig {
    /// Who runs it.
    pub provider: Provider,
    /// Its name there.
    pub model: String,
    /// Where the provider is reached, as the vendor's own SDK takes it (OpenAI with `/v1`, Anthropic and Google
    /// without).
    pub base_url: Option<String>,
    /// The key, if it does not come from the environment.
    pub api_key: Option<SecretString>,
    /// The longest silence: until the first byte, and between two. Not a limit on the whole reply; a caller that wants
    /// one drops the future.
    pub timeout: Duration,
}

impl ModelConfig {
    /// `model` at `provider`, everything else by default.
    pub fn new(provider: Provider, model: impl Into<String>) -> Self {
        Self { provider, model: model.into(), base_url: None, api_key: None, timeout: DEFAULT_TIMEOUT }
    }
}

impl From<ModelRef> for ModelConfig {
    fn from(named: ModelRef) -> Self {
        Self::new(named.provider, named.model)
    }
}

/// Who runs a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Provider {
    /// Anthropic's Messages API.
    Anthropic,
    /// OpenAI's Chat Completions, and everything that imitates them.
    OpenAi,
    /// OpenAI's Responses API.
    OpenAiResponses,
    /// Google's Gemini API.
    Google,
    /// An external reasoner that takes an `LLMRequest`.
    Helix,
    /// Rules instead of a model.
    Scripted,
    /// Another one that the `genai` crate speaks to, by its name there.
    Other(OtherProvider),
}

/// A provider that this crate passes through without knowing more than its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct OtherProvider(AdapterKind);

impl Provider {
    /// The name in configurations.
    pub fn as_str(&self) -> &'static str {
        match self {
            Provider::Anthropic => "anthropic",
            Provider::OpenAi => "openai",
            Provider::OpenAiResponses => "openai-responses",
            Provider::Google => "google",
            Provider::Helix => "helix",
            Provider::Scripted => "scripted",
            Provider::Other(OtherProvider(kind)) => kind.as_lower_str(),
        }
    }

    /// The names of all providers, for messages and choices.
    pub fn names() -> Vec<&'static str> {
        let own = [
            Provider::Anthropic,
            Provider::OpenAi,
            Provider::OpenAiResponses,
            Provider::Google,
            Provider::Helix,
            Provider::Scripted,
        ];
        let known = |kind: &&AdapterKind| !matches!(named(kind.as_lower_str()), Some(Provider::Other(_)) | None);
        let passed = AdapterKind::all().iter().filter(|kind| !known(kind)).map(AdapterKind::as_lower_str);
        own.iter().map(Provider::as_str).chain(passed).collect()
    }

    /// The adapter of the `genai` crate; None for the providers that do without it.
    pub(crate) fn adapter(self) -> Option<AdapterKind> {
        match self {
            Provider::Anthropic => Some(AdapterKind::Anthropic),
            Provider::OpenAi => Some(AdapterKind::OpenAI),
            Provider::OpenAiResponses => Some(AdapterKind::OpenAIResp),
            Provider::Google => Some(AdapterKind::Gemini),
            Provider::Other(OtherProvider(kind)) => Some(kind),
            Provider::Helix | Provider::Scripted => None,
        }
    }
}

impl fmt::Display for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Provider {
    type Err = InvalidModelRef;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        named(&name.trim().to_ascii_lowercase()).ok_or_else(|| InvalidModelRef::UnknownProvider(name.to_owned()))
    }
}

fn named(name: &str) -> Option<Provider> {
    Some(match name {
        "anthropic" => Provider::Anthropic,
        "openai" => Provider::OpenAi,
        "openai-responses" | "openai_responses" | "openai_resp" => Provider::OpenAiResponses,
        "google" | "gemini" => Provider::Google,
        "helix" => Provider::Helix,
        "scripted" => Provider::Scripted,
        other => Provider::Other(OtherProvider(AdapterKind::from_lower_str(&other.replace('-', "_"))?)),
    })
}

/// A model written as `provider/model`, such as `OpenAI/gpt-4o`. What follows the first slash is the model's name,
/// further slashes included.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ModelRef {
    /// Who runs it.
    pub provider: Provider,
    /// Its name there.
    pub model: String,
}

/// A text that names no model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidModelRef {
    /// There is no provider, or no model.
    #[error("`{0}` is not of the form `provider/model`, such as `anthropic/claude-sonnet-4`")]
    NotAPair(String),
    /// There is no such provider.
    #[error("provider `{0}` is not known; anthropic, openai, openai-responses, google, helix and scripted are")]
    UnknownProvider(String),
}

impl FromStr for ModelRef {
    type Err = InvalidModelRef;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let not_a_pair = || InvalidModelRef::NotAPair(text.to_owned());
        let (provider, model) = text.trim().split_once('/').ok_or_else(not_a_pair)?;
        if provider.is_empty() || model.is_empty() {
            return Err(not_a_pair());
        }
        Ok(Self { provider: provider.parse()?, model: model.to_owned() })
    }
}

impl fmt::Display for ModelRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.provider, self.model)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn provider_and_model_are_read_from_one_string() {
        let read: ModelRef = "OpenAI/gpt-3.5-turbo".parse().unwrap();
        assert_eq!(read, ModelRef { provider: Provider::OpenAi, model: "gpt-3.5-turbo".into() });
        assert_eq!(read.to_string(), "openai/gpt-3.5-turbo");
        let nested: ModelRef = "open_router/anthropic/claude-sonnet-4".parse().unwrap();
        assert_eq!(nested.model, "anthropic/claude-sonnet-4");
        assert_eq!(nested.provider.as_str(), "open_router");
        assert_eq!("gemini/gemini-2.5-pro".parse::<ModelRef>().unwrap().provider, Provider::Google);
    }

    #[test]
    fn what_names_no_model_is_refused() {
        for text in ["", "gpt-4o", "/gpt-4o", "openai/", "acme/llm"] {
            assert!(text.parse::<ModelRef>().is_err(), "{text}");
        }
    }

    #[test]
    fn every_listed_provider_is_read_back() {
        let names = Provider::names();
        assert!(names.len() > 30);
        for name in names {
            assert_eq!(name.parse::<Provider>().unwrap().as_str(), name);
        }
    }

    #[test]
    fn a_key_is_not_printed() {
        let config = ModelConfig { api_key: Some("sk-very-secret".into()), ..ModelConfig::new(Provider::OpenAi, "m") };
        assert!(!format!("{config:?}").contains("sk-very-secret"));
    }
}
