//! Exports of tools with code that calls them, and the route that this code calls.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolwright_catalog::Session;
use toolwright_engine::{ExportSelection, ExportedNameError};
use toolwright_runs::DirectOutcome;
use toolwright_tools::export::{
    CodeSnippets, ExportFormat, McpResource, McpServer, ServerFiles, code_snippets, export_named, unwrap_arguments,
};
use toolwright_tools::{CallRequest, CompiledTool};
use toolwright_types::{ExecutionMode, RunId, RunStatus, Surface, ToolDefinition, ToolEnvelope, ToolError, ToolKind};

use super::agents::response_view;
use super::ai_tools::parse_kind;
use super::tools::{
    RUN_ID_HEADER, empty_object, find_readable_tool, null_as_empty, parse_format, parse_requirement, split_reference,
};
use crate::extract::{Caller, JsonBody, PathPair, QueryParams};
use crate::problem::{Code, Problem};
use crate::run_views::{ApprovalView, ClientActionView};
use crate::state::AppState;

const TAG: &str = "tool-exports";

/// An exported tool.
#[derive(Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ExportedToolView {
    /// The id of the definition.
    id: String,
    /// The `refName` of the tool.
    slug: String,
    /// The name for people. Default: the `refName`.
    name: String,
    /// What the tool does, as callers see it.
    description: String,
    /// The version.
    version: String,
    /// How an agentic tool uses its model. Absent for other tools.
    #[serde(skip_serializing_if = "Option::is_none")]
    execution_mode: Option<ExecutionMode>,
}

impl ExportedToolView {
    fn new(tool: &CompiledTool) -> Self {
        let definition: &ToolDefinition = &tool.definition;
        Self {
            id: tool.id.clone(),
            slug: definition.ref_name.to_string(),
            name: definition.display_name().to_owned(),
            description: tool.description().to_owned(),
            version: definition.version.to_string(),
            execution_mode: definition.agentic.as_ref().map(|config| config.execution_mode),
        }
    }
}

/// The format of an export.
#[derive(Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct FormatView {
    /// The name of the format.
    name: &'static str,
    /// The version of the format.
    version: &'static str,
    /// The systems that read the format.
    compatible_with: &'static [&'static str],
}

impl From<ExportFormat> for FormatView {
    fn from(format: ExportFormat) -> Self {
        Self { name: format.as_str(), version: "1.0", compatible_with: format.compatible_with() }
    }
}

/// Complete programs that offer the exported tools.
#[derive(Serialize, utoipa::ToSchema)]
pub(crate) struct CodeSnippetsView {
    /// A module for TypeScript.
    typescript: String,
    /// A module for Python.
    python: String,
}

impl From<CodeSnippets> for CodeSnippetsView {
    fn from(CodeSnippets { typescript, python }: CodeSnippets) -> Self {
        Self { typescript, python }
    }
}

/// An MCP server with the exported tools.
#[derive(Serialize, utoipa::ToSchema)]
pub(crate) struct McpServerView {
    /// The name of the server.
    name: String,
    /// The version of the server.
    version: String,
    /// The capabilities that the server declares.
    #[schema(value_type = Object)]
    capabilities: Value,
    /// The tools, in the form of `tools/list`.
    #[schema(value_type = Vec<Object>)]
    tools: Vec<Value>,
    /// The names and ids that inputs may contain, as resources.
    resources: Vec<McpResourceView>,
}

/// Reference data as a resource of an MCP server.
#[derive(Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct McpResourceView {
    /// The URI: `toolwright://PROVIDER/TYPE`.
    uri: String,
    /// The name.
    name: String,
    /// What the data is.
    description: String,
    /// The media type.
    mime_type: &'static str,
}

/// The files of an MCP server with the exported tools.
#[derive(Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ServerFileView {
    /// The server in TypeScript.
    typescript: String,
    /// The server in Python.
    python: String,
    /// The `package.json` of the server in TypeScript.
    package_json: String,
    /// The part of the configuration of Claude Desktop that starts the server.
    claude_desktop_config: String,
}

