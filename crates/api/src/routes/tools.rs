//! Tools: execution, validation, versions, exports. Their definitions are a collection like any other.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use semver::{Version, VersionReq};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Value, json};
use toolwright_engine::Session;
use toolwright_engine::registry::RegistryError;
use toolwright_engine::runs::Called;
use toolwright_machine::agent::ClientRequest;
use toolwright_tools::export::{Format, export as export_tool};
use toolwright_tools::{CallRequest, CompiledTool};
use toolwright_types::{RunStatus, ToolDefinition, ToolEnvelope};

use crate::collection::Kind;
use crate::extract::{App, Body, Caller, Named, NamedWith};
use crate::problem::{Code, Problem};
use crate::views::{PageView, ToolView, Viewable};

const TAG: &str = "tools";

impl Kind for ToolDefinition {
    const PATH: &'static str = "/api/v1/ai/tools";
    const TAG: &'static str = TAG;
    const ONE: &'static str = "Tool";

    async fn built_in(
        engine: &App,
        session: &Session,
        name: &str,
        version: Option<&str>,
    ) -> Result<Option<ToolView>, Problem> {
        let version = version.map(requirement).transpose()?;
        let tool = find(engine, session, name, version.as_ref()).await?;
        Ok(Some(ToolView::built_in(&tool)))
    }

    fn all_built_in(engine: &App, session: &Session) -> Vec<ToolView> {
        let tools = engine.registry.catalog().builtin();
        let visible = tools.filter(|tool| engine.registry.may_read(session, &tool.definition).is_ok());
        visible.map(|tool| ToolView::built_in(tool)).collect()
    }
}

/// Lists the versions of a tool, highest first.
#[utoipa::path(get, path = "/api/v1/ai/tools/{ref}/versions", tag = TAG, operation_id = "listToolVersions", params(("ref" = String, Path)),
    responses((status = 200, body = PageView<ToolView>), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub async fn versions(
    State(engine): State<App>,
    Caller(session): Caller,
    Named(name): Named,
) -> Result<Json<PageView<ToolView>>, Problem> {
    let items = match engine.registry.versions::<ToolDefinition>(&session, &name).await {
        Ok(versions) => versions.into_iter().map(|document| ToolDefinition::view(document, Vec::new())).collect(),
        Err(RegistryError::NotFound { .. }) => {
            vec![ToolView::built_in(&*find(&engine, &session, &name, None).await?)]
        }
        Err(error) => return Err(error.into()),
    };
    Ok(Json(PageView::whole(items)))
}

/// What to call a tool with.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ExecuteBody {
    /// The arguments.
    #[serde(default = "no_arguments", deserialize_with = "or_none")]
    #[schema(value_type = Object)]
    input: Value,
    /// An exact version or a requirement such as `^1.2`; the highest active version when absent.
    #[serde(default)]
    version: Option<String>,
}

fn no_arguments() -> Value {
    json!({})
}

/// Null arguments are absent ones.
fn or_none<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Value, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_else(no_arguments))
}

impl ExecuteBody {
    fn requirement(&self) -> Result<Option<VersionReq>, Problem> {
        self.version.as_deref().map(requirement).transpose()
    }
}

fn requirement(text: &str) -> Result<VersionReq, Problem> {
    let exact = text.parse::<Version>().ok().map(|version| format!("={version}"));
    let requirement = exact.as_deref().unwrap_or(text).parse();
    requirement
        .map_err(|_| Problem::invalid("/version", "is an exact version like `1.2.0` or a requirement like `^1.2`"))
}

/// Names the run that a call is.
const RUN_ID: &str = "x-run-id";

/// A call whose last step is somebody else's: as a rule the client's.
#[derive(Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AwaitingClient {
    run_id: String,
    status: RunStatus,
    client_actions: Vec<ClientActionView>,
}

/// What the client is asked to do.
#[derive(Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClientActionView {
    call_id: String,
    prepared_payload: Value,
    schema: Value,
}

impl From<ClientRequest> for ClientActionView {
    fn from(request: ClientRequest) -> Self {
        let ClientRequest { call_id, prepared_payload, schema, .. } = request;
        Self { call_id: call_id.to_string(), prepared_payload, schema }
    }
}

