//! Composite tools: a view of tools of type COMPOSITE with their own routes. They are stored, executed and permitted like
//! all tools.

mod views;

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::{RawQuery, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use toolwright_catalog::Session;
use toolwright_catalog::registry::{Registry, SavedDefinition};
use toolwright_runs::DirectOutcome;
use toolwright_tools::{CallRequest, CompiledTool};
use toolwright_types::{MANAGED_FIELDS, ToolDefinition, ToolType, UniqueKeys};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub use self::views::{CompositeCallMeta, CompositeInvocationView, CompositeRouteView, CompositeToolView};
use super::agents::response_view;
use super::tools::{RUN_ID_HEADER, find_readable_tool, find_tool, parse_requirement, split_reference};
use crate::collection::DeletionView;
use crate::extract::{Caller, IfMatch, JsonBody, PathName, QueryParams, WriteParams, refuse_version_parameter};
use crate::problem::Problem;
use crate::state::AppState;
use crate::tool_views::{ToolViewStatus, ToolViews};
use crate::views::{self as common_views, PageView};

const TAG: &str = "composite-tools";

const VIEWS: ToolViews = ToolViews {
    noun: "a composite tool",
    tool_type: ToolType::Composite,
    config: "composite",
    config_fields: &["routingMode", "defaultOperationId", "operations", "routingRules", "unifiedSchema", "metadata"],
    computed_fields: &[],
    reserved_slugs: &["invoke"],
};

/// Returns the routes of composite tools.
pub(crate) fn routes() -> OpenApiRouter<AppState> {
    OpenApiRouter::new()
        .routes(routes!(list, create))
        .routes(routes!(get, update, delete))
        .routes(routes!(invoke))
        .routes(routes!(route))
}

/// Lists composite tools. A parameter with the name of a field filters by this field.
#[utoipa::path(get, path = "/api/v1/composite-tools", tag = TAG, operation_id = "listCompositeTools",
    params(("limit" = Option<u32>, Query), ("cursor" = Option<String>, Query),
        ("status" = Option<ToolViewStatus>, Query), ("routingMode" = Option<String>, Query),
        ("query" = Option<String>, Query, description = "a query in the query language, on the fields of the tool definition"),
        ("sort" = Option<String>, Query, description = "`refName`, `createdAt` or `updatedAt`, with `-` for descending")),
    responses((status = 200, body = PageView<CompositeToolView>)))]
async fn list(
    State(registry): State<Registry>,
    Caller(session): Caller,
    QueryParams(params): QueryParams<BTreeMap<String, String>>,
) -> Result<Json<PageView<CompositeToolView>>, Problem> {
    let page = registry.list::<ToolDefinition>(&session, VIEWS.query(params)?).await?;
    let view = |document| CompositeToolView::new(&session, SavedDefinition { document, warnings: Vec::new() });
    Ok(Json(PageView {
        items: page.items.into_iter().filter_map(view).collect(),
        next_cursor: page.next.map(|cursor| cursor.to_string()),
    }))
}

/// Creates a composite tool. Without `slug`, the reference name is made from `name`.
#[utoipa::path(post, path = "/api/v1/composite-tools", tag = TAG, operation_id = "createCompositeTool", request_body = Object,
    responses((status = 201, body = CompositeToolView)))]
async fn create(
    State(registry): State<Registry>,
    Caller(session): Caller,
    QueryParams(params): QueryParams<WriteParams>,
    JsonBody(UniqueKeys(body)): JsonBody<UniqueKeys>,
) -> Result<Response, Problem> {
    let mut tool = VIEWS.new_tool(with_unified_schema(body))?;
    let is_authored = |name: &str| name != "inputJsonSchema" && !MANAGED_FIELDS.contains(&name);
    let authored = tool.iter().filter(|(name, _)| is_authored(name)).map(|(name, value)| (name.clone(), value.clone()));
    if let Ok(definition) = serde_json::from_value::<ToolDefinition>(Value::Object(authored.collect())) {
        drop_generated_schema(&mut tool, &definition);
    }
    let saved = registry.create::<ToolDefinition>(&session, Value::Object(tool), params.origin()?).await;
    let saved = saved.map_err(|error| VIEWS.problem(error))?;
    Ok((StatusCode::CREATED, response(&session, saved)?).into_response())
}

