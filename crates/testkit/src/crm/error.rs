//! The errors of the CRM and their response bodies. As in HubSpot, a body has the fields `status`, `category` and
//! `message`. For invalid input, a body also has `subCategory` and, if only certain values are allowed, `validValues`.

use axum::Json;
use axum::http::StatusCode;
use axum::http::header::RETRY_AFTER;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use super::model::{Property, Stage};
use super::search::Operator;
use crate::record_store::KeyReused;

#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    #[error("authentication is missing or invalid; send `Authorization: Bearer TOKEN`")]
    Unauthenticated,
    #[error("the limit of requests per second is exceeded; wait and try again")]
    RateLimited,
    #[error("the route does not exist")]
    NoRoute,
    #[error("the route does not support this method")]
    MethodNotAllowed,
    #[error("{kind} `{id}` does not exist")]
    NotFound { kind: &'static str, id: String },
    #[error("deal `{0}` is locked; unlock it in the CRM before you change it")]
    Locked(u64),
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
    #[error("property `{property}` must be {expected}, got `{found}`")]
    InvalidValue { property: Property, expected: &'static str, found: String },
    #[error("property `{0}` is required")]
    Required(Property),
    #[error("sort direction `{0}` does not exist")]
    UnknownDirection(String),
    #[error("`limit` must be an integer between 1 and 100")]
    InvalidLimit,
    #[error("`after` must be a cursor from `paging.next.after`")]
    InvalidCursor,
    #[error("`reference` is required; it is the idempotency key of the note")]
    NoReference,
    #[error("`inputs` must contain between 1 and 100 deals, got {0}")]
    BatchSize(usize),
    #[error("deal `{0}` appears more than once in `inputs`")]
    DuplicateInput(u64),
}

/// The valid values for the direction of a sort.
pub(super) const DIRECTIONS: [&str; 2] = ["ASCENDING", "DESCENDING"];

impl Error {
    fn status(&self) -> StatusCode {
        match self {
            Self::Unauthenticated => StatusCode::UNAUTHORIZED,
            Self::RateLimited => StatusCode::TOO_MANY_REQUESTS,
            Self::NoRoute | Self::NotFound { .. } => StatusCode::NOT_FOUND,
            Self::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
            Self::Locked(_) => StatusCode::LOCKED,
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
            Self::Locked(_) => "OBJECT_LOCKED",
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
            message = format!("{message}; valid values are {}", valid.join(", "));
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
