//! Everything the orders API refuses: `{"error": {"code", "message", "fields"?}}`.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde_json::{Value, json};

use super::model::Status;
use crate::ledger::KeyReused;

#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    #[error("send a valid key in the header `X-Api-Key`")]
    Unauthenticated,
    #[error("no such route")]
    NoRoute,
    #[error("the route exists, but not with this method")]
    MethodNotAllowed,
    #[error("no {kind} `{id}`")]
    NotFound { kind: &'static str, id: String },
    #[error("order `{id}` is {} and can no longer be cancelled", .status.name())]
    NotCancellable { id: String, status: Status },
    #[error("the idempotency key was used before with a different request")]
    KeyReused,
    #[error("the body is not the expected JSON: {0}")]
    Malformed(#[from] serde_json::Error),
    #[error("{} of the request did not pass validation", count(.0))]
    Invalid(Vec<Fault>),
}

/// One field of a request that is wrong, and what would be right.
#[derive(Debug, Serialize)]
pub(super) struct Fault {
    pub(super) field: String,
    pub(super) message: String,
}

impl Fault {
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
        if let (Self::Invalid(faults), Some(error)) = (&self, error.as_object_mut()) {
            error.insert("fields".into(), json!(faults));
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

fn count(faults: &[Fault]) -> String {
    match faults.len() {
        1 => "one field".to_owned(),
        n => format!("{n} fields"),
    }
}
