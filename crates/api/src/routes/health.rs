//! Whether the server lives and can work, and what its error codes mean. Open to everyone.

use axum::extract::{Path, State};
use axum::http::header;
use axum::response::{IntoResponse, Response};

use crate::extract::App;
use crate::problem::{Code, Problem};

/// Whether the process lives.
#[utoipa::path(get, path = "/healthz", tag = "health", operation_id = "alive", security(()), responses((status = 200, content_type = "text/plain")))]
pub async fn alive() -> &'static str {
    "ok"
}

/// Whether the database answers.
#[utoipa::path(get, path = "/readyz", tag = "health", operation_id = "ready", security(()),
    responses((status = 200, content_type = "text/plain"), (status = 503, body = Problem, content_type = "application/problem+json")))]
pub async fn ready(State(engine): State<App>) -> Result<&'static str, Problem> {
    engine.ready().await?;
    Ok("ok")
}

/// What an error code means, and what to do about it.
#[utoipa::path(get, path = "/errors/{code}", tag = "health", operation_id = "explainError", security(()), params(("code" = String, Path)),
    responses((status = 200, content_type = "text/markdown"), (status = 404, body = Problem, content_type = "application/problem+json")))]
pub async fn error_page(Path(code): Path<String>) -> Result<Response, Problem> {
    let code =
        Code::parse(&code).ok_or_else(|| Problem::new(Code::NotFound, format!("there is no error code `{code}`")))?;
    Ok(([(header::CONTENT_TYPE, "text/markdown; charset=utf-8")], code.page()).into_response())
}
