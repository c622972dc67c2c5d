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
fn statuses_and_words_of_all_providers_are_understood() {
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
fn errors_inside_a_stream_are_told_apart_by_their_words() {
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
fn a_wait_is_read_from_headers_and_from_googles_body() {
    let wait = |pairs: &[(&'static str, &'static str)]| wait_of_headers(&headers(pairs));
    assert_eq!(wait(&[("retry-after", "7")]), Some(Duration::from_secs(7)));
    assert_eq!(wait(&[("retry-after", "1.5")]), Some(Duration::from_millis(1500)));
    assert_eq!(wait(&[("retry-after-ms", "250"), ("retry-after", "7")]), Some(Duration::from_millis(250)));
    let dates = [("retry-after", "Wed, 21 Oct 2026 07:28:30 GMT"), ("date", "Wed, 21 Oct 2026 07:28:00 GMT")];
    assert_eq!(wait(&dates), Some(Duration::from_secs(30)));
    assert_eq!(wait(&[("retry-after", "soon")]), None);
    assert_eq!(wait(&[("retry-after", "-3")]), Some(Duration::ZERO));
    assert_eq!(wait(&[("retry-after", "1e300")]), None);
    let body = json!({"error": {"details": [{"@type": "RetryInfo", "retryDelay": "34.5s"}]}}).to_string();
    let error = ModelError::from_status("google", 429, &HeaderMap::new(), &body);
    assert_eq!(error.retry_after(), Some(Duration::from_millis(34_500)));
}

#[test]
fn a_message_is_short_on_one_line_and_without_the_key() {
    let body = format!("<html>\n  <p>{}</p> key sk-abc", "é".repeat(1000));
    let error = ModelError::from_status("it", 502, &HeaderMap::new(), &body);
    assert!(error.message.chars().count() < 450 && !error.message.contains('\n'), "{}", error.message);
    let error = ModelError::new(ErrorKind::Auth, "wrong key sk-abc").without("sk-abc");
    assert_eq!(error.message, "wrong key [redacted]");
}

#[test]
fn only_passing_trouble_is_worth_a_retry() {
    let can = |kind| ModelError::new(kind, "").can_retry();
    assert!(can(ErrorKind::RateLimit { retry_after: None }) && can(ErrorKind::Overloaded { retry_after: None }));
    assert!(can(ErrorKind::Timeout) && can(ErrorKind::Network));
    for kind in [ErrorKind::Auth, ErrorKind::InvalidRequest, ErrorKind::Malformed, ErrorKind::Unsupported] {
        assert!(!can(kind), "{kind:?}");
    }
}
