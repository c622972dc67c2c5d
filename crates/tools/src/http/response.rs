//! Interprets HTTP responses. The status decides between a reply and a failure; the content type decides how the body
//! of a reply is read.

use std::collections::BTreeMap;

use reqwest::StatusCode;
use reqwest::header::{CONTENT_TYPE, HeaderMap, RETRY_AFTER};
use serde_json::{Value, json};
use toolwright_budget::JsonError;
use toolwright_types::{AttachmentKind, Clock, ErrorCode, ToolError};

use crate::ToolFailure;
use crate::executor::{BackendReply, Redactor, cancelled_failure};
use crate::http_client::{HttpResponse, over_limit};
use crate::ports::Payload;

/// The maximum number of characters of an error body that the error's details contain.
const MAX_ERROR_PREVIEW_CHARS: usize = 2_000;

/// Response headers that are passed on to the caller. All others are dropped, in particular cookies.
const FORWARDED_HEADERS: [&str; 9] = [
    "content-type",
    "etag",
    "last-modified",
    "link",
    "location",
    "retry-after",
    "x-request-id",
    "x-total-count",
    "content-language",
];

/// Converts a response to a reply. Redacts an error body before truncating it, because the executor cannot recognize a
/// truncated secret.
pub(crate) async fn interpret(
    response: HttpResponse,
    clock: &dyn Clock,
    redactor: &Redactor,
) -> Result<BackendReply, ToolFailure> {
    if !response.status.is_success() {
        return Err(status_failure(&response, clock, redactor));
    }
    let content_type = content_type(&response.headers);
    let mut reply = BackendReply {
        http_status: Some(response.status.as_u16()),
        headers: forwarded_headers(&response.headers),
        ..BackendReply::default()
    };
    match media_type(&content_type) {
        _ if response.body.is_empty() => {}
        MediaType::Json => {
            reply.output = toolwright_budget::parse(response.body).await.map_err(|error| {
                let mut failure = match error {
                    JsonError::Malformed(error) => {
                        let message = format!("the response body is not valid JSON: {error}");
                        ToolFailure::fatal(ErrorCode::ProviderError, message).reason("unreadable_body")
                    }
                    JsonError::Limit(error) => over_limit(error),
                    JsonError::Stopped(_) => cancelled_failure(),
                };
                failure.http_status = Some(response.status.as_u16());
                failure
            })?;
        }
        MediaType::Text | MediaType::Table => {
            let text = String::from_utf8_lossy(&response.body);
            if matches!(text, std::borrow::Cow::Owned(_)) {
                reply.warnings.push("the response is not UTF-8; invalid bytes were replaced".into());
            }
            reply.output = Value::String(text.into_owned());
            if matches!(media_type(&content_type), MediaType::Table) {
                reply.payloads.push(Payload { kind: AttachmentKind::Table, content_type, bytes: response.body });
            }
        }
        MediaType::Image | MediaType::Binary => {
            let kind = if matches!(media_type(&content_type), MediaType::Image) {
                AttachmentKind::Image
            } else {
                AttachmentKind::Blob
            };
            reply.output = json!({ "contentType": content_type, "bytes": response.body.len() });
            reply.payloads.push(Payload { kind, content_type, bytes: response.body });
        }
    }
    Ok(reply)
}

fn status_failure(response: &HttpResponse, clock: &dyn Clock, redactor: &Redactor) -> ToolFailure {
    let status = response.status;
    let (code, retryable) = match status {
        StatusCode::TOO_MANY_REQUESTS => (ErrorCode::RateLimit, true),
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => (ErrorCode::AuthRequired, false),
        StatusCode::REQUEST_TIMEOUT => (ErrorCode::ProviderError, true),
        _ => (ErrorCode::ProviderError, status.is_server_error()),
    };
    let mut error = ToolError::new(code, format!("the upstream answered {status}"))
        .reason("http_status")
        .detail("http_status", status.as_u16());
    if !response.body.is_empty() {
        error = error.detail("body", body_preview(response, redactor));
    }
    error.retry_after_s = retry_after(&response.headers, clock);
    ToolFailure { error, retryable, http_status: Some(status.as_u16()), cost_usd: None, child_run: None }
}

