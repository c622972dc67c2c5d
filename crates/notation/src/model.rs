//! `Provider/model` and the two fields it stands for.

/// The word for the server's own choice.
const DEFAULT: &str = "default";

/// Provider and model as one text. What the text cannot say, other properties do.
pub(crate) fn written(provider: Option<&str>, model: Option<&str>) -> String {
    match (provider, model) {
        (Some(provider), Some(model)) => format!("{provider}/{model}"),
        (None, Some(model)) => model.to_owned(),
        (_, None) => DEFAULT.to_owned(),
    }
}

/// The provider before the first slash, if there is one, and the model behind it; neither for `default`.
pub(crate) fn parts(text: &str) -> (Option<&str>, Option<&str>) {
    match text.split_once('/') {
        Some((provider, model)) => (Some(provider), Some(model)),
        None if text == DEFAULT => (None, None),
        None => (None, Some(text)),
    }
}