/// Calls a tool. The answer is an envelope, also when the tool failed or was refused.
#[utoipa::path(post, path = "/api/v1/ai/tools/{ref}/execute", tag = TAG, operation_id = "executeTool", request_body = ExecuteBody,
    params(("ref" = String, Path)),
    responses((status = 200, body = ToolEnvelope), (status = 202, body = AwaitingClient),
        (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub async fn execute(
    State(engine): State<App>,
    Caller(session): Caller,
    Named(tool): Named,
    Body(body): Body<ExecuteBody>,
) -> Result<Response, Problem> {
    let version = body.requirement()?;
    // A path that names nothing is the request's fault; everything after that is the receipt's to tell.
    known(&engine, &session, &tool, version.as_ref()).await?;
    let (run, called) = engine.calls.execute(&session, CallRequest { tool, version, input: body.input }).await?;
    let run_id = run.to_string();
    let named = [(RUN_ID, run_id.clone())];
    match called {
        Called::Done(envelope) => Ok((named, Json(envelope)).into_response()),
        Called::Waits(snapshot) => {
            let client_actions = snapshot.run.client_actions().into_iter().map(ClientActionView::from).collect();
            let body = AwaitingClient { run_id, status: snapshot.run.status(), client_actions };
            Ok((StatusCode::ACCEPTED, named, Json(body)).into_response())
        }
    }
}

/// Whether an input fits, and if not, where.
#[derive(Serialize, utoipa::ToSchema)]
pub struct ValidationView {
    valid: bool,
    #[schema(value_type = Vec<crate::problem::FieldError>)]
    errors: Vec<toolwright_tools::Violation>,
}

/// Checks an input against a tool's schema without calling it.
#[utoipa::path(post, path = "/api/v1/ai/tools/{ref}/validate", tag = TAG, operation_id = "validateToolInput", request_body = ExecuteBody,
    params(("ref" = String, Path)),
    responses((status = 200, body = ValidationView), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub async fn validate(
    State(engine): State<App>,
    Caller(session): Caller,
    Named(name): Named,
    Body(body): Body<ExecuteBody>,
) -> Result<Json<ValidationView>, Problem> {
    let tool = find(&engine, &session, &name, body.requirement()?.as_ref()).await?;
    let errors = tool.admit(body.input).err().unwrap_or_default();
    Ok(Json(ValidationView { valid: errors.is_empty(), errors }))
}

/// A tool in the format of another system.
#[utoipa::path(get, path = "/api/v1/ai/tools/{ref}/export/{format}", tag = TAG, operation_id = "exportTool",
    params(("ref" = String, Path), ("format" = String, Path, description = "universal, langchain, mcp, openai, anthropic or gemini")),
    responses((status = 200, body = Object), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub async fn export(
    State(engine): State<App>,
    Caller(session): Caller,
    NamedWith(name, format): NamedWith,
) -> Result<Json<Value>, Problem> {
    let format: Format = format.parse().map_err(|_| {
        Problem::invalid("format", "is `universal`, `langchain`, `mcp`, `openai`, `anthropic` or `gemini`")
    })?;
    let tool = find(&engine, &session, &name, None).await?;
    Ok(Json(export_tool(&tool, format)))
}

/// The tool that the path names, if the caller may see it.
async fn find(
    engine: &App,
    session: &Session,
    name: &str,
    version: Option<&VersionReq>,
) -> Result<Arc<CompiledTool>, Problem> {
    let tool = known(engine, session, name, version).await?;
    engine.registry.may_read(session, &tool.definition)?;
    Ok(tool)
}

async fn known(
    engine: &App,
    session: &Session,
    name: &str,
    version: Option<&VersionReq>,
) -> Result<Arc<CompiledTool>, Problem> {
    let found = engine.calls.find(&session.realm, name, version).await?;
    found.ok_or_else(|| {
        let version = version.map(|wanted| format!(" in a version that fits `{wanted}`")).unwrap_or_default();
        Problem::new(Code::NotFound, format!("there is no tool `{name}`{version} in realm `{}`", session.realm.name))
    })
}
