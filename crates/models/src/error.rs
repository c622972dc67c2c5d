//! The errors of models, classified by who can resolve them.

use std::time::Duration;

use reqwest::header::{DATE, HeaderMap, RETRY_AFTER};
use serde_json::Value;

/// The maximum length of a provider's message, in characters.
const MAX_MESSAGE_CHARS: usize = 400;

/// The failure of a request to a model. It contains neither the key nor the prompt.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ModelError {
    /// The kind of failure.
    pub kind: ErrorKind,
    /// A message for the user.
    pub message: String,
}

/// The kinds of failure, classified by who can resolve them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// The key is missing or invalid, lacks a permission, or has no quota left.
    Auth,
    /// The provider limits the rate of requests.
    RateLimit {
        /// The wait that the provider asks for.
        retry_after: Option<Duration>,
    },
    /// The provider is overloaded or has an internal error.
    Overloaded {
        /// The wait that the provider asks for.
        retry_after: Option<Duration>,
    },
    /// The provider did not respond in time.
    Timeout,
    /// The connection failed or was interrupted.
    Network,
    /// The provider rejects the request.
    InvalidRequest,
    /// The response cannot be parsed.
    Malformed,
    /// The provider does not support the request.
    Unsupported,
}

impl ErrorKind {
    /// The name of the kind, for logs and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            ErrorKind::Auth => "auth",
            ErrorKind::RateLimit { .. } => "rate_limit",
            ErrorKind::Overloaded { .. } => "overloaded",
            ErrorKind::Timeout => "timeout",
            ErrorKind::Network => "network",
            ErrorKind::InvalidRequest => "invalid_request",
            ErrorKind::Malformed => "malformed",
            ErrorKind::Unsupported => "unsupported",
        }
    }
}

impl ModelError {
    /// Creates an error.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }

    /// Returns whether a retry of the same request may succeed.
    pub fn is_retryable(&self) -> bool {
        use ErrorKind::{Network, Overloaded, RateLimit, Timeout};
        matches!(self.kind, RateLimit { .. } | Overloaded { .. } | Timeout | Network)
    }

    /// The wait that the provider asks for, if any.
    pub fn retry_after(&self) -> Option<Duration> {
        match self.kind {
            ErrorKind::RateLimit { retry_after } | ErrorKind::Overloaded { retry_after } => retry_after,
            _ => None,
        }
    }

    /// Classifies a response with an error status.
    pub(crate) fn from_status(provider: &str, status: u16, headers: &HeaderMap, body: &str) -> Self {
        let details = ErrorDetails::parse(body);
        let retry_after = retry_after_header(headers).or_else(|| details.retry_after());
        let text = details.message.as_deref().map_or_else(|| excerpt(body), excerpt);
        let colon = if text.is_empty() { "" } else { ": " };
        let message = format!("{provider} returned status {status}{colon}{text}");
        Self::new(details.kind(Some(status), retry_after), message)
    }

    /// Classifies an error event within a stream.
    pub(crate) fn from_event(provider: &str, body: &Value) -> Self {
        let details = ErrorDetails::from_value(body);
        let text = details.message.as_deref().map_or_else(|| excerpt(&body.to_string()), excerpt);
        let kind = details.kind(None, details.retry_after());
        Self::new(kind, format!("{provider} ended the stream with an error: {text}"))
    }

    /// Classifies a transport error. The message omits the URL, which may contain a key.
    pub(crate) fn from_transport(provider: &str, error: &reqwest::Error) -> Self {
        if error.is_timeout() {
            return Self::new(ErrorKind::Timeout, format!("{provider} did not respond in time"));
        }
        let stage = if error.is_connect() { "cannot connect to" } else { "lost the connection to" };
        Self::new(ErrorKind::Network, format!("{stage} {provider}: {}", root_cause(error)))
    }

    /// Removes `secret` from the message, in case the provider repeated it.
    pub(crate) fn redact(mut self, secret: &str) -> Self {
        if !secret.is_empty() {
            self.message = self.message.replace(secret, "[redacted]");
        }
        self
    }
}

