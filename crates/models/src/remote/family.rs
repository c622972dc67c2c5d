//! The protocols that providers share.

use genai::adapter::AdapterKind;

use crate::schema::Dialect;

/// A protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Family {
    /// Anthropic's Messages.
    Anthropic,
    /// OpenAI's Chat Completions and their imitations.
    Chat,
    /// OpenAI's Responses.
    Responses,
    /// Google's `generateContent`.
    Gemini,
    /// One that only genai knows.
    Other,
}

impl Family {
    pub fn of(adapter: AdapterKind) -> Self {
        match adapter {
            AdapterKind::Anthropic | AdapterKind::MiniMax => Family::Anthropic,
            AdapterKind::OpenAIResp => Family::Responses,
            AdapterKind::Gemini => Family::Gemini,
            AdapterKind::GeminiIx
            | AdapterKind::Vertex
            | AdapterKind::Cohere
            | AdapterKind::Ollama
            | AdapterKind::OllamaCloud
            | AdapterKind::GithubCopilot
            | AdapterKind::OpenCodeGo
            | AdapterKind::BedrockApi => Family::Other,
            _ => Family::Chat,
        }
    }

    /// Whether `model` looks at pictures. A model that does not would refuse the whole request, so a name that says
    /// nothing counts as no.
    pub fn sees_images(self, model: &str) -> bool {
        let name = model.rsplit('/').next().unwrap_or(model).to_ascii_lowercase();
        let begins = |series: &[&str]| series.iter().any(|start| name.starts_with(start));
        let says = ["vision", "-vl", "vl-", "llava", "pixtral"].iter().any(|word| name.contains(word));
        match self {
            Family::Anthropic => begins(&["claude"]) && !begins(&["claude-2", "claude-instant"]),
            Family::Gemini => begins(&["gemini"]),
            Family::Chat | Family::Responses => {
                says || openai_reasons(&name) && !begins(&["o1-mini", "o3-mini"])
                    || begins(&[
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
            Family::Other => false,
        }
    }

    /// The schemas that it reads.
    pub fn dialect(self) -> Dialect {
        match self {
            Family::Gemini => Dialect::Gemini,
            _ => Dialect::Full,
        }
    }
}

/// The first numbers of a model's name, such as (4, 5) of `claude-sonnet-4-5-20250929`. A date is no version.
pub(super) fn version(model: &str) -> Option<(u32, u32)> {
    let mut numbers = model
        .split(['-', '.', '@', ':', '/'])
        .skip_while(|part| part.parse::<u32>().is_err())
        .map_while(|part| part.parse::<u32>().ok().filter(|number| *number < 100));
    let major = numbers.next()?;
    Some((major, numbers.next().unwrap_or(0)))
}

/// Whether `model` is one of OpenAI's that think first: they take no temperature and give encrypted reasoning.
pub(super) fn openai_reasons(model: &str) -> bool {
    let name = model.rsplit('/').next().unwrap_or(model);
    let series = ["o1", "o3", "o4", "gpt-5", "gpt-6", "gpt-7", "codex"].iter().any(|series| name.starts_with(series));
    series && !name.contains("-chat")
}

/// Whether `model` is one of Anthropic's that refuse sampling parameters: Opus from 4.7 on, and every later generation.
pub(super) fn anthropic_without_sampling(model: &str) -> bool {
    match version(model) {
        Some(version) if model.contains("opus") => version >= (4, 7),
        Some(version) => version >= (5, 0),
        None => false,
    }
}

/// Whether `model` is one of Anthropic's that can be held to a schema.
pub(super) fn anthropic_fits_schema(model: &str) -> bool {
    match version(model) {
        Some(version) if model.contains("opus") => version >= (4, 1),
        Some(version) => version >= (4, 5),
        None => false,
    }
}

/// Whether `model` is one of Google's that can offer tools and be held to JSON at once.
pub(super) fn gemini_mixes_tools_and_json(model: &str) -> bool {
    version(model).is_some_and(|version| version >= (3, 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_from_names() {
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
    fn what_a_model_takes_follows_from_its_name() {
        assert!(openai_reasons("gpt-5-mini") && openai_reasons("o3") && openai_reasons("openai/o4-mini"));
        assert!(!openai_reasons("gpt-4o") && !openai_reasons("gpt-5-chat-latest"));
        assert!(anthropic_without_sampling("claude-opus-4-7") && !anthropic_without_sampling("claude-sonnet-4-6"));
        assert!(anthropic_fits_schema("claude-opus-4-1") && anthropic_fits_schema("claude-haiku-4-5"));
        assert!(!anthropic_fits_schema("claude-sonnet-4-20250514") && !anthropic_fits_schema("claude-3-5-sonnet"));
        assert!(Family::Chat.sees_images("gpt-4o-mini") && Family::Chat.sees_images("qwen/qwen2.5-vl-72b"));
        assert!(!Family::Chat.sees_images("llama-3.3-70b") && !Family::Chat.sees_images("o3-mini"));
        assert!(Family::Anthropic.sees_images("claude-haiku-4-5") && !Family::Anthropic.sees_images("MiniMax-M2"));
        assert!(gemini_mixes_tools_and_json("gemini-3-pro") && !gemini_mixes_tools_and_json("gemini-2.5-pro"));
    }
}
