//! Downloads of blobs, which are the large payloads that envelopes refer to.

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};

use crate::extract::{Caller, PathName};
use crate::problem::{Code, Problem};
use crate::state::AppState;

/// Downloads a payload. Browsers save the response and do not render it, because the content comes from a tool.
#[utoipa::path(get, path = "/api/v1/ai/blobs/{id}", tag = "blobs", operation_id = "getBlob", params(("id" = String, Path)),
    responses((status = 200, content_type = "*/*")))]
pub(crate) async fn get(
    State(engine): State<AppState>,
    Caller(session): Caller,
    PathName(id): PathName,
) -> Result<Response, Problem> {
    engine.registry.may_enter(&session)?;
    let blob = engine.blobs.get(&session.realm, &id).await?;
    let blob = blob.ok_or_else(|| {
        Problem::new(Code::NotFound, format!("blob `{id}` does not exist in realm `{}`", session.realm.name))
    })?;
    let headers = [
        (header::CONTENT_TYPE, blob.content_type),
        (header::CONTENT_DISPOSITION, "attachment".to_owned()),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff".to_owned()),
        (header::CONTENT_SECURITY_POLICY, "sandbox; default-src 'none'".to_owned()),
    ];
    Ok((headers, blob.bytes).into_response())
}