impl McpServerView {
    fn new(server: McpServer) -> Self {
        let resources = server.resources.iter().cloned().map(|McpResource { uri, name, description }| {
            McpResourceView { uri, name, description, mime_type: McpResource::MEDIA_TYPE }
        });
        let (capabilities, resources) = (server.capabilities(), resources.collect());
        Self { capabilities, resources, name: server.name, version: server.version, tools: server.tools }
    }
}

impl From<ServerFiles> for ServerFileView {
    fn from(files: ServerFiles) -> Self {
        let ServerFiles { typescript, python, package_json, claude_desktop_config } = files;
        Self { typescript, python, package_json, claude_desktop_config }
    }
}

/// The export of one tool. The tool is in the field for its kind: `simpleTool`, `compositeTool` or `agenticTool`.
#[derive(Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ToolExportView {
    #[serde(skip_serializing_if = "Option::is_none")]
    simple_tool: Option<ExportedToolView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    composite_tool: Option<ExportedToolView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    agentic_tool: Option<ExportedToolView>,
    /// The tool in the format. `mcp` has `server` instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    tool: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    server: Option<McpServerView>,
    format: FormatView,
    /// Code that offers the tool. `mcp` has `serverFile` instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    code_snippets: Option<CodeSnippetsView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    server_file: Option<ServerFileView>,
}

/// The export of several tools.
#[derive(Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ToolsExportView {
    /// The tools in the format. `mcp` has `server` instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<Object>>)]
    tools: Option<Vec<Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    server: Option<McpServerView>,
    format: FormatView,
    /// Code that offers the tools. `mcp` has `serverFile` instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    code_snippets: Option<CodeSnippetsView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    server_file: Option<ServerFileView>,
    /// Warnings that name the tools that are left out because several tools have the same exported name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
}

/// Exports a tool in the format of another system, with code that calls the tool.
#[utoipa::path(get, path = "/api/v1/ai-tools/{ref}/tools/{format}", tag = TAG, operation_id = "exportAiTool",
    params(("ref" = String, Path), ("format" = String, Path, description = "universal, langchain, mcp, openai, anthropic or gemini")),
    responses((status = 200, body = ToolExportView)))]
pub(crate) async fn tool(
    State(engine): State<AppState>,
    Caller(session): Caller,
    PathPair(name, format): PathPair,
) -> Result<Json<ToolExportView>, Problem> {
    export_one(&engine, &session, &name, &format, None).await
}

/// Exports an agentic tool in the format of another system, with code that calls the tool.
#[utoipa::path(get, path = "/api/v1/agentic-tools/{ref}/tools/{format}", tag = TAG, operation_id = "exportAgenticTool",
    params(("ref" = String, Path), ("format" = String, Path, description = "universal, langchain, mcp, openai, anthropic or gemini")),
    responses((status = 200, body = ToolExportView)))]
pub(crate) async fn agentic_tool(
    State(engine): State<AppState>,
    Caller(session): Caller,
    PathPair(name, format): PathPair,
) -> Result<Json<ToolExportView>, Problem> {
    export_one(&engine, &session, &name, &format, Some(ToolKind::Agentic)).await
}

/// Exports a composite tool in the format of another system, with code that calls the tool.
#[utoipa::path(get, path = "/api/v1/composite-tools/{ref}/tools/{format}", tag = TAG, operation_id = "exportCompositeTool",
    params(("ref" = String, Path), ("format" = String, Path, description = "universal, langchain, mcp, openai, anthropic or gemini")),
    responses((status = 200, body = ToolExportView)))]
pub(crate) async fn composite_tool(
    State(engine): State<AppState>,
    Caller(session): Caller,
    PathPair(name, format): PathPair,
) -> Result<Json<ToolExportView>, Problem> {
    export_one(&engine, &session, &name, &format, Some(ToolKind::Composite)).await
}

