//! Agentic tools: a view of tools of type AGENTIC with their own routes. They are stored, executed and permitted like all
//! tools.

mod call_order;
mod document;
mod execution_views;
mod executions;
mod invoke;
mod prompts;

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::{RawQuery, State};
use axum::http::header::ETAG;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::Value;
use toolwright_catalog::Session;
use toolwright_catalog::registry::{Registry, SavedDefinition};
use toolwright_types::{Document, ToolDefinition, UniqueKeys};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub use self::call_order::merge_calls;
pub use self::document::AgenticToolView;
use self::document::VIEWS;
pub use self::execution_views::{
    ActionCallCost, CostBreakdown, ExecutionStatus, ExecutionSummaryView, ExecutionView, LlmCallCost, LlmCallView,
    ToolCallView,
};
pub use self::invoke::{InvocationMeta, InvocationView, TraceStep, TraceView};
pub use self::prompts::{PromptReplyView, PromptTestView, PromptVersionView, RegeneratedPromptView, RequestedToolView};
use crate::collection::DeletionView;
use crate::extract::{Caller, IfMatch, JsonBody, PathName, QueryParams, WriteParams, refuse_version_parameter};
use crate::problem::Problem;
use crate::state::AppState;
use crate::tool_views::ToolViewStatus;
use crate::views::PageView;

const TAG: &str = "agentic-tools";

/// Returns the routes of agentic tools.
pub(crate) fn routes() -> OpenApiRouter<AppState> {
    OpenApiRouter::new()
        .routes(routes!(list, create))
        .routes(routes!(get, update, delete))
        .routes(routes!(invoke::invoke))
        .routes(routes!(prompts::test_unsaved))
        .routes(routes!(prompts::test))
        .routes(routes!(prompts::regenerate))
        .routes(routes!(prompts::versions))
        .routes(routes!(prompts::restore))
        .routes(routes!(executions::list))
        .routes(routes!(executions::get))
        .routes(routes!(executions::rerun))
}

/// Lists agentic tools. A parameter with the name of a field filters by this field.
#[utoipa::path(get, path = "/api/v1/agentic-tools", tag = TAG, operation_id = "listAgenticTools",
    params(("limit" = Option<u32>, Query), ("cursor" = Option<String>, Query),
        ("status" = Option<ToolViewStatus>, Query), ("executionMode" = Option<String>, Query),
        ("query" = Option<String>, Query, description = "a query in the query language, on the fields of the tool definition"),
        ("sort" = Option<String>, Query, description = "`refName`, `createdAt` or `updatedAt`, with `-` for descending")),
    responses((status = 200, body = PageView<AgenticToolView>)))]
async fn list(
    State(registry): State<Registry>,
    Caller(session): Caller,
    QueryParams(params): QueryParams<BTreeMap<String, String>>,
) -> Result<Json<PageView<AgenticToolView>>, Problem> {
    let query = VIEWS.query(params)?;
    let page = registry.list::<ToolDefinition>(&session, query).await?;
    let view = |document| AgenticToolView::new(&session, SavedDefinition { document, warnings: Vec::new() });
    Ok(Json(PageView {
        items: page.items.into_iter().filter_map(view).collect(),
        next_cursor: page.next.map(|cursor| cursor.to_string()),
    }))
}

/// Creates an agentic tool. Without `slug`, the reference name is made from `name`.
#[utoipa::path(post, path = "/api/v1/agentic-tools", tag = TAG, operation_id = "createAgenticTool", request_body = Object,
    responses((status = 201, body = AgenticToolView)))]
async fn create(
    State(registry): State<Registry>,
    Caller(session): Caller,
    QueryParams(params): QueryParams<WriteParams>,
    JsonBody(UniqueKeys(body)): JsonBody<UniqueKeys>,
) -> Result<Response, Problem> {
    let body = Value::Object(VIEWS.new_tool(body)?);
    let saved = registry.create::<ToolDefinition>(&session, body, params.origin()?).await;
    let saved = saved.map_err(|error| VIEWS.problem(error))?;
    Ok((StatusCode::CREATED, response(&session, saved)?).into_response())
}

/// Returns an agentic tool.
#[utoipa::path(get, path = "/api/v1/agentic-tools/{ref}", tag = TAG, operation_id = "getAgenticTool",
    params(("ref" = String, Path)), responses((status = 200, body = AgenticToolView)))]
async fn get(
    State(registry): State<Registry>,
    Caller(session): Caller,
    PathName(reference): PathName,
) -> Result<Response, Problem> {
    let document = VIEWS.find(&registry, &session, &reference).await?;
    Ok(response(&session, unchanged(document))?.into_response())
}

/// Changes some fields of an agentic tool. Null removes a field. `toolAllocation` is replaced as a whole.
#[utoipa::path(patch, path = "/api/v1/agentic-tools/{ref}", tag = TAG, operation_id = "updateAgenticTool", request_body = Object,
    params(("ref" = String, Path), ("If-Match" = Option<String>, Header)),
    responses((status = 200, body = AgenticToolView)))]
async fn update(
    State(registry): State<Registry>,
    Caller(session): Caller,
    PathName(reference): PathName,
    IfMatch(revision): IfMatch,
    RawQuery(query): RawQuery,
    JsonBody(UniqueKeys(patch)): JsonBody<UniqueKeys>,
) -> Result<Response, Problem> {
    refuse_version_parameter(query.as_deref())?;
    let current = VIEWS.find(&registry, &session, &reference).await?;
    VIEWS.check_block(&current.body, &patch)?;
    let patch = document::tool_patch(&current.body, patch)?;
    let saved = registry.merge::<ToolDefinition>(&session, &reference, revision, patch).await;
    Ok(response(&session, saved.map_err(|error| VIEWS.problem(error))?)?.into_response())
}

/// Deletes an agentic tool. If other definitions use it, the response is 200 with a warning that names them.
#[utoipa::path(delete, path = "/api/v1/agentic-tools/{ref}", tag = TAG, operation_id = "deleteAgenticTool",
    params(("ref" = String, Path), ("If-Match" = Option<String>, Header)),
    responses((status = 204), (status = 200, body = DeletionView)))]
async fn delete(
    State(registry): State<Registry>,
    Caller(session): Caller,
    PathName(reference): PathName,
    IfMatch(revision): IfMatch,
) -> Result<Response, Problem> {
    VIEWS.find(&registry, &session, &reference).await?;
    Ok(match registry.delete::<ToolDefinition>(&session, &reference, revision).await? {
        Some(warning) => Json(DeletionView { warnings: vec![warning] }).into_response(),
        None => StatusCode::NO_CONTENT.into_response(),
    })
}

fn unchanged(document: Document<ToolDefinition>) -> SavedDefinition<ToolDefinition> {
    SavedDefinition { document, warnings: Vec::new() }
}

/// The view of a tool with its ETag.
fn response(
    session: &Session,
    saved: SavedDefinition<ToolDefinition>,
) -> Result<(HeaderMap, Json<AgenticToolView>), Problem> {
    let (slug, revision) = (saved.document.meta.ref_name.to_string(), saved.document.meta.revision);
    let view = AgenticToolView::new(session, saved).ok_or_else(|| VIEWS.not_found(session, &slug))?;
    let mut headers = HeaderMap::new();
    if let Ok(tag) = HeaderValue::from_str(&format!("\"{revision}\"")) {
        headers.insert(ETAG, tag);
    }
    Ok((headers, Json(view)))
}
