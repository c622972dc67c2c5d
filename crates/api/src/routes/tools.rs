//! Tools: execution, validation and exports. Their definitions have the routes of a [`Collection`].

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use semver::{Version, VersionReq};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Value, json};
use toolwright_catalog::Session;
use toolwright_catalog::registry::RegistryError;
use toolwright_gram::Pattern;
use toolwright_machine::view::ToolResult;
use toolwright_notation::write_tool;
use toolwright_runs::DirectOutcome;
use toolwright_tools::export::{ExportFormat, export as export_tool};
use toolwright_tools::{CallRequest, CompiledTool, Violation};
use toolwright_types::{RunStatus, ToolDefinition, ToolEnvelope};

use crate::approval_views::ChildRunView;
use crate::collection::Collection;
use crate::extract::{Caller, JsonBody, PathName, PathPair, QueryParams};
use crate::problem::{Code, FieldError, Problem};
use crate::run_views::{ApprovalView, ClientActionView};
use crate::state::AppState;
use crate::views::ToolView;

use super::agents::response_view;

const TAG: &str = "tools";

impl Collection for ToolDefinition {
    const PATH: &'static str = "/api/v1/ai/tools";
    const TAG: &'static str = TAG;
    const SINGULAR: &'static str = "Tool";
    const HAS_GRAM: bool = true;

    async fn gram(
        engine: &AppState,
        session: &Session,
        name: &str,
        version: Option<&str>,
    ) -> Result<Option<Pattern>, Problem> {
        match engine.registry.get::<Self>(session, name, version).await {
            Ok(document) => Ok(Some(write_tool(&document.body))),
            Err(RegistryError::NotFound { .. }) => {
                let version = version.map(parse_requirement).transpose()?;
                let tool = find_readable_tool(engine, session, name, version.as_ref()).await?;
                Ok(Some(write_tool(&tool.definition)))
            }
            Err(error) => Err(error.into()),
        }
    }

    async fn built_in(
        engine: &AppState,
        session: &Session,
        name: &str,
        version: Option<&str>,
    ) -> Result<Option<ToolView>, Problem> {
        let version = version.map(parse_requirement).transpose()?;
        let tool = find_readable_tool(engine, session, name, version.as_ref()).await?;
        Ok(Some(ToolView::built_in(&tool)))
    }

    fn all_built_in(engine: &AppState, session: &Session) -> Vec<ToolView> {
        let tools = engine.registry.catalog().builtin_tools();
        let visible = tools.filter(|tool| engine.registry.may_read(session, &tool.definition).is_ok());
        visible.map(|tool| ToolView::built_in(tool)).collect()
    }
}

/// The input of a tool call.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExecuteBody {
    /// The arguments. If they are neither an object nor null, the response is an envelope with a validation error.
    #[serde(default = "empty_object", deserialize_with = "null_as_empty")]
    input: Value,
    /// An exact version or a requirement such as `^1.2`. Default: the highest active version.
    #[serde(default)]
    version: Option<String>,
}

pub(crate) fn empty_object() -> Value {
    json!({})
}

/// Treats null like absent arguments.
pub(crate) fn null_as_empty<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Value, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_else(empty_object))
}

impl ExecuteBody {
    /// Returns the tool and the version of the call. The path may be `name@requirement`; the `version` of the body
    /// takes precedence.
    fn target(&self, reference: &str) -> Result<(String, Option<VersionReq>), Problem> {
        let (name, named) = split_reference(reference);
        let version = self.version.as_deref().or(named).map(parse_requirement).transpose()?;
        Ok((name.to_owned(), version))
    }
}

pub(crate) fn split_reference(reference: &str) -> (&str, Option<&str>) {
    match reference.split_once('@') {
        Some((name, version)) => (name, Some(version)),
        None => (reference, None),
    }
}

/// Parses the `version` of a request.
pub(crate) fn parse_requirement(text: &str) -> Result<VersionReq, Problem> {
    let exact = text.parse::<Version>().ok().map(|version| format!("={version}"));
    let requirement = exact.as_deref().unwrap_or(text).parse();
    requirement.map_err(|_| {
        Problem::invalid(
            "/version",
            format!("must be a version such as `1.2.0` or a requirement such as `^1.2`, got `{text}`"),
        )
    })
}

/// The header with the run id of a direct call.
pub(crate) const RUN_ID_HEADER: &str = "x-run-id";

/// The query parameters of a call.
#[derive(Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExecuteParams {
    /// The format of the result of a call that has ended: `envelope`, which is the default, or `result`, which is a
    /// view of the envelope with fewer fields. The response 202 for a client tool does not depend on this parameter.
    #[serde(default)]
    #[param(inline)]
    view: ResultFormat,
}

/// The formats of the result of a call.
#[derive(Default, Clone, Copy, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
enum ResultFormat {
    #[default]
    Envelope,
    Result,
}

/// The result of a call that has ended.
#[derive(Serialize, utoipa::ToSchema)]
#[serde(untagged)]
pub(crate) enum CallResult {
    /// The result with `view=envelope`.
    Envelope(Box<ToolEnvelope>),
    /// The result with `view=result`.
    Result(ToolResult),
}

impl CallResult {
    fn new(envelope: Box<ToolEnvelope>, format: ResultFormat) -> Self {
        match format {
            ResultFormat::Envelope => Self::Envelope(envelope),
            ResultFormat::Result => Self::Result(ToolResult::from(&*envelope)),
        }
    }
}

/// A direct call that waits for its client, or for the approval of a call that it made.
#[derive(Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AwaitingClientView {
    /// The id of the run.
    pub run_id: String,
    /// The status of the run.
    pub status: RunStatus,
    /// The actions that the client has to perform.
    pub client_actions: Vec<ClientActionView>,
    /// The approvals that the call of an agentic or composite tool waits for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub approvals: Vec<ApprovalView>,
    /// The runs that the call started and that wait.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waiting_child_runs: Vec<ChildRunView>,
}