/// Exports one tool. If `kind` is given, a tool of another kind is not found.
async fn export_one(
    engine: &AppState,
    session: &Session,
    reference: &str,
    format: &str,
    kind: Option<ToolKind>,
) -> Result<Json<ToolExportView>, Problem> {
    let format = parse_format(format)?;
    let (name, version) = split_reference(reference);
    let version = version.map(parse_requirement).transpose()?;
    let tool = find_readable_tool(engine, session, name, version.as_ref()).await?;
    let found = tool.definition.tool_type.kind();
    if let Some(kind) = kind.filter(|kind| *kind != found) {
        let (kind, found) = (kind.as_str(), found.as_str());
        return Err(Problem::new(Code::NotFound, format!("tool `{name}` is not {kind}, it is {found}")));
    }
    let of_kind = |wanted: ToolKind| (found == wanted).then(|| ExportedToolView::new(&tool));
    let mut view = ToolExportView {
        simple_tool: of_kind(ToolKind::Simple),
        composite_tool: of_kind(ToolKind::Composite),
        agentic_tool: of_kind(ToolKind::Agentic),
        tool: None,
        server: None,
        format: format.into(),
        code_snippets: None,
        server_file: None,
    };
    if format == ExportFormat::Mcp {
        let server = McpServer::of_tool(&tool);
        view.server_file = Some(server.files().into());
        view.server = Some(McpServerView::new(server));
    } else {
        view.code_snippets = Some(code_snippets([&*tool], format).into());
        view.tool = Some(export_named(&tool, format));
    }
    Ok(Json(view))
}

/// The filters of an export of several tools.
#[derive(Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExportParams {
    /// `simple`, `composite` or `agentic`.
    kind: Option<String>,
    /// The category of the tools, or a parent category.
    category: Option<String>,
    /// A tag.
    tag: Option<String>,
}

/// Exports all tools that the caller may execute, with code that calls them. The format `mcp` exports the tools that
/// are available as `mcpTool`. All other formats export the tools that are available as `tool`.
#[utoipa::path(get, path = "/api/v1/tools/export/{format}", tag = TAG, operation_id = "exportTools",
    params(("format" = String, Path, description = "universal, langchain, mcp, openai, anthropic or gemini"), ExportParams),
    responses((status = 200, body = ToolsExportView)))]
pub(crate) async fn all(
    State(engine): State<AppState>,
    Caller(session): Caller,
    Path(format): Path<String>,
    QueryParams(params): QueryParams<ExportParams>,
) -> Result<Json<ToolsExportView>, Problem> {
    let format = parse_format(&format)?;
    let kind = params.kind.as_deref().map(parse_kind).transpose()?;
    let selection = ExportSelection { kind, category: params.category, tag: params.tag };
    let surface = if format == ExportFormat::Mcp { Surface::McpTool } else { Surface::Tool };
    let exported = engine.calls.exported(&session, surface, &selection).await?;
    let tools = || exported.tools.iter().map(|tool| &**tool);
    let mut view = ToolsExportView {
        tools: None,
        server: None,
        format: format.into(),
        code_snippets: None,
        server_file: None,
        warnings: exported.warnings.clone(),
    };
    if format == ExportFormat::Mcp {
        let server = McpServer::of_tools(tools());
        view.server_file = Some(server.files().into());
        view.server = Some(McpServerView::new(server));
    } else {
        view.code_snippets = Some(code_snippets(tools(), format).into());
        view.tools = Some(tools().map(|tool| export_named(tool, format)).collect());
    }
    Ok(Json(view))
}

/// A call to an exported tool.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct InvokeBody {
    /// The tool: its name, its id, or its name in an export. A name or id may be followed by `@` and a version or a
    /// requirement.
    tool: String,
    /// The arguments, as the exported schema describes them.
    #[serde(default = "empty_object", deserialize_with = "null_as_empty")]
    params: Value,
    /// The kind of client that makes the call. The tool must be available to it.
    #[serde(default)]
    surface: InvokeSurface,
}

/// The kind of client that calls an exported tool.
#[derive(Default, Clone, Copy, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
enum InvokeSurface {
    /// A program or a framework. The tool must be available as `tool`.
    #[default]
    Tool,
    /// An exported MCP server. The tool must be available as `mcpTool`.
    McpTool,
}

/// The result of a call to an exported tool.
#[derive(Serialize, utoipa::ToSchema)]
pub(crate) struct InvokeView {
    /// Whether the call succeeded.
    success: bool,
    /// The output; null if the call failed.
    data: Value,
    /// The messages of the tool, or the message of the error.
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    /// The error. Absent if the call succeeded.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<ToolError>,
    /// Data about the call.
    meta: InvokeMetaView,
    /// Warnings about the call.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
}