fn body_preview(response: &HttpResponse, redactor: &Redactor) -> Value {
    if response.body.len() <= MAX_ERROR_PREVIEW_CHARS
        && let Ok(value) = serde_json::from_slice(&response.body)
    {
        return value;
    }
    let mut text = String::from_utf8_lossy(&response.body).into_owned();
    redactor.text(&mut text);
    Value::String(text.chars().take(MAX_ERROR_PREVIEW_CHARS).collect())
}

/// Parses `Retry-After`: seconds, or a date.
fn retry_after(headers: &HeaderMap, clock: &dyn Clock) -> Option<f64> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse::<f64>() {
        return (seconds.is_finite() && seconds >= 0.0).then_some(seconds);
    }
    let date = jiff::fmt::rfc2822::parse(text).ok()?.timestamp();
    Some((date.as_second() - clock.now().to_jiff().as_second()).max(0) as f64)
}

fn content_type(headers: &HeaderMap) -> String {
    let value = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    value.unwrap_or("application/octet-stream").to_ascii_lowercase()
}

fn forwarded_headers(headers: &HeaderMap) -> BTreeMap<String, String> {
    headers
        .iter()
        .filter(|(name, _)| FORWARDED_HEADERS.contains(&name.as_str()) || name.as_str().contains("ratelimit"))
        .filter_map(|(name, value)| Some((name.as_str().to_owned(), value.to_str().ok()?.to_owned())))
        .collect()
}

#[derive(Debug, PartialEq)]
enum MediaType {
    Json,
    Text,
    Table,
    Image,
    Binary,
}

fn media_type(content_type: &str) -> MediaType {
    let essence = content_type.split(';').next().unwrap_or_default().trim();
    match essence {
        "application/json" | "text/json" => MediaType::Json,
        "text/csv" | "text/tab-separated-values" => MediaType::Table,
        "application/xml"
        | "application/yaml"
        | "application/x-yaml"
        | "application/javascript"
        | "application/x-www-form-urlencoded" => MediaType::Text,
        _ if essence.ends_with("+json") => MediaType::Json,
        _ if essence.ends_with("+xml") && !essence.starts_with("image/") => MediaType::Text,
        _ if essence.starts_with("text/") => MediaType::Text,
        _ if essence.starts_with("image/") => MediaType::Image,
        _ => MediaType::Binary,
    }
}

#[cfg(test)]
mod tests {
    use toolwright_types::Timestamp;

    use super::*;

    struct FixedClock(&'static str);

    impl Clock for FixedClock {
        fn now(&self) -> Timestamp {
            self.0.parse().unwrap()
        }
    }

    #[test]
    fn retry_after_header_accepts_seconds_and_dates() {
        let clock = FixedClock("2026-11-15T08:00:00Z");
        let after = |text: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(RETRY_AFTER, text.parse().unwrap());
            retry_after(&headers, &clock)
        };
        assert_eq!(after("3"), Some(3.0));
        assert_eq!(after("Sun, 15 Nov 2026 08:00:30 GMT"), Some(30.0));
        assert_eq!(after("Sun, 15 Nov 2026 07:00:00 GMT"), Some(0.0));
        assert_eq!(after("soon"), None);
        assert_eq!(after("-1"), None);
    }

    #[test]
    fn content_type_header_decides_how_the_body_is_read() {
        for (text, expected) in [
            ("application/json; charset=utf-8", MediaType::Json),
            ("application/problem+json", MediaType::Json),
            ("text/html", MediaType::Text),
            ("text/csv; header=present", MediaType::Table),
            ("image/svg+xml", MediaType::Image),
            ("application/atom+xml", MediaType::Text),
            ("application/pdf", MediaType::Binary),
        ] {
            assert_eq!(media_type(text), expected, "{text}");
        }
    }
}
