//! Responses that contain the request, or the number of requests.

use std::sync::Arc;

use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, Method, Uri};
use serde_json::{Map, Value, json};

use super::Faults;

pub(super) async fn echo(
    method: Method,
    uri: Uri,
    Query(query): Query<Vec<(String, String)>>,
    headers: HeaderMap,
    body: Bytes,
) -> Json<Value> {
    let json: Option<Value> = serde_json::from_slice(&body).ok();
    Json(json!({
        "method": method.as_str(),
        "path": uri.path(),
        "query": query,
        "headers": header_map(&headers),
        "body": String::from_utf8_lossy(&body),
        "json": json,
    }))
}

pub(super) async fn count(State(faults): State<Arc<Faults>>, Path(key): Path<String>) -> Json<Value> {
    let mut state = faults.lock();
    let count = state.counts.entry(key.clone()).or_default();
    let before = *count;
    *count += 1;
    Json(json!({"key": key, "count": before}))
}

/// Returns the headers with lower-case names. Values of a repeated header are joined with a comma.
fn header_map(headers: &HeaderMap) -> Map<String, Value> {
    let join = |name| {
        let values = headers.get_all(name).iter();
        let texts = values.map(|value| String::from_utf8_lossy(value.as_bytes()));
        texts.collect::<Vec<_>>().join(", ")
    };
    headers.keys().map(|name| (name.to_string(), join(name).into())).collect()
}