/// Data about a call to an exported tool.
#[derive(Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct InvokeMetaView {
    /// The `refName` of the tool.
    tool: String,
    /// The id of the run, which can be read under `/api/v1/ai/runs`.
    execution_id: String,
    /// The duration in milliseconds.
    duration_ms: u64,
    /// The known cost in US dollars.
    total_cost: f64,
}

/// A call to an exported tool that waits for a person or a client.
#[derive(Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WaitingInvocationView {
    /// The id of the run.
    run_id: String,
    /// The status of the run.
    status: RunStatus,
    /// The calls that wait for approval. Decide each under its own `runId`.
    approvals: Vec<ApprovalView>,
    /// The actions that the client has to perform.
    client_actions: Vec<ClientActionView>,
}

impl InvokeView {
    fn new(run: RunId, envelope: ToolEnvelope) -> Self {
        let metadata = envelope.metadata;
        let mut warnings = metadata.warnings;
        if envelope.truncated {
            let urls: Vec<&str> = envelope.attachments.iter().map(|attachment| attachment.url.as_str()).collect();
            warnings.push(format!("the output is truncated; read all of it from {}", urls.join(", ")));
        }
        let messages = (!metadata.messages.is_empty()).then(|| metadata.messages.join("\n"));
        Self {
            success: envelope.error.is_none(),
            data: envelope.output,
            message: envelope.error.as_ref().map(|error| error.message.clone()).or(messages),
            error: envelope.error,
            meta: InvokeMetaView {
                tool: envelope.name,
                execution_id: run.to_string(),
                duration_ms: envelope.t_end.millis_since(envelope.t_start),
                total_cost: metadata.cost_usd.unwrap_or_default(),
            },
            warnings,
        }
    }
}

/// Calls an exported tool. The response is 200 even if the tool failed or the call was rejected, and 202 if the call waits
/// for a person or a client.
#[utoipa::path(post, path = "/api/v1/tools/invoke", tag = TAG, operation_id = "invokeTool", request_body = InvokeBody,
    responses((status = 200, body = InvokeView), (status = 202, body = WaitingInvocationView)))]
pub(crate) async fn invoke(
    State(engine): State<AppState>,
    Caller(session): Caller,
    JsonBody(body): JsonBody<InvokeBody>,
) -> Result<Response, Problem> {
    let tool = find_exported(&engine, &session, &body.tool).await?;
    let version = format!("={}", tool.definition.version).parse().ok();
    let input = unwrap_arguments(&tool, body.params);
    let request = CallRequest { tool: tool.definition.ref_name.to_string(), version, input };
    let surface = match body.surface {
        InvokeSurface::Tool => Surface::Tool,
        InvokeSurface::McpTool => Surface::McpTool,
    };
    let call = engine.calls.prepare(&session, surface, request).await;
    let run = call.run();
    let run_header = [(RUN_ID_HEADER, run.to_string())];
    match call.execute().await? {
        DirectOutcome::Done(envelope) => Ok((run_header, Json(InvokeView::new(run, *envelope))).into_response()),
        DirectOutcome::Waiting(snapshot) => {
            let waiting = response_view(&engine, &session, snapshot).await?;
            let body = WaitingInvocationView {
                run_id: run.to_string(),
                status: waiting.response.status,
                approvals: waiting.approvals,
                client_actions: waiting.client_actions,
            };
            Ok((StatusCode::ACCEPTED, run_header, Json(body)).into_response())
        }
    }
}

/// Returns the tool that a call names. The version requirement is allowed after a name or an id only.
async fn find_exported(engine: &AppState, session: &Session, name: &str) -> Result<Arc<CompiledTool>, Problem> {
    let (name, version) = split_reference(name);
    let requirement = version.map(parse_requirement).transpose()?;
    let unknown =
        || Problem::new(Code::NotFound, format!("there is no tool `{name}` in realm `{}`", session.realm.name));
    let found = match requirement {
        Some(requirement) => return super::tools::find_tool(engine, session, name, Some(&requirement)).await,
        None => engine.calls.find_exported(session, name).await,
    };
    match found {
        Ok(found) => found.ok_or_else(unknown),
        Err(error @ ExportedNameError::Ambiguous { .. }) => Err(Problem::invalid("/tool", error.to_string())),
        Err(ExportedNameError::Unavailable(error)) => Err(error.into()),
    }
}