/// Returns the message of the innermost source, because the outer errors only name the operation.
fn root_cause(error: &(dyn std::error::Error + 'static)) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    excerpt(&cause.to_string())
}

/// Truncates `text` and joins its lines.
fn excerpt(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(MAX_MESSAGE_CHARS) {
        Some((end, _)) => format!("{}…", line.get(..end).unwrap_or_default()),
        None => line,
    }
}

/// The details of a provider's error, from any of the providers' formats.
#[derive(Default)]
struct ErrorDetails {
    message: Option<String>,
    /// The values of `type`, `code`, `status` and `reason`, in lower case.
    codes: Vec<String>,
    /// A numeric `code`, which is an HTTP status.
    status: Option<u16>,
    retry_delay: Option<String>,
}

impl ErrorDetails {
    fn parse(body: &str) -> Self {
        toolwright_budget::from_slice(body.as_bytes()).map(|body| Self::from_value(&body)).unwrap_or_default()
    }

    fn from_value(body: &Value) -> Self {
        let body = body.as_array().and_then(|bodies| bodies.first()).unwrap_or(body);
        let error = body.get("error").filter(|error| !error.is_null()).unwrap_or(body);
        let details = error.get("details").and_then(Value::as_array).into_iter().flatten();
        let codes = ["type", "code", "status"].into_iter().filter_map(|name| error.get(name)?.as_str());
        let reasons = details.clone().filter_map(|detail| detail.get("reason")?.as_str());
        Self {
            message: error.as_str().or_else(|| error.get("message")?.as_str()).map(str::to_owned),
            codes: codes.chain(reasons).map(str::to_ascii_lowercase).collect(),
            status: error.get("code").and_then(Value::as_u64).and_then(|code| u16::try_from(code).ok()),
            retry_delay: details.filter_map(|detail| detail.get("retryDelay")?.as_str()).next().map(str::to_owned),
        }
    }

    fn has_code(&self, codes: &[&str]) -> bool {
        self.codes.iter().any(|code| codes.contains(&code.as_str()))
    }

    /// The wait in the body of Google's errors, such as `"34s"`.
    fn retry_after(&self) -> Option<Duration> {
        let seconds: f64 = self.retry_delay.as_deref()?.strip_suffix('s')?.parse().ok()?;
        Duration::try_from_secs_f64(seconds).ok()
    }

    fn kind(&self, status: Option<u16>, retry_after: Option<Duration>) -> ErrorKind {
        // Some codes are more precise than the status. For example, an exhausted quota has the status 429, and an
        // invalid key may have the status 400.
        if self.has_code(&["insufficient_quota", "billing_error", "invalid_api_key", "api_key_invalid"]) {
            return ErrorKind::Auth;
        }
        match status.or(self.status) {
            Some(401..=403) => ErrorKind::Auth,
            Some(408) => ErrorKind::Timeout,
            Some(429) => ErrorKind::RateLimit { retry_after },
            // A redirect counts as an invalid request. The redirect is not followed, because the key would be sent to
            // its target.
            Some(300..=499) => ErrorKind::InvalidRequest,
            Some(500..) => ErrorKind::Overloaded { retry_after },
            _ => self.kind_by_code(retry_after),
        }
    }

    fn kind_by_code(&self, retry_after: Option<Duration>) -> ErrorKind {
        if self.has_code(&["rate_limit_error", "rate_limit_exceeded", "resource_exhausted"]) {
            ErrorKind::RateLimit { retry_after }
        } else if self.has_code(&["authentication_error", "permission_error", "unauthenticated", "permission_denied"]) {
            ErrorKind::Auth
        } else if self.has_code(&["timeout_error", "deadline_exceeded"]) {
            ErrorKind::Timeout
        } else if self.has_code(&[
            "invalid_request_error",
            "not_found_error",
            "request_too_large",
            "context_length_exceeded",
            "invalid_prompt",
            "invalid_argument",
            "failed_precondition",
            "not_found",
        ]) {
            ErrorKind::InvalidRequest
        } else {
            // `overloaded_error`, `api_error`, `server_error`, `unavailable`, `internal` and unknown codes: the
            // provider failed after it had accepted the request.
            ErrorKind::Overloaded { retry_after }
        }
    }
}

/// Reads the header `retry-after-ms`. If it is missing, reads `retry-after`, which contains seconds or a date. A date
/// is compared with the `date` header, so that the local clock does not matter.
fn retry_after_header(headers: &HeaderMap) -> Option<Duration> {
    let text = |name: &str| headers.get(name)?.to_str().ok().map(str::trim);
    if let Some(milliseconds) = text("retry-after-ms").and_then(|text| text.parse().ok()) {
        return Duration::try_from_secs_f64(f64::max(milliseconds, 0.0) / 1000.0).ok();
    }
    let after = text(RETRY_AFTER.as_str())?;
    if let Ok(seconds) = after.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds.max(0.0)).ok();
    }
    let date = |text: &str| Some(jiff::fmt::rfc2822::DateTimeParser::new().parse_zoned(text).ok()?.timestamp());
    let seconds = date(after)?.as_second().checked_sub(date(text(DATE.as_str())?)?.as_second())?;
    Some(Duration::from_secs(u64::try_from(seconds).unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use reqwest::header::HeaderValue;
    use serde_json::json;

    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.parse().unwrap(), HeaderValue::from_static(value))).collect()
    }

    fn kind(status: u16, body: Value) -> ErrorKind {
        ModelError::from_status("it", status, &HeaderMap::new(), &body.to_string()).kind
    }

    #[test]
    fn http_status_and_error_code_of_each_provider_select_the_error_kind() {
        let overloaded = ErrorKind::Overloaded { retry_after: None };
        let limited = ErrorKind::RateLimit { retry_after: None };
        let table = [
            (401, json!({"error": {"type": "authentication_error", "message": "x"}}), ErrorKind::Auth),
            (403, json!({}), ErrorKind::Auth),
            (
                400,
                json!({"error": {"status": "INVALID_ARGUMENT", "details": [{"reason": "API_KEY_INVALID"}]}}),
                ErrorKind::Auth,
            ),
            (429, json!({"error": {"code": "insufficient_quota"}}), ErrorKind::Auth),
            (429, json!({"error": {"code": "rate_limit_exceeded"}}), limited),
            (408, json!({}), ErrorKind::Timeout),
            (400, json!({"error": {"code": "context_length_exceeded"}}), ErrorKind::InvalidRequest),
            (404, json!({}), ErrorKind::InvalidRequest),
            (500, json!({}), overloaded),
            (503, json!([{"error": {"status": "UNAVAILABLE"}}]), overloaded),
            (529, json!({"type": "error", "error": {"type": "overloaded_error"}}), overloaded),
        ];
        for (status, body, expected) in table {
            assert_eq!(kind(status, body.clone()), expected, "{status} {body}");
        }
    }

    #[test]
    fn error_code_within_a_stream_selects_the_error_kind() {
        let table = [
            (json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}), "overloaded"),
            (json!({"type": "error", "error": {"type": "rate_limit_error"}}), "rate_limit"),
            (json!({"type": "server_error", "message": "oops"}), "overloaded"),
            (json!({"code": 429, "message": "slow down"}), "rate_limit"),
            (json!({"type": "invalid_request_error"}), "invalid_request"),
            (json!({"error": {"code": 503, "status": "UNAVAILABLE"}}), "overloaded"),
            (json!({"error": {"status": "DEADLINE_EXCEEDED"}}), "timeout"),
        ];
        for (body, expected) in table {
            assert_eq!(ModelError::from_event("it", &body).kind.as_str(), expected, "{body}");
        }
    }

    #[test]
    fn retry_after_is_read_from_headers_and_from_googles_body() {
        let retry_after = |pairs: &[(&'static str, &'static str)]| retry_after_header(&headers(pairs));
        assert_eq!(retry_after(&[("retry-after", "7")]), Some(Duration::from_secs(7)));
        assert_eq!(retry_after(&[("retry-after", "1.5")]), Some(Duration::from_millis(1500)));
        assert_eq!(retry_after(&[("retry-after-ms", "250"), ("retry-after", "7")]), Some(Duration::from_millis(250)));
        let dates = [("retry-after", "Wed, 21 Oct 2026 07:28:30 GMT"), ("date", "Wed, 21 Oct 2026 07:28:00 GMT")];
        assert_eq!(retry_after(&dates), Some(Duration::from_secs(30)));
        assert_eq!(retry_after(&[("retry-after", "soon")]), None);
        assert_eq!(retry_after(&[("retry-after", "-3")]), Some(Duration::ZERO));
        assert_eq!(retry_after(&[("retry-after", "1e300")]), None);
        let body = json!({"error": {"details": [{"@type": "RetryInfo", "retryDelay": "34.5s"}]}}).to_string();
        let error = ModelError::from_status("google", 429, &HeaderMap::new(), &body);
        assert_eq!(error.retry_after(), Some(Duration::from_millis(34_500)));
    }

    #[test]
    fn error_message_is_truncated_and_does_not_contain_the_key() {
        let body = format!("<html>\n  <p>{}</p> key sk-abc", "é".repeat(1000));
        let error = ModelError::from_status("it", 502, &HeaderMap::new(), &body);
        assert!(error.message.chars().count() < 450 && !error.message.contains('\n'), "{}", error.message);
        let error = ModelError::new(ErrorKind::Auth, "wrong key sk-abc").redact("sk-abc");
        assert_eq!(error.message, "wrong key [redacted]");
    }

    #[test]
    fn only_transient_errors_are_retryable() {
        let is_retryable = |kind| ModelError::new(kind, "").is_retryable();
        assert!(
            is_retryable(ErrorKind::RateLimit { retry_after: None })
                && is_retryable(ErrorKind::Overloaded { retry_after: None })
        );
        assert!(is_retryable(ErrorKind::Timeout) && is_retryable(ErrorKind::Network));
        for kind in [ErrorKind::Auth, ErrorKind::InvalidRequest, ErrorKind::Malformed, ErrorKind::Unsupported] {
            assert!(!is_retryable(kind), "{kind:?}");
        }
    }
}