/// Calls a tool. The response is an envelope, even if the tool failed or the call was rejected.
#[utoipa::path(post, path = "/api/v1/ai/tools/{ref}/execute", tag = TAG, operation_id = "executeTool", request_body = ExecuteBody,
    params(("ref" = String, Path), ExecuteParams),
    responses((status = 200, body = CallResult), (status = 202, body = AwaitingClientView)))]
pub(crate) async fn execute(
    State(engine): State<AppState>,
    Caller(session): Caller,
    PathName(reference): PathName,
    QueryParams(ExecuteParams { view }): QueryParams<ExecuteParams>,
    JsonBody(body): JsonBody<ExecuteBody>,
) -> Result<Response, Problem> {
    let (tool, version) = body.target(&reference)?;
    // If the tool is unknown, the response is a problem document. All later failures are reported in the envelope.
    find_tool(&engine, &session, &tool, version.as_ref()).await?;
    let (run, outcome) = engine.calls.execute(&session, CallRequest { tool, version, input: body.input }).await?;
    let run_id = run.to_string();
    let run_header = [(RUN_ID_HEADER, run_id.clone())];
    match outcome {
        DirectOutcome::Done(envelope) => Ok((run_header, Json(CallResult::new(envelope, view))).into_response()),
        DirectOutcome::Waiting(snapshot) => {
            let pending = snapshot.run.pending_client_actions().into_iter();
            let client_actions = pending.map(|action| ClientActionView::new(&run_id, action)).collect();
            let state = response_view(&engine, &session, snapshot).await?;
            let body = AwaitingClientView {
                run_id,
                status: state.response.status,
                client_actions,
                approvals: state.approvals,
                waiting_child_runs: state.waiting_child_runs,
            };
            Ok((StatusCode::ACCEPTED, run_header, Json(body)).into_response())
        }
    }
}

/// The result of a validation.
#[derive(Serialize, Deserialize, utoipa::ToSchema)]
pub struct ValidationView {
    /// Whether the input is valid.
    pub valid: bool,
    /// Every field that is invalid.
    pub errors: Vec<FieldError>,
}

/// Validates an input against the schema of a tool, without calling the tool.
#[utoipa::path(post, path = "/api/v1/ai/tools/{ref}/validate", tag = TAG, operation_id = "validateToolInput", request_body = ExecuteBody,
    params(("ref" = String, Path)),
    responses((status = 200, body = ValidationView)))]
pub(crate) async fn validate(
    State(engine): State<AppState>,
    Caller(session): Caller,
    PathName(name): PathName,
    JsonBody(body): JsonBody<ExecuteBody>,
) -> Result<Json<ValidationView>, Problem> {
    let (name, version) = body.target(&name)?;
    let tool = find_readable_tool(&engine, &session, &name, version.as_ref()).await?;
    let errors = tool.validate_input(body.input).await.err().unwrap_or_default();
    let errors = errors.into_iter().map(|Violation { path, message }| FieldError::new(path, message));
    let errors: Vec<FieldError> = errors.collect();
    Ok(Json(ValidationView { valid: errors.is_empty(), errors }))
}

/// Exports a tool in the format of another system.
#[utoipa::path(get, path = "/api/v1/ai/tools/{ref}/export/{format}", tag = TAG, operation_id = "exportTool",
    params(("ref" = String, Path), ("format" = String, Path, description = "universal, langchain, mcp, openai, anthropic or gemini")),
    responses((status = 200, body = Object)))]
pub(crate) async fn export(
    State(engine): State<AppState>,
    Caller(session): Caller,
    PathPair(name, format): PathPair,
) -> Result<Json<Value>, Problem> {
    let format = parse_format(&format)?;
    let (name, version) = split_reference(&name);
    let version = version.map(parse_requirement).transpose()?;
    let tool = find_readable_tool(&engine, &session, name, version.as_ref()).await?;
    Ok(Json(export_tool(&tool, format)))
}

/// Parses the format in the path of an export.
pub(crate) fn parse_format(text: &str) -> Result<ExportFormat, Problem> {
    text.parse().map_err(|_| {
        let rule = "must be `universal`, `langchain`, `mcp`, `openai`, `anthropic` or `gemini`";
        Problem::invalid("format", format!("{rule}, got `{text}`"))
    })
}

/// Returns the tool that the path names, if the caller may read it.
pub(crate) async fn find_readable_tool(
    engine: &AppState,
    session: &Session,
    name: &str,
    version: Option<&VersionReq>,
) -> Result<Arc<CompiledTool>, Problem> {
    let tool = find_tool(engine, session, name, version).await?;
    engine.registry.may_read(session, &tool.definition)?;
    Ok(tool)
}

/// Returns the tool that a request names.
pub(crate) async fn find_tool(
    engine: &AppState,
    session: &Session,
    name: &str,
    version: Option<&VersionReq>,
) -> Result<Arc<CompiledTool>, Problem> {
    let found = engine.calls.find(&session.realm, name, version).await?;
    if let Some(found) = found {
        return Ok(found);
    }
    let versions = engine.registry.catalog().versions(&session.realm, name).await?;
    let available: Vec<String> = versions.iter().map(|tool| tool.definition.version.to_string()).collect();
    let detail = match version {
        Some(version) if !available.is_empty() => {
            format!("tool `{name}` has no version that matches `{version}`; it has {}", available.join(", "))
        }
        _ => format!("there is no tool `{name}` in realm `{}`", session.realm.name),
    };
    Err(Problem::new(Code::NotFound, detail))
}