/// Returns a composite tool.
#[utoipa::path(get, path = "/api/v1/composite-tools/{ref}", tag = TAG, operation_id = "getCompositeTool",
    params(("ref" = String, Path)), responses((status = 200, body = CompositeToolView)))]
async fn get(
    State(registry): State<Registry>,
    Caller(session): Caller,
    PathName(reference): PathName,
) -> Result<Response, Problem> {
    let document = VIEWS.find(&registry, &session, &reference).await?;
    Ok(response(&session, SavedDefinition { document, warnings: Vec::new() })?.into_response())
}

/// Changes some fields of a composite tool. Null removes a field.
#[utoipa::path(patch, path = "/api/v1/composite-tools/{ref}", tag = TAG, operation_id = "updateCompositeTool", request_body = Object,
    params(("ref" = String, Path), ("If-Match" = Option<String>, Header)),
    responses((status = 200, body = CompositeToolView)))]
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
    let mut patch = VIEWS.patch(with_unified_schema(patch))?;
    if !current.body.has_input_schema() {
        drop_generated_schema(&mut patch, &current.body);
    }
    let saved = registry.merge::<ToolDefinition>(&session, &reference, revision, Value::Object(patch)).await;
    Ok(response(&session, saved.map_err(|error| VIEWS.problem(error))?)?.into_response())
}

/// Deletes a composite tool. If other definitions use it, the response is 200 with a warning that names them.
#[utoipa::path(delete, path = "/api/v1/composite-tools/{ref}", tag = TAG, operation_id = "deleteCompositeTool",
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

/// A call to a composite tool.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CompositeInvokeBody {
    /// The slug or the id of the composite tool, with an optional version requirement: `deals@^1.2`.
    #[serde(default)]
    #[schema(value_type = String, required = true)]
    tool: Option<String>,
    /// The input. Default: an empty object.
    #[serde(default)]
    params: Value,
}

/// Calls a composite tool. The response is 200 also if the call failed. It is 202 if the operation waits for an
/// approval or a client. The client then decides the approval under its `runId`, and reads the run `executionId`.
#[utoipa::path(post, path = "/api/v1/composite-tools/invoke", tag = TAG, operation_id = "invokeCompositeTool",
    request_body = CompositeInvokeBody,
    responses((status = 200, body = CompositeInvocationView), (status = 202, body = CompositeInvocationView)))]
async fn invoke(
    State(engine): State<AppState>,
    Caller(session): Caller,
    JsonBody(CompositeInvokeBody { tool, params }): JsonBody<CompositeInvokeBody>,
) -> Result<Response, Problem> {
    let tool = tool.ok_or_else(|| Problem::invalid("/tool", "is required"))?;
    let (name, version) = split_reference(&tool);
    let version = version.map(parse_requirement).transpose()?;
    let found = find_tool(&engine, &session, name, version.as_ref()).await?;
    let found = composite(found, &session, name)?;
    let slug = found.definition.ref_name.to_string();
    let request = CallRequest { tool: name.to_owned(), version, input: object_or_null(params) };
    let (run, outcome) = engine.calls.execute(&session, request).await?;
    let header = [(RUN_ID_HEADER, run.to_string())];
    match outcome {
        DirectOutcome::Done(envelope) => {
            Ok((header, Json(CompositeInvocationView::ended(slug, run, *envelope))).into_response())
        }
        DirectOutcome::Waiting(snapshot) => {
            let child = snapshot.run.suspended_children().first().map(|child| child.run);
            let approvals = response_view(&engine, &session, Arc::clone(&snapshot)).await?.approvals;
            let execution = match child {
                Some(child) => engine.runs.get(&session, child).await?.snapshot,
                None => snapshot,
            };
            let view = CompositeInvocationView::waiting(slug, &execution, approvals);
            Ok((StatusCode::ACCEPTED, header, Json(view)).into_response())
        }
    }
}

