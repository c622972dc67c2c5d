//! The errors of the orders API and their response bodies: `{"error": {"code", "message", "fields"?}}`.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde_json::{Value, json};

use super::model::Status;
use crate::record_store::KeyReused;

#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    #[error("a valid key is required in the header `X-Api-Key`")]
    Unauthenticated,
    #[error("the route does not exist")]
    NoRoute,
    #[error("the route does not support this method")]
    MethodNotAllowed,
    #[error("{kind} `{id}` does not exist")]
    NotFound { kind: &'static str, id: String },
    #[error("order `{id}` is {} and can no longer be cancelled", .status.name())]
    NotCancellable { id: String, status: Status },
    #[error("the idempotency key was used before with a different request")]
    KeyReused,
    #[error("malformed body: {0}")]
    Malformed(#[from] serde_json::Error),
    #[error("{} of the request failed validation", count(.0))]
    Invalid(Vec<InvalidField>),
}

/// An invalid field of a request and the rule that it violates.
#[derive(Debug, Serialize)]
pub(super) struct InvalidField {
    pub(super) field: String,
    pub(super) message: String,
}

impl InvalidField {
    pub(super) fn new(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { field: field.into(), message: message.into() }
    }
}

impl Error {
    fn describe(&self) -> (StatusCode, &'static str) {
        match self {
            Self::Unauthenticated => (StatusCode::UNAUTHORIZED, "unauthorized"),
            Self::NoRoute => (StatusCode::NOT_FOUND, "no_such_route"),
            Self::MethodNotAllowed => (StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed"),
            Self::NotFound { .. } => (StatusCode::NOT_FOUND, "not_found"),
            Self::NotCancellable { .. } => (StatusCode::CONFLICT, "not_cancellable"),
            Self::KeyReused => (StatusCode::UNPROCESSABLE_ENTITY, "idempotency_key_reused"),
            Self::Malformed(_) => (StatusCode::BAD_REQUEST, "malformed_body"),
            Self::Invalid(_) => (StatusCode::UNPROCESSABLE_ENTITY, "validation_failed"),
        }
    }
}

impl IntoResponse for Error {
    fn into_response(self) -> Response {
        let (status, code) = self.describe();
        let mut error = json!({"code": code, "message": self.to_string()});
        if let (Self::Invalid(invalid), Some(error)) = (&self, error.as_object_mut()) {
            error.insert("fields".into(), json!(invalid));
        }
        let body: Value = json!({"error": error});
        (status, Json(body)).into_response()
    }
}

impl From<KeyReused> for Error {
    fn from(_: KeyReused) -> Self {
        Self::KeyReused
    }
}

fn count(invalid: &[InvalidField]) -> String {
    match invalid.len() {
        1 => "one field".to_owned(),
        n => format!("{n} fields"),
    }
}
