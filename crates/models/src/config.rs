//! The configuration of a model: provider, name and overrides of the provider's defaults.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use genai::adapter::AdapterKind;
use secrecy::SecretString;

/// The default of [`ModelConfig::timeout`].
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(120);

/// The configuration of a model.
#[derive(Debug, Clone)]
pub struct ModelConfig {
    /// The provider of the model.
    pub provider: Provider,
    /// The name that the provider uses for the model.
    pub model: String,
    /// The base URL, in the form that the vendor's SDK expects: with `/v1` for OpenAI, without a version for Anthropic
    /// and Google.
    pub base_url: Option<String>,
    /// The API key. `None` uses the key from the environment.
    pub api_key: Option<SecretString>,
    /// The maximum wait for the first byte, and between two chunks. The time of the whole reply is not limited; a
    /// caller can end a long reply by dropping the future.
    pub timeout: Duration,
}

impl ModelConfig {
    /// Creates a configuration with the given provider and model. All other fields have their defaults.
    pub fn new(provider: Provider, model: impl Into<String>) -> Self {
        Self { provider, model: model.into(), base_url: None, api_key: None, timeout: DEFAULT_TIMEOUT }
    }
}

impl From<ModelRef> for ModelConfig {
    fn from(model: ModelRef) -> Self {
        Self::new(model.provider, model.model)
    }
}

/// The provider of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Provider {
    /// Anthropic's Messages API.
    Anthropic,
    /// OpenAI's Chat Completions API and compatible APIs.
    OpenAi,
    /// OpenAI's Responses API.
    OpenAiResponses,
    /// Google's Gemini API.
    Google,
    /// An external service that accepts an `LLMRequest` and runs a model.
    Helix,
    /// A script that replaces a model, for tests and demonstrations.
    Scripted,
    /// Another provider that the `genai` crate supports.
    Other(OtherProvider),
}

/// A provider that this crate supports only through its adapter in the `genai` crate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct OtherProvider(AdapterKind);

impl Provider {
    /// The name of the provider in configurations.
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

    /// The names of all providers.
    pub fn names() -> Vec<&'static str> {
        let own = [
            Provider::Anthropic,
            Provider::OpenAi,
            Provider::OpenAiResponses,
            Provider::Google,
            Provider::Helix,
            Provider::Scripted,
        ];
        let is_own =
            |kind: &&AdapterKind| !matches!(provider_by_name(kind.as_lower_str()), Some(Provider::Other(_)) | None);
        let others = AdapterKind::all().iter().filter(|kind| !is_own(kind)).map(AdapterKind::as_lower_str);
        own.iter().map(Provider::as_str).chain(others).collect()
    }

    /// The adapter of the `genai` crate; `None` for providers that do not use it.
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
        provider_by_name(&name.trim().to_ascii_lowercase())
            .ok_or_else(|| InvalidModelRef::UnknownProvider(name.to_owned()))
    }
}

fn provider_by_name(name: &str) -> Option<Provider> {
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

/// A reference to a model of the form `provider/model`, such as `OpenAI/gpt-4o`. Everything after the first slash is
/// the name of the model.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ModelRef {
    /// The provider of the model.
    pub provider: Provider,
    /// The name that the provider uses for the model.
    pub model: String,
}

/// An invalid reference to a model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidModelRef {
    /// The provider or the model is missing.
    #[error("a model must have the form `provider/model`, such as `anthropic/claude-sonnet-4`, got `{0}`")]
    Malformed(String),
    /// The provider does not exist.
    #[error("provider `{0}` does not exist; use anthropic, openai, openai-responses, google, helix or scripted")]
    UnknownProvider(String),
}

impl FromStr for ModelRef {
    type Err = InvalidModelRef;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let malformed = || InvalidModelRef::Malformed(text.to_owned());
        let (provider, model) = text.trim().split_once('/').ok_or_else(malformed)?;
        if provider.is_empty() || model.is_empty() {
            return Err(malformed());
        }
        Ok(Self { provider: provider.parse()?, model: model.to_owned() })
    }
}

impl fmt::Display for ModelRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.provider, self.model)
    }
}
