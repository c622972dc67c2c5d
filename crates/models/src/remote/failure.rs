//! genai's errors in this crate's words.

use genai::webc::StreamTimeout;
use genai::{BoxError, Error};

use crate::{ErrorKind, ModelError};

/// What `error` means. `secret` is kept out, even where the provider repeats it.
pub(super) fn of(provider: &str, error: Error, secret: &str) -> ModelError {
    let clean = |text: &str| if secret.is_empty() { text.to_owned() } else { text.replace(secret, "[redacted]") };
    match error {
        Error::WebStream { error, .. } => of_stream(provider, error, secret),
        Error::HttpError { status, body, headers, .. } => {
            ModelError::from_status(provider, status.as_u16(), &headers, &clean(&body))
        }
        Error::ChatResponse { body, .. } => ModelError::from_event(provider, &body),
        Error::StreamParse { serde_error, .. } => {
            ModelError::new(ErrorKind::Malformed, format!("{provider} sent what is not JSON: {serde_error}"))
        }
        Error::RequiresApiKey { .. }
        | Error::NoAuthResolver { .. }
        | Error::NoAuthData { .. }
        | Error::Resolver { .. } => ModelError::new(ErrorKind::Auth, format!("there is no key for {provider}")),
        Error::AdapterNotSupported { feature, .. } => {
            ModelError::new(ErrorKind::Unsupported, format!("{provider} cannot do this: {feature}"))
        }
        Error::WebModelCall { .. } | Error::WebAdapterCall { .. } => {
            ModelError::new(ErrorKind::InvalidRequest, format!("the request to {provider} cannot be made"))
        }
        // The rest is about a request that genai cannot put into the provider's form. Its text is left out, because
        // it may hold the whole request.
        _ => ModelError::new(ErrorKind::InvalidRequest, format!("the request does not fit {provider}")),
    }
}

fn of_stream(provider: &str, error: BoxError, secret: &str) -> ModelError {
    let error = match error.downcast::<Error>() {
        Ok(error) => return of(provider, *error, secret),
        Err(error) => error,
    };
    if error.is::<StreamTimeout>() {
        return ModelError::new(ErrorKind::Timeout, format!("{provider} was silent for too long"));
    }
    match error.downcast::<reqwest::Error>() {
        Ok(error) => ModelError::from_transport(provider, &error.without_url()),
        Err(_) => ModelError::new(ErrorKind::Malformed, format!("{provider} sent what is not text")),
    }
}