/// The input of a dry run.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CompositeRouteBody {
    /// The input. Default: an empty object.
    #[serde(default)]
    params: Value,
}

/// Returns the operation and the parameters that a call with this input would have. Makes no call. The response is 200
/// also if the call would be refused.
#[utoipa::path(post, path = "/api/v1/composite-tools/{ref}/route", tag = TAG, operation_id = "routeCompositeTool",
    request_body = CompositeRouteBody, params(("ref" = String, Path)),
    responses((status = 200, body = CompositeRouteView)))]
async fn route(
    State(engine): State<AppState>,
    Caller(session): Caller,
    PathName(reference): PathName,
    JsonBody(CompositeRouteBody { params }): JsonBody<CompositeRouteBody>,
) -> Result<Json<CompositeRouteView>, Problem> {
    let (name, version) = split_reference(&reference);
    let version = version.map(parse_requirement).transpose()?;
    let tool = find_readable_tool(&engine, &session, name, version.as_ref()).await?;
    let tool = composite(tool, &session, name)?;
    let routed = match tool.check_input(object_or_null(params)).await {
        Ok(input) => engine.agents.route_composite(&session.realm, &tool, input).await,
        Err(error) => Err(error),
    };
    Ok(Json(CompositeRouteView::from(routed)))
}

/// Returns the tool if it is a composite tool.
fn composite(tool: Arc<CompiledTool>, session: &Session, name: &str) -> Result<Arc<CompiledTool>, Problem> {
    if tool.composite().is_some() { Ok(tool) } else { Err(VIEWS.not_found(session, name)) }
}

/// Replaces null by an empty object.
fn object_or_null(params: Value) -> Value {
    if params.is_null() { json!({}) } else { params }
}

/// Moves parameters by name from `inputSchema` to `unifiedSchema`. A JSON Schema remains in `inputSchema`.
fn with_unified_schema(mut body: Value) -> Value {
    const JSON_SCHEMA_FIELDS: [&str; 6] = ["properties", "$ref", "$schema", "allOf", "anyOf", "oneOf"];
    let Some(fields) = body.as_object_mut() else { return body };
    let is_short = |schema: &Map<String, Value>| {
        let values_are_objects = schema.values().all(Value::is_object);
        !schema.is_empty() && values_are_objects && !JSON_SCHEMA_FIELDS.iter().any(|name| schema.contains_key(*name))
    };
    if fields.get("inputSchema").and_then(Value::as_object).is_some_and(is_short)
        && !fields.contains_key("unifiedSchema")
        && let Some(schema) = fields.shift_remove("inputSchema")
    {
        fields.insert("unifiedSchema".into(), schema);
    }
    body
}

/// Removes the input schema from a request if it equals the schema that the server generates for `definition`. A client
/// that sends a view back sends this schema too. If it were stored, it would no longer follow changes of the unified
/// schema.
fn drop_generated_schema(fields: &mut Map<String, Value>, definition: &ToolDefinition) {
    if fields.get("inputJsonSchema") == Some(&definition.effective_input_schema()) {
        fields.shift_remove("inputJsonSchema");
    }
}

/// The view of a tool with its ETag.
fn response(
    session: &Session,
    saved: SavedDefinition<ToolDefinition>,
) -> Result<(HeaderMap, Json<CompositeToolView>), Problem> {
    let (slug, revision) = (saved.document.meta.ref_name.to_string(), saved.document.meta.revision);
    let view = CompositeToolView::new(session, saved).ok_or_else(|| VIEWS.not_found(session, &slug))?;
    Ok((common_views::etag(revision), Json(view)))
}
