//! What can go wrong with a model, and whether asking again can help.

use std::time::Duration;

use reqwest::header::{DATE, HeaderMap, RETRY_AFTER};
use serde_json::Value;

/// More of a provider's words is not repeated.
const LONGEST_MESSAGE: usize = 400;

/// A model that did not answer. Carries no key and no prompt.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ModelError {
    /// What kind of failure it is.
    pub kind: ErrorKind,
    /// What happened, for people.
    pub message: String,
}

/// The kinds of failure, by who can act on them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// The key is missing, wrong, not allowed this, or out of money.
    Auth,
    /// Too many requests.
    RateLimit {
        /// When the provider wants to be asked again.
        retry_after: Option<Duration>,
    },
    /// The provider has trouble of its own.
    Overloaded {
        /// When the provider wants to be asked again.
        retry_after: Option<Duration>,
    },
    /// It was silent for too long.
    Timeout,
    /// It was not reached, or the connection broke.
    Network,
    /// It does not accept the request.
    InvalidRequest,
    /// It answered with something unreadable.
    Malformed,
    /// The provider cannot do this.
    Unsupported,
}

impl ErrorKind {
    /// A short name, for logs and metrics.
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
    /// An error of this kind.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }

    /// Whether the same request may succeed when it is made again.
    pub fn can_retry(&self) -> bool {
        use ErrorKind::{Network, Overloaded, RateLimit, Timeout};
        matches!(self.kind, RateLimit { .. } | Overloaded { .. } | Timeout | Network)
    }

    /// When the provider wants to be asked again, if it said so.
    pub fn retry_after(&self) -> Option<Duration> {
        match self.kind {
            ErrorKind::RateLimit { retry_after } | ErrorKind::Overloaded { retry_after } => retry_after,
            _ => None,
        }
    }

    /// What an answer with an error status means.
    pub(crate) fn from_status(provider: &str, status: u16, headers: &HeaderMap, body: &str) -> Self {
        let report = Report::of(body);
        let wait = wait_of_headers(headers).or_else(|| report.wait());
        let said = report.message.as_deref().map_or_else(|| excerpt(body), excerpt);
        let colon = if said.is_empty() { "" } else { ": " };
        Self::new(report.kind(Some(status), wait), format!("{provider} answered with status {status}{colon}{said}"))
    }

    /// What an error in the middle of a stream means.
    pub(crate) fn from_event(provider: &str, body: &Value) -> Self {
        let report = Report::of_value(body);
        let wait = report.wait();
        let said = report.message.as_deref().map_or_else(|| excerpt(&body.to_string()), excerpt);
        Self::new(report.kind(None, wait), format!("{provider} broke off with an error: {said}"))
    }

    /// What a failed exchange means. The URL is left out: it may carry a key.
    pub(crate) fn from_transport(provider: &str, error: &reqwest::Error) -> Self {
        if error.is_timeout() {
            return Self::new(ErrorKind::Timeout, format!("{provider} was silent for too long"));
        }
        let stage = if error.is_connect() { "cannot be reached" } else { "broke the connection" };
        Self::new(ErrorKind::Network, format!("{provider} {stage}: {}", innermost(error)))
    }

    /// The same error without `secret`, wherever the provider repeated it.
    pub(crate) fn without(mut self, secret: &str) -> Self {
        if !secret.is_empty() {
            self.message = self.message.replace(secret, "[redacted]");
        }
        self
    }
}

/// The innermost cause: it says what happened, the outer ones say where.
fn innermost(error: &(dyn std::error::Error + 'static)) -> String {
    let mut cause = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    excerpt(&cause.to_string())
}

/// The beginning of `text` on one line.
fn excerpt(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(LONGEST_MESSAGE) {
        Some((end, _)) => format!("{}…", line.get(..end).unwrap_or_default()),
        None => line,
    }
}

/// What a provider says about an error, in any of the forms they use.
#[derive(Default)]
struct Report {
    message: Option<String>,
    /// `type`, `code`, `status` and reasons: the words that classify it.
    words: Vec<String>,
    number: Option<u16>,
    retry_delay: Option<String>,
}

impl Report {
    fn of(body: &str) -> Self {
        serde_json::from_str(body).map(|body| Self::of_value(&body)).unwrap_or_default()
    }

    fn of_value(body: &Value) -> Self {
        let body = body.as_array().and_then(|bodies| bodies.first()).unwrap_or(body);
        let error = body.get("error").filter(|error| !error.is_null()).unwrap_or(body);
        let details = error.get("details").and_then(Value::as_array).into_iter().flatten();
        let words = ["type", "code", "status"].into_iter().filter_map(|name| error.get(name)?.as_str());
        let reasons = details.clone().filter_map(|detail| detail.get("reason")?.as_str());
        Self {
            message: error.as_str().or_else(|| error.get("message")?.as_str()).map(str::to_owned),
            words: words.chain(reasons).map(str::to_ascii_lowercase).collect(),
            number: error.get("code").and_then(Value::as_u64).and_then(|code| u16::try_from(code).ok()),
            retry_delay: details.filter_map(|detail| detail.get("retryDelay")?.as_str()).next().map(str::to_owned),
        }
    }

    fn says(&self, words: &[&str]) -> bool {
        self.words.iter().any(|word| words.contains(&word.as_str()))
    }

    /// Google puts the wait into the body, as in `"34s"`.
    fn wait(&self) -> Option<Duration> {
        let seconds: f64 = self.retry_delay.as_deref()?.strip_suffix('s')?.parse().ok()?;
        Duration::try_from_secs_f64(seconds).ok()
    }

    fn kind(&self, status: Option<u16>, retry_after: Option<Duration>) -> ErrorKind {
        // Some words are more precise than the status: no money left is a 429, and a wrong key may be a 400.
        if self.says(&["insufficient_quota", "billing_error", "invalid_api_key", "api_key_invalid"]) {
            return ErrorKind::Auth;
        }
        match status.or(self.number) {
            Some(401..=403) => ErrorKind::Auth,
            Some(408) => ErrorKind::Timeout,
            Some(429) => ErrorKind::RateLimit { retry_after },
            // A redirect is not followed: the key would go along.
            Some(300..=499) => ErrorKind::InvalidRequest,
            Some(500..) => ErrorKind::Overloaded { retry_after },
            _ => self.kind_by_word(retry_after),
        }
    }

    fn kind_by_word(&self, retry_after: Option<Duration>) -> ErrorKind {
        if self.says(&["rate_limit_error", "rate_limit_exceeded", "resource_exhausted"]) {
            ErrorKind::RateLimit { retry_after }
        } else if self.says(&["authentication_error", "permission_error", "unauthenticated", "permission_denied"]) {
            ErrorKind::Auth
        } else if self.says(&["timeout_error", "deadline_exceeded"]) {
            ErrorKind::Timeout
        } else if self.says(&[
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
            // `overloaded_error`, `api_error`, `server_error`, `unavailable`, `internal`, and what nobody has seen yet:
            // the provider failed after it had accepted the request.
            ErrorKind::Overloaded { retry_after }
        }
    }
}

/// `retry-after-ms`, else `retry-after` in seconds or as a date. A date is held against the answer's own date, so
/// that no clock is asked.
fn wait_of_headers(headers: &HeaderMap) -> Option<Duration> {
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
#[path = "error_tests.rs"]
mod tests;
