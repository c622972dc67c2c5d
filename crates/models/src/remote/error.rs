//! Converts errors of `genai`.

use genai::webc::StreamTimeout;
use genai::{BoxError, Error};

use crate::{ErrorKind, ModelError};

/// Converts an error. `secret` is removed from the message, in case the provider repeated it.
pub(super) fn from_genai(provider: &str, error: Error, secret: &str) -> ModelError {
    let redact = |text: &str| if secret.is_empty() { text.to_owned() } else { text.replace(secret, "[redacted]") };
    match error {
        Error::WebStream { error, .. } => from_stream(provider, error, secret),
        Error::HttpError { status, body, headers, .. } => {
            ModelError::from_status(provider, status.as_u16(), &headers, &redact(&body))
        }
        Error::ChatResponse { body, .. } => ModelError::from_event(provider, &body),
        Error::StreamParse { serde_error, .. } => {
            ModelError::new(ErrorKind::Malformed, format!("{provider} sent invalid JSON: {serde_error}"))
        }
        Error::RequiresApiKey { .. }
        | Error::NoAuthResolver { .. }
        | Error::NoAuthData { .. }
        | Error::Resolver { .. } => ModelError::new(ErrorKind::Auth, format!("an API key for {provider} is required")),
        Error::AdapterNotSupported { feature, .. } => {
            ModelError::new(ErrorKind::Unsupported, format!("{provider} does not support {feature}"))
        }
        Error::WebModelCall { .. } | Error::WebAdapterCall { .. } => {
            ModelError::new(ErrorKind::InvalidRequest, format!("the request to {provider} cannot be built"))
        }
        // All other errors mean that `genai` cannot convert the request to the provider's format. The error's text is
        // omitted, because it may contain the whole request.
        _ => ModelError::new(
            ErrorKind::InvalidRequest,
            format!("the request cannot be converted to the format of {provider}"),
        ),
    }
}

fn from_stream(provider: &str, error: BoxError, secret: &str) -> ModelError {
    let error = match error.downcast::<Error>() {
        Ok(error) => return from_genai(provider, *error, secret),
        Err(error) => error,
    };
    if error.is::<StreamTimeout>() {
        return ModelError::new(ErrorKind::Timeout, format!("{provider} did not respond in time"));
    }
    match error.downcast::<reqwest::Error>() {
        Ok(error) => ModelError::from_transport(provider, &error.without_url()),
        Err(_) => ModelError::new(ErrorKind::Malformed, format!("{provider} sent text that is not valid UTF-8")),
    }
}
