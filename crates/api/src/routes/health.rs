//! Health checks and the pages of the error codes. No authentication is required.

use axum::extract::{Path, State};
use axum::http::header;
use axum::response::{IntoResponse, Response};

use crate::problem::{Code, Problem};
use crate::state::AppState;

/// Reports whether the process is alive.
#[utoipa::path(get, path = "/healthz", tag = "health", operation_id = "alive", security(()), responses((status = 200, content_type = "text/plain")))]
pub(crate) async fn alive() -> &'static str {
    "ok"
}

/// Reports whether the server can serve requests: whether its database and its blob storage answer.
#[utoipa::path(get, path = "/readyz", tag = "health", operation_id = "ready", security(()),
    responses((status = 200, content_type = "text/plain")))]
pub(crate) async fn ready(State(engine): State<AppState>) -> Result<&'static str, Problem> {
    engine.ready().await?;
    Ok("ok")
}

/// Returns the page that explains an error code.
#[utoipa::path(get, path = "/errors/{code}", tag = "health", operation_id = "explainError", security(()), params(("code" = String, Path)),
    responses((status = 200, content_type = "text/markdown")))]
pub(crate) async fn error_page(Path(code): Path<String>) -> Result<Response, Problem> {
    let code = Code::parse(&code)
        .ok_or_else(|| Problem::new(Code::NotFound, format!("error code `{code}` does not exist")))?;
    Ok(([(header::CONTENT_TYPE, "text/markdown; charset=utf-8")], code.page()).into_response())
}
