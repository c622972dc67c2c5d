//! The errors of the web's APIs and their response bodies: `{"error": {"code", "message"}}`.

use axum::Json;
use axum::extract::rejection::{JsonRejection, QueryRejection};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::json;

#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    #[error("a valid key is required; send `Authorization: Bearer KEY`")]
    Unauthenticated,
    #[error("the route does not exist")]
    NoRoute,
    #[error("the route does not support this method")]
    MethodNotAllowed,
    #[error("malformed request: {0}")]
    Malformed(String),
    #[error("`q` must contain at least one word")]
    EmptyQuery,
    #[error("`page` must be at least 1")]
    InvalidPage,
    #[error("`{0}` is not an address of a page; it must begin with http:// or https://")]
    InvalidUrl(String),
    #[error("no page has the address `{0}`")]
    NotFound(String),
    #[error("the page `{url}` answered {status}")]
    PageFailed { url: String, status: StatusCode },
    #[error("`{0}` is a PDF document; it can be read with the extractor")]
    IsPdf(String),
    #[error("`{0}` is not a PDF document; it can be read with the scraper")]
    NotPdf(String),
}

impl Error {
    fn describe(&self) -> (StatusCode, &'static str) {
        match self {
            Self::Unauthenticated => (StatusCode::UNAUTHORIZED, "unauthorized"),
            Self::NoRoute => (StatusCode::NOT_FOUND, "no_such_route"),
            Self::MethodNotAllowed => (StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed"),
            Self::Malformed(_) => (StatusCode::BAD_REQUEST, "malformed_request"),
            Self::EmptyQuery | Self::InvalidPage | Self::InvalidUrl(_) => {
                (StatusCode::UNPROCESSABLE_ENTITY, "invalid_parameter")
            }
            Self::NotFound(_) => (StatusCode::NOT_FOUND, "page_not_found"),
            Self::PageFailed { .. } => (StatusCode::BAD_GATEWAY, "page_failed"),
            Self::IsPdf(_) | Self::NotPdf(_) => (StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_content"),
        }
    }
}

impl IntoResponse for Error {
    fn into_response(self) -> Response {
        let (status, code) = self.describe();
        (status, Json(json!({"error": {"code": code, "message": self.to_string()}}))).into_response()
    }
}

impl From<JsonRejection> for Error {
    fn from(rejection: JsonRejection) -> Self {
        Self::Malformed(rejection.body_text())
    }
}

impl From<QueryRejection> for Error {
    fn from(rejection: QueryRejection) -> Self {
        Self::Malformed(rejection.body_text())
    }
}
