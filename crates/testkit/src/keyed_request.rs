//! Requests with an optional idempotency key, and their replies. [`crate::record_store`] stores them.

use axum::Json;
use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{FromRequest, Request};
use axum::http::{HeaderName, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// The header with the idempotency key, which is the same in each repetition of a request.
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// A received request: its method, path, body and idempotency key.
#[derive(Clone, Debug)]
pub(crate) struct KeyedRequest {
    pub(crate) key: Option<String>,
    method: Method,
    path: String,
    body: Bytes,
}

/// A JSON reply that can be sent more than once.
#[derive(Clone, Debug)]
pub(crate) struct Reply {
    status: StatusCode,
    body: Option<Value>,
    replayed: bool,
}

impl KeyedRequest {
    /// Parses the body. An empty body is parsed as `{}`, for operations that need no input.
    pub(crate) fn json<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        match self.body.as_ref() {
            b"" => serde_json::from_slice(b"{}"),
            body => serde_json::from_slice(body),
        }
    }

    /// Returns whether method, path and body are equal. The idempotency keys are not compared.
    pub(crate) fn is_repeat_of(&self, earlier: &Self) -> bool {
        self.method == earlier.method && self.path == earlier.path && self.body == earlier.body
    }
}

impl<S: Send + Sync> FromRequest<S> for KeyedRequest {
    type Rejection = BytesRejection;

    async fn from_request(request: Request, state: &S) -> Result<Self, BytesRejection> {
        let key = request.headers().get(IDEMPOTENCY_KEY).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let method = request.method().clone();
        let path = request.uri().path().to_owned();
        let body = Bytes::from_request(request, state).await?;
        Ok(Self { key, method, path, body })
    }
}

impl Reply {
    pub(crate) fn ok(body: Value) -> Self {
        Self::new(StatusCode::OK, Some(body))
    }

    pub(crate) fn created(body: Value) -> Self {
        Self::new(StatusCode::CREATED, Some(body))
    }

    pub(crate) fn no_content() -> Self {
        Self::new(StatusCode::NO_CONTENT, None)
    }

    /// Returns a copy of this reply that is marked as a replay.
    pub(crate) fn replayed(&self) -> Self {
        Self { replayed: true, ..self.clone() }
    }

    fn new(status: StatusCode, body: Option<Value>) -> Self {
        Self { status, body, replayed: false }
    }
}

impl IntoResponse for Reply {
    fn into_response(self) -> Response {
        let header = self.replayed.then_some([("idempotent-replayed", "true")]);
        match (self.body, header) {
            (Some(body), Some(header)) => (self.status, header, Json(body)).into_response(),
            (Some(body), None) => (self.status, Json(body)).into_response(),
            (None, Some(header)) => (self.status, header).into_response(),
            (None, None) => self.status.into_response(),
        }
    }
}
