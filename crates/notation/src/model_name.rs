//! Converts a model name such as `OpenAI/gpt-4o` to the two fields provider and model, and back.

/// The name that stands for the server's default model.
const DEFAULT: &str = "default";

/// Formats provider and model. A provider without a model is omitted here; the property `llmConfig.provider` contains
/// it.
pub(crate) fn format_model(provider: Option<&str>, model: Option<&str>) -> String {
    match (provider, model) {
        (Some(provider), Some(model)) => format!("{provider}/{model}"),
        (None, Some(model)) => model.to_owned(),
        (_, None) => DEFAULT.to_owned(),
    }
}

/// Splits a text at the first slash into provider and model. `default` has neither.
pub(crate) fn split_model(text: &str) -> (Option<&str>, Option<&str>) {
    match text.split_once('/') {
        Some((provider, model)) => (Some(provider), Some(model)),
        None if text == DEFAULT => (None, None),
        None => (None, Some(text)),
    }
}
