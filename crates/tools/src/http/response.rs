//! What an HTTP answer means: a reply by content type, or a failure by status.

use std::collections::BTreeMap;

use reqwest::StatusCode;
use reqwest::header::{CONTENT_TYPE, HeaderMap, RETRY_AFTER};
use serde_json::{Value, json};
use toolwright_types::{AttachmentKind, Clock, ErrorCode, ToolError};

use super::client::HttpResponse;
use crate::ToolFailure;
use crate::executor::{Redactor, Reply};
use crate::ports::Payload;

/// How much of an error's body is worth showing.
const ERROR_PREVIEW: usize = 2_000;

/// Headers that tell a caller something; all others stay behind, cookies above all.
const KEPT: [&str; 9] = [
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

/// The redactor is for what is cut here: half of a secret is not recognised later.
pub(crate) fn interpret(response: HttpResponse, clock: &dyn Clock, redactor: &Redactor) -> Result<Reply, ToolFailure> {
    if !response.status.is_success() {
        return Err(rejected(&response, clock, redactor));
    }
    let content_type = content_type(&response.headers);
    let mut reply =
        Reply { http_status: Some(response.status.as_u16()), headers: kept(&response.headers), ..Reply::default() };
    match media(&content_type) {
        _ if response.body.is_empty() => {}
        Media::Json => {
            reply.output = serde_json::from_slice(&response.body).map_err(|error| {
                let mut failure = ToolFailure::fatal(
                    ErrorCode::ProviderError,
                    format!("the answer is not the JSON it claims to be: {error}"),
                )
                .reason("unreadable_body");
                failure.http_status = Some(response.status.as_u16());
                failure
            })?;
        }
        Media::Text | Media::Table => {
            let text = String::from_utf8_lossy(&response.body);
            if matches!(text, std::borrow::Cow::Owned(_)) {
                reply.warnings.push("the answer is not UTF-8; unreadable bytes were replaced".into());
            }
            reply.output = Value::String(text.into_owned());
            if matches!(media(&content_type), Media::Table) {
                reply.payloads.push(Payload { kind: AttachmentKind::Table, content_type, bytes: response.body });
            }
        }
        Media::Image | Media::Binary => {
            let kind =
                if matches!(media(&content_type), Media::Image) { AttachmentKind::Image } else { AttachmentKind::Blob };
            reply.output = json!({ "contentType": content_type, "bytes": response.body.len() });
            reply.payloads.push(Payload { kind, content_type, bytes: response.body });
        }
    }
    Ok(reply)
}

fn rejected(response: &HttpResponse, clock: &dyn Clock, redactor: &Redactor) -> ToolFailure {
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
        error = error.detail("body", preview(response, redactor));
    }
    error.retry_after_s = retry_after(&response.headers, clock);
    ToolFailure { error, retryable, http_status: Some(status.as_u16()), cost_usd: None }
}

fn preview(response: &HttpResponse, redactor: &Redactor) -> Value {
    if response.body.len() <= ERROR_PREVIEW
        && let Ok(value) = serde_json::from_slice(&response.body)
    {
        return value;
    }
    let mut text = String::from_utf8_lossy(&response.body).into_owned();
    redactor.text(&mut text);
    Value::String(text.chars().take(ERROR_PREVIEW).collect())
}

/// Seconds, or a date to wait for.
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

fn kept(headers: &HeaderMap) -> BTreeMap<String, String> {
    headers
        .iter()
        .filter(|(name, _)| KEPT.contains(&name.as_str()) || name.as_str().contains("ratelimit"))
        .filter_map(|(name, value)| Some((name.as_str().to_owned(), value.to_str().ok()?.to_owned())))
        .collect()
}

#[derive(Debug, PartialEq)]
enum Media {
    Json,
    Text,
    Table,
    Image,
    Binary,
}

fn media(content_type: &str) -> Media {
    let essence = content_type.split(';').next().unwrap_or_default().trim();
    match essence {
        "application/json" | "text/json" => Media::Json,
        "text/csv" | "text/tab-separated-values" => Media::Table,
        "application/xml"
        | "application/yaml"
        | "application/x-yaml"
        | "application/javascript"
        | "application/x-www-form-urlencoded" => Media::Text,
        _ if essence.ends_with("+json") => Media::Json,
        _ if essence.ends_with("+xml") && !essence.starts_with("image/") => Media::Text,
        _ if essence.starts_with("text/") => Media::Text,
        _ if essence.starts_with("image/") => Media::Image,
        _ => Media::Binary,
    }
}

#[cfg(test)]
mod tests {
    use toolwright_types::Timestamp;

    use super::*;

    struct At(&'static str);

    impl Clock for At {
        fn now(&self) -> Timestamp {
            self.0.parse().unwrap()
        }
    }

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        let clock = At("2026-11-15T08:00:00Z");
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
    fn content_types_are_told_apart() {
        for (text, expected) in [
            ("application/json; charset=utf-8", Media::Json),
            ("application/problem+json", Media::Json),
            ("text/html", Media::Text),
            ("text/csv; header=present", Media::Table),
            ("image/svg+xml", Media::Image),
            ("application/atom+xml", Media::Text),
            ("application/pdf", Media::Binary),
        ] {
            assert_eq!(media(text), expected, "{text}");
        }
    }
}
