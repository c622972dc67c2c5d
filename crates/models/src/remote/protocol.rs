//! The wire protocols of providers, and the capabilities of models by name.

use genai::adapter::AdapterKind;

use crate::schema::Dialect;

/// A wire protocol, which several providers may share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Protocol {
    /// Anthropic's Messages API.
    Anthropic,
    /// OpenAI's Chat Completions API and compatible APIs.
    Chat,
    /// OpenAI's Responses API.
    Responses,
    /// Google's `generateContent`.
    Gemini,
    /// A protocol that only `genai` knows.
    Other,
}

impl Protocol {
    pub(super) fn from_adapter(adapter: AdapterKind) -> Self {
        match adapter {
            AdapterKind::Anthropic | AdapterKind::MiniMax => Protocol::Anthropic,
            AdapterKind::OpenAIResp => Protocol::Responses,
            AdapterKind::Gemini => Protocol::Gemini,
            AdapterKind::GeminiIx
            | AdapterKind::Vertex
            | AdapterKind::Cohere
            | AdapterKind::Ollama
            | AdapterKind::OllamaCloud
            | AdapterKind::GithubCopilot
            | AdapterKind::OpenCodeGo
            | AdapterKind::BedrockApi => Protocol::Other,
            _ => Protocol::Chat,
        }
    }

    /// Returns whether `model` accepts images. Returns false for an unknown model, because a model that accepts no
    /// images would reject the whole request.
    pub(super) fn supports_images(self, model: &str) -> bool {
        let name = model.rsplit('/').next().unwrap_or(model).to_ascii_lowercase();
        let has_prefix = |prefixes: &[&str]| prefixes.iter().any(|prefix| name.starts_with(prefix));
        let is_vision_model = ["vision", "-vl", "vl-", "llava", "pixtral"].iter().any(|marker| name.contains(marker));
        match self {
            Protocol::Anthropic => has_prefix(&["claude"]) && !has_prefix(&["claude-2", "claude-instant"]),
            Protocol::Gemini => has_prefix(&["gemini"]),
            Protocol::Chat | Protocol::Responses => {
                is_vision_model
                    || is_openai_reasoning_model(&name) && !has_prefix(&["o1-mini", "o3-mini"])
                    || has_prefix(&[
                        "gpt-4o",
                        "gpt-4.1",
                        "gpt-4.5",
                        "gpt-4-turbo",
                        "gpt-5",
                        "chatgpt-4o",
                        "claude",
                        "gemini",
                    ])
            }
            Protocol::Other => false,
        }
    }

    /// The dialect of JSON Schema that the protocol accepts.
    pub(super) fn dialect(self) -> Dialect {
        match self {
            Protocol::Gemini => Dialect::Gemini,
            _ => Dialect::Full,
        }
    }
}

/// Returns the version in a model's name, such as (4, 5) for `claude-sonnet-4-5-20250929`. A date is not part of the
/// version.
pub(super) fn version(model: &str) -> Option<(u32, u32)> {
    let mut numbers = model
        .split(['-', '.', '@', ':', '/'])
        .skip_while(|part| part.parse::<u32>().is_err())
        .map_while(|part| part.parse::<u32>().ok().filter(|number| *number < 100));
    let major = numbers.next()?;
    Some((major, numbers.next().unwrap_or(0)))
}

/// Returns whether `model` is a reasoning model of OpenAI. Such models accept no temperature and return encrypted
/// reasoning.
pub(super) fn is_openai_reasoning_model(model: &str) -> bool {
    let name = model.rsplit('/').next().unwrap_or(model);
    let is_reasoning_series =
        ["o1", "o3", "o4", "gpt-5", "gpt-6", "gpt-7", "codex"].iter().any(|series| name.starts_with(series));
    is_reasoning_series && !name.contains("-chat")
}

/// Returns whether `model` is an Anthropic model that rejects sampling parameters: Opus since version 4.7, and all
/// models since version 5.0.
pub(super) fn anthropic_rejects_sampling(model: &str) -> bool {
    match version(model) {
        Some(version) if model.contains("opus") => version >= (4, 7),
        Some(version) => version >= (5, 0),
        None => false,
    }
}

/// Returns whether `model` is an Anthropic model that can enforce a response schema.
pub(super) fn anthropic_supports_schema(model: &str) -> bool {
    match version(model) {
        Some(version) if model.contains("opus") => version >= (4, 1),
        Some(version) => version >= (4, 5),
        None => false,
    }
}

/// Returns whether `model` is a Google model that supports tools and a JSON response format in one request.
pub(super) fn gemini_supports_json_with_tools(model: &str) -> bool {
    version(model).is_some_and(|version| version >= (3, 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn model_version_is_parsed_from_the_model_name() {
        let table = [
            ("claude-sonnet-4-20250514", Some((4, 0))),
            ("claude-sonnet-4-5-20250929", Some((4, 5))),
            ("claude-opus-4-1", Some((4, 1))),
            ("claude-3-5-sonnet-latest", Some((3, 5))),
            ("gemini-2.5-pro", Some((2, 5))),
            ("gemini-3-pro-preview", Some((3, 0))),
            ("models/gemini-1.5-pro", Some((1, 5))),
            ("claude", None),
        ];
        for (model, expected) in table {
            assert_eq!(version(model), expected, "{model}");
        }
    }

    #[test]
    fn model_capabilities_are_derived_from_the_model_name() {
        assert!(
            is_openai_reasoning_model("gpt-5-mini")
                && is_openai_reasoning_model("o3")
                && is_openai_reasoning_model("openai/o4-mini")
        );
        assert!(!is_openai_reasoning_model("gpt-4o") && !is_openai_reasoning_model("gpt-5-chat-latest"));
        assert!(anthropic_rejects_sampling("claude-opus-4-7") && !anthropic_rejects_sampling("claude-sonnet-4-6"));
        assert!(anthropic_supports_schema("claude-opus-4-1") && anthropic_supports_schema("claude-haiku-4-5"));
        assert!(
            !anthropic_supports_schema("claude-sonnet-4-20250514") && !anthropic_supports_schema("claude-3-5-sonnet")
        );
        assert!(Protocol::Chat.supports_images("gpt-4o-mini") && Protocol::Chat.supports_images("qwen/qwen2.5-vl-72b"));
        assert!(!Protocol::Chat.supports_images("llama-3.3-70b") && !Protocol::Chat.supports_images("o3-mini"));
        assert!(
            Protocol::Anthropic.supports_images("claude-haiku-4-5")
                && !Protocol::Anthropic.supports_images("MiniMax-M2")
        );
        assert!(gemini_supports_json_with_tools("gemini-3-pro") && !gemini_supports_json_with_tools("gemini-2.5-pro"));
    }
}
