//! Everything the CRM refuses, and how it says so. The body follows HubSpot's: `status`, `category`, `message`,
//! and for invalid input a `subCategory` and, where the choice is closed, the `validValues`.

use axum::Json;
use axum::http::StatusCode;
use axum::http::header::RETRY_AFTER;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use super::model::{Property, Stage};
use super::search::Operator;
use crate::ledger::KeyReused;

#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    #[error("authentication is missing or not valid: send `Authorization: Bearer TOKEN`")]
    Unauthenticated,
    #[error("you have reached your requests-per-second limit: wait and try again")]
    RateLimited,
    #[error("no such route")]
    NoRoute,
    #[error("the route exists, but not with this method")]
    MethodNotAllowed,
    #[error("no {kind} with id `{id}`")]
    NotFound { kind: &'static str, id: String },
    #[error("the idempotency key was used before with a different request")]
    KeyReused,
    #[error("request body: {0}")]
    Body(String),
    #[error("property `{0}` does not exist")]
    UnknownProperty(String),
    #[error("operator `{0}` does not exist")]
    UnknownOperator(String),
    #[error("operator `{operator}` does not apply to property `{property}`")]
    WrongOperator { operator: Operator, property: Property },
    #[error("`{0}` is not a stage of the deal pipeline")]
    InvalidStage(String),
    #[error("property `{property}` must be {expected}, not `{found}`")]
    InvalidValue { property: Property, expected: &'static str, found: String },
    #[error("property `{0}` is required")]
    Required(Property),
    #[error("sort direction `{0}` does not exist")]
    UnknownDirection(String),
    #[error("`limit` must be a whole number from 1 to 100")]
    InvalidLimit,
    #[error("`after` must be a cursor from `paging.next.after`")]
    InvalidCursor,
    #[error("`reference` is required: the key that the note was sent with")]
    NoReference,
    #[error("`inputs` must hold 1 to 100 deals, not {0}")]
    BatchSize(usize),
    #[error("deal `{0}` appears more than once in `inputs`")]
    DuplicateInput(u64),
}

/// The directions of a sort.
pub(super) const DIRECTIONS: [&str; 2] = ["ASCENDING", "DESCENDING"];

impl Error {
    fn status(&self) -> StatusCode {
        match self {
            Self::Unauthenticated => StatusCode::UNAUTHORIZED,
            Self::RateLimited => StatusCode::TOO_MANY_REQUESTS,
            Self::NoRoute | Self::NotFound { .. } => StatusCode::NOT_FOUND,
            Self::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
            Self::KeyReused => StatusCode::UNPROCESSABLE_ENTITY,
            _ => StatusCode::BAD_REQUEST,
        }
    }

    fn category(&self) -> &'static str {
        match self {
            Self::Unauthenticated => "INVALID_AUTHENTICATION",
            Self::RateLimited => "RATE_LIMITS",
            Self::NoRoute => "ROUTE_NOT_FOUND",
            Self::MethodNotAllowed => "METHOD_NOT_ALLOWED",
            Self::NotFound { .. } => "OBJECT_NOT_FOUND",
            Self::KeyReused => "IDEMPOTENCY_KEY_REUSED",
            _ => "VALIDATION_ERROR",
        }
    }

    fn sub_category(&self) -> Option<&'static str> {
        Some(match self {
            Self::Body(_) => "INVALID_BODY",
            Self::UnknownProperty(_) => "UNKNOWN_PROPERTY",
            Self::UnknownOperator(_) | Self::WrongOperator { .. } => "INVALID_OPERATOR",
            Self::InvalidStage(_) => "INVALID_STAGE",
            Self::InvalidValue { .. } => "INVALID_VALUE",
            Self::Required(_) => "MISSING_PROPERTY",
            Self::UnknownDirection(_) => "INVALID_SORT",
            Self::InvalidLimit | Self::InvalidCursor => "INVALID_PAGING",
            Self::NoReference => "MISSING_REFERENCE",
            Self::BatchSize(_) | Self::DuplicateInput(_) => "INVALID_BATCH",
            _ => return None,
        })
    }

    fn valid_values(&self) -> Vec<&'static str> {
        match self {
            Self::UnknownProperty(_) => Property::ALL.map(Property::name).to_vec(),
            Self::UnknownOperator(_) => Operator::ALL.map(Operator::name).to_vec(),
            Self::WrongOperator { property, .. } => {
                let operators = Operator::ALL.into_iter();
                operators.filter(|operator| operator.applies_to(*property)).map(Operator::name).collect()
            }
            Self::InvalidStage(_) => Stage::ALL.map(Stage::id).to_vec(),
            Self::UnknownDirection(_) => DIRECTIONS.to_vec(),
            _ => Vec::new(),
        }
    }

    fn body(&self) -> Value {
        let valid = self.valid_values();
        let mut message = self.to_string();
        if !valid.is_empty() {
            message = format!("{message}; valid are {}", valid.join(", "));
        }
        let mut body = json!({"status": "error", "category": self.category(), "message": message});
        if let Some(fields) = body.as_object_mut() {
            if let Some(sub) = self.sub_category() {
                fields.insert("subCategory".into(), sub.into());
            }
            if !valid.is_empty() {
                fields.insert("validValues".into(), valid.into());
            }
        }
        body
    }
}

impl IntoResponse for Error {
    fn into_response(self) -> Response {
        let body = (self.status(), Json(self.body()));
        match self {
            Self::RateLimited => ([(RETRY_AFTER, "1")], body).into_response(),
            _ => body.into_response(),
        }
    }
}

impl From<KeyReused> for Error {
    fn from(_: KeyReused) -> Self {
        Self::KeyReused
    }
}

impl From<serde_json::Error> for Error {
    fn from(source: serde_json::Error) -> Self {
        Self::Body(source.to_string())
    }
}
