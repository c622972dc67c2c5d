//! Failing responses: late responses, error statuses, truncated bodies and aborted connections.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::{ConnectInfo, Path, Query, State};
use axum::http::StatusCode;
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE, LOCATION, RETRY_AFTER};
use axum::response::{IntoResponse, Response};
use futures::{StreamExt, stream};
use serde::Deserialize;
use serde_json::json;

use super::Faults;
use crate::abortable::ConnectionAborter;

/// The maximum delay of `/slow`.
const MAX_DELAY: Duration = Duration::from_secs(600);

#[derive(Deserialize)]
pub(super) struct StatusQuery {
    retry_after: Option<u64>,
    times: Option<u64>,
    key: Option<String>,
}

pub(super) async fn status(
    State(faults): State<Arc<Faults>>,
    Path(code): Path<u16>,
    Query(query): Query<StatusQuery>,
) -> Response {
    let valid = StatusCode::from_u16(code).ok();
    let Some(status) = valid.filter(|_| (200..=599).contains(&code)) else {
        return reject("`code` must be between 200 and 599");
    };
    if let Some(times) = query.times {
        let attempts = count_attempt(&faults, query.key);
        if attempts > times {
            return Json(json!({"ok": true, "attempts": attempts})).into_response();
        }
    }
    let wait = query.retry_after.map(|seconds| [(RETRY_AFTER, seconds.to_string())]);
    let body = json!({"status": code, "error": format!("status {code} as requested")});
    match (has_body(status), wait) {
        (true, Some(wait)) => (status, wait, Json(body)).into_response(),
        (true, None) => (status, Json(body)).into_response(),
        (false, _) => status.into_response(),
    }
}

/// Answers after the delay. If the server shuts down before that, it answers immediately with 503.
pub(super) async fn slow(State(faults): State<Arc<Faults>>, Path(ms): Path<u64>) -> Response {
    let wait = Duration::from_millis(ms).min(MAX_DELAY);
    tokio::select! {
        () = tokio::time::sleep(wait) => Json(json!({"ok": true, "waitedMs": ms})).into_response(),
        () = faults.shutdown.cancelled() => StatusCode::SERVICE_UNAVAILABLE.into_response(),
    }
}

/// Closes the connection. Reads the body first, because closing a socket with unread data would reset the connection.
pub(super) async fn close(ConnectInfo(aborter): ConnectInfo<ConnectionAborter>, _body: Bytes) {
    aborter.close();
}

pub(super) async fn reset(ConnectInfo(aborter): ConnectInfo<ConnectionAborter>, _body: Bytes) {
    aborter.reset();
}

/// Sends the beginning of a body and then aborts the connection. Before the abort, the stream yields once, so that
/// hyper flushes the beginning.
pub(super) async fn truncate() -> Response {
    let start = async { Ok(Bytes::from_static(br#"{"ok":tr"#)) };
    let end = async {
        tokio::task::yield_now().await;
        Err(io::Error::from(io::ErrorKind::ConnectionAborted))
    };
    let body = Body::from_stream(stream::once(start).chain(stream::once(end)));
    let headers = [(CONTENT_TYPE, "application/json"), (CONTENT_LENGTH, "1000")];
    (headers, body).into_response()
}

#[derive(Deserialize)]
pub(super) struct RedirectQuery {
    to: String,
    status: Option<u16>,
}

pub(super) async fn redirect(Query(query): Query<RedirectQuery>) -> Response {
    let code = query.status.unwrap_or(302);
    match StatusCode::from_u16(code) {
        Ok(status) if status.is_redirection() => (status, [(LOCATION, query.to)]).into_response(),
        _ => reject("`status` must be between 300 and 399"),
    }
}

pub(super) async fn redirect_loop() -> Response {
    (StatusCode::FOUND, [(LOCATION, "/redirect-loop")]).into_response()
}

/// Rejects an invalid request. The field `refused` distinguishes this response from a status that the client requested.
pub(super) fn reject(message: &str) -> Response {
    let body = json!({"error": message, "refused": true});
    (StatusCode::BAD_REQUEST, Json(body)).into_response()
}

fn count_attempt(faults: &Faults, key: Option<String>) -> u64 {
    let mut state = faults.lock();
    let attempts = state.attempts.entry(key.unwrap_or_default()).or_default();
    *attempts += 1;
    *attempts
}

fn has_body(status: StatusCode) -> bool {
    !matches!(status, StatusCode::NO_CONTENT | StatusCode::RESET_CONTENT | StatusCode::NOT_MODIFIED)
}
