//! Providers: definitions and whether they can be reached.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use serde::Serialize;
use serde_json::Value;
use toolwright_tools::Outcome;
use toolwright_types::{ErrorCode, Source, ToolError, ToolProviderConfig};

use super::tools::CountView;
use crate::extract::{App, Body, Caller, Expected, Named, Parameters};
use crate::lists::{self, QueryBody};
use crate::problem::Problem;
use crate::views::{self, PageView, ProviderView};

const TAG: &str = "tool-providers";

/// Lists providers. Parameters other than limit, cursor and sort filter by that field.
#[utoipa::path(get, path = "/api/v1/ai/tool-providers", tag = TAG, operation_id = "listToolProviders",
    params(("limit" = Option<u32>, Query), ("cursor" = Option<String>, Query), ("sort" = Option<String>, Query)),
    responses((status = 200, body = PageView<ProviderView>), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub async fn list(
    State(engine): State<App>,
    Caller(session): Caller,
    Parameters(parameters): Parameters<BTreeMap<String, String>>,
) -> Result<Json<PageView<ProviderView>>, Problem> {
    let listed = engine.registry.list::<ToolProviderConfig>(&session, lists::from_parameters(parameters)?).await?;
    Ok(Json(views::page(listed)))
}

/// Defines a provider.
#[utoipa::path(post, path = "/api/v1/ai/tool-providers", tag = TAG, operation_id = "createToolProvider", request_body = ToolProviderConfig,
    responses((status = 201, body = ProviderView), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub async fn create(
    State(engine): State<App>,
    Caller(session): Caller,
    Body(body): Body<Value>,
) -> Result<impl IntoResponse, Problem> {
    let saved = engine.registry.create::<ToolProviderConfig>(&session, body, Source::Manual).await?;
    Ok((StatusCode::CREATED, views::saved(saved)))
}

/// Lists providers by a filter in the body.
#[utoipa::path(post, path = "/api/v1/ai/tool-providers/query", tag = TAG, operation_id = "queryToolProviders", request_body = QueryBody,
    responses((status = 200, body = PageView<ProviderView>), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub async fn query(
    State(engine): State<App>,
    Caller(session): Caller,
    Body(body): Body<QueryBody>,
) -> Result<Json<PageView<ProviderView>>, Problem> {
    let listed = engine.registry.list::<ToolProviderConfig>(&session, body.wanted()?).await?;
    Ok(Json(views::page(listed)))
}

/// Counts providers; parameters filter as in the list.
#[utoipa::path(get, path = "/api/v1/ai/tool-providers/count", tag = TAG, operation_id = "countToolProviders",
    responses((status = 200, body = CountView), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub async fn count(
    State(engine): State<App>,
    Caller(session): Caller,
    Parameters(parameters): Parameters<BTreeMap<String, String>>,
) -> Result<Json<CountView>, Problem> {
    let count = engine.registry.count::<ToolProviderConfig>(&session, &lists::parameter_filters(parameters)).await?;
    Ok(Json(CountView { count }))
}

/// Shows a provider.
#[utoipa::path(get, path = "/api/v1/ai/tool-providers/{ref}", tag = TAG, operation_id = "getToolProvider", params(("ref" = String, Path)),
    responses((status = 200, body = ProviderView), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub async fn get(
    State(engine): State<App>,
    Caller(session): Caller,
    Named(name): Named,
) -> Result<impl IntoResponse, Problem> {
    Ok(views::tagged(engine.registry.get::<ToolProviderConfig>(&session, &name, None).await?))
}

/// Replaces a provider.
#[utoipa::path(put, path = "/api/v1/ai/tool-providers/{ref}", tag = TAG, operation_id = "replaceToolProvider", request_body = ToolProviderConfig,
    params(("ref" = String, Path), ("If-Match" = Option<String>, Header)),
    responses((status = 200, body = ProviderView), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub async fn replace(
    State(engine): State<App>,
    Caller(session): Caller,
    Named(name): Named,
    Expected(revision): Expected,
    Body(body): Body<Value>,
) -> Result<impl IntoResponse, Problem> {
    let saved = engine.registry.replace::<ToolProviderConfig>(&session, &name, revision, body, Source::Manual).await?;
    Ok(views::saved(saved))
}

/// Changes some fields of a provider; null removes one.
#[utoipa::path(patch, path = "/api/v1/ai/tool-providers/{ref}", tag = TAG, operation_id = "mergeToolProvider", request_body = Object,
    params(("ref" = String, Path), ("If-Match" = Option<String>, Header)),
    responses((status = 200, body = ProviderView), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub async fn merge(
    State(engine): State<App>,
    Caller(session): Caller,
    Named(name): Named,
    Expected(revision): Expected,
    Body(patch): Body<Value>,
) -> Result<impl IntoResponse, Problem> {
    let saved = engine.registry.merge::<ToolProviderConfig>(&session, &name, revision, patch).await?;
    Ok(views::saved(saved))
}

/// Removes a provider. Tools that name it stay, and say that it is missing when they are called.
#[utoipa::path(delete, path = "/api/v1/ai/tool-providers/{ref}", tag = TAG, operation_id = "deleteToolProvider",
    params(("ref" = String, Path), ("If-Match" = Option<String>, Header)),
    responses((status = 204), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub async fn delete(
    State(engine): State<App>,
    Caller(session): Caller,
    Named(name): Named,
    Expected(revision): Expected,
) -> Result<StatusCode, Problem> {
    engine.registry.delete::<ToolProviderConfig>(&session, &name, revision).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Whether a provider can be reached with its credentials.
#[derive(Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReachView {
    /// Whether it answered and took the credentials.
    ok: bool,
    /// The status it answered with.
    http_status: Option<u16>,
    /// How long that took.
    duration_ms: u64,
    /// Why not.
    error: Option<ToolError>,
}

/// Asks a provider for its base URL.
#[utoipa::path(post, path = "/api/v1/ai/tool-providers/{ref}/test", tag = TAG, operation_id = "testToolProvider", params(("ref" = String, Path)),
    responses((status = 200, body = ReachView), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub async fn test(
    State(engine): State<App>,
    Caller(session): Caller,
    Named(name): Named,
) -> Result<Json<ReachView>, Problem> {
    let provider = engine.registry.get::<ToolProviderConfig>(&session, &name, None).await?;
    let Outcome::Done(envelope) = engine.calls.probe(&session, &provider).await? else {
        return Err(Problem::new(crate::Code::Internal, "a probe has no client's part"));
    };
    let http_status = envelope.metadata.http_status;
    // Any answer but a refusal of the credentials or a failure of the system shows that it is there: few have a root.
    let answered = http_status.is_some_and(|status| status < 500);
    let error = envelope.error.filter(|error| !(answered && error.code == ErrorCode::ProviderError));
    Ok(Json(ReachView {
        ok: error.is_none(),
        http_status,
        duration_ms: envelope.t_end.millis_since(envelope.t_start),
        error,
    }))
}
