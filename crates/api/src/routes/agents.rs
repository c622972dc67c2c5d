//! Agents: execution, synchronously or as a stream, and their tools. Their definitions have the routes of a
//! [`Collection`].

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::LOCATION;
use axum::response::IntoResponse;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use toolwright_agents::{AgentRequest, Agents, StartedRun};
use toolwright_catalog::{Session, VersionedRef};
use toolwright_gram::Pattern;
use toolwright_machine::agent::ClientResult;
use toolwright_notation::write_agent;
use toolwright_runs::{RunQuery, RunSnapshot};
use toolwright_types::{
    AgentDefinition, CallId, ConversationId, ErrorCode, PromptFragment, RunId, RunStatus, SideEffects, ToolError,
    ToolStatus,
};

use crate::collection::Collection;
use crate::extract::{Caller, CallerKey, JsonBody, PathName, QueryParams};
use crate::problem::{Code, Problem};
use crate::routes::tools::parse_requirement;
use crate::run_views::{AcceptedView, AgentResponseView, ApprovalView};
use crate::state::AppState;
use crate::stream;
use crate::stream_views::StreamEventView;
use crate::views::PageView;

const TAG: &str = "agents";

impl Collection for AgentDefinition {
    const PATH: &'static str = "/api/v1/ai/agents";
    const TAG: &'static str = TAG;
    const SINGULAR: &'static str = "Agent";
    const HAS_GRAM: bool = true;

    async fn gram(
        engine: &AppState,
        session: &Session,
        name: &str,
        version: Option<&str>,
    ) -> Result<Option<Pattern>, Problem> {
        let document = engine.registry.get::<Self>(session, name, version).await?;
        Ok(Some(write_agent(&document.body)))
    }
}

impl Collection for PromptFragment {
    const PATH: &'static str = "/api/v1/ai/prompt-fragments";
    const TAG: &'static str = "prompt-fragments";
    const SINGULAR: &'static str = "PromptFragment";
}

/// The input of an agent run.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct AgentExecuteBody {
    /// The agent. If it is set, it must equal the agent in the path.
    #[serde(default)]
    agent_ref: Option<String>,
    /// An exact version of the agent or a requirement such as `^1.2`. Default: the highest active version.
    #[serde(default)]
    version: Option<String>,
    /// The message of the user.
    #[serde(default)]
    user_message: Option<String>,
    /// The conversation to continue. If absent, a new conversation starts.
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    conversation_id: Option<ConversationId>,
    /// The variables of the prompt.
    #[serde(default, deserialize_with = "toolwright_types::null_as_default")]
    #[schema(value_type = Object)]
    context: Map<String, Value>,
    /// The realm to act in. Default: the caller's realm.
    #[serde(default)]
    realm_id: Option<String>,
    /// The principal to act as. Default: the caller.
    #[serde(default)]
    principal_id: Option<String>,
    /// The session id that the client uses. Default: the id of the conversation.
    #[serde(default)]
    session_id: Option<String>,
    /// The results of client tools, instead of a message. They resume the waiting run of the conversation.
    #[serde(default, deserialize_with = "toolwright_types::null_as_default")]
    tool_results: Vec<ToolResultBody>,
}

impl AgentExecuteBody {
    /// A body with only a message, a conversation and variables.
    pub(crate) fn with_message(message: String, conversation: ConversationId, context: Map<String, Value>) -> Self {
        Self {
            agent_ref: None,
            version: None,
            user_message: Some(message),
            conversation_id: Some(conversation),
            context,
            realm_id: None,
            principal_id: None,
            session_id: None,
            tool_results: Vec::new(),
        }
    }
}

/// The result of a client tool.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ToolResultBody {
    /// The call.
    #[schema(value_type = String)]
    #[serde(alias = "toolCallId", alias = "tool_call_id")]
    call_id: CallId,
    /// The output.
    #[serde(default, deserialize_with = "deserialize_present")]
    output: Option<Value>,
    /// The error instead of an output: a string, or an object with `message`.
    #[serde(default)]
    #[schema(value_type = Option<Value>)]
    error: Option<ClientError>,
}

/// Distinguishes null from an absent value, because null is a valid output.
fn deserialize_present<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

#[derive(Deserialize)]
#[serde(untagged)]
enum ClientError {
    Text(String),
    Object { message: String },
}

/// Converts the results of client tools in a request. `field` is the JSON pointer of the results.
pub(crate) fn client_results(field: &str, bodies: Vec<ToolResultBody>) -> Result<Vec<(CallId, ClientResult)>, Problem> {
    let results = bodies.into_iter().enumerate().map(|(at, body)| {
        let result = match (body.output, body.error) {
            (Some(output), None) => ClientResult::Output(output),
            (None, Some(ClientError::Text(message) | ClientError::Object { message })) => {
                ClientResult::Error(ToolError::new(ErrorCode::ProviderError, message).reason("client_error"))
            }
            _ => {
                let path = format!("{field}/{at}");
                return Err(Problem::invalid(&path, "must have either `output` or `error`"));
            }
        };
        Ok((body.call_id, result))
    });
    results.collect()
}

/// Runs an agent and returns when the run ends or waits.
#[utoipa::path(post, path = "/api/v1/ai/agents/{ref}/execute", tag = TAG, operation_id = "executeAgent", request_body = AgentExecuteBody,
    params(("ref" = String, Path)),
    responses((status = 200, body = AgentResponseView)))]
pub(crate) async fn execute(
    State(engine): State<AppState>,
    Caller(session): Caller,
    PathName(agent): PathName,
    JsonBody(body): JsonBody<AgentExecuteBody>,
) -> Result<Json<AgentResponseView>, Problem> {
    Ok(Json(run(&engine, &session, &agent, body).await?))
}

/// Runs an agent until the run ends or waits.
pub(crate) async fn run(
    engine: &AppState,
    session: &Session,
    agent: &str,
    body: AgentExecuteBody,
) -> Result<AgentResponseView, Problem> {
    let snapshot = if body.tool_results.is_empty() {
        let started = start(engine, session, agent, body, None).await?;
        engine.runs.settled(&started.handle).await
    } else {
        resume_with_results(engine, session, agent, body).await?
    };
    response_view(engine, session, snapshot.ok_or_else(journal_lost)?).await
}

/// Runs an agent and streams its events.
#[utoipa::path(post, path = "/api/v1/ai/agents/{ref}/execute/stream", tag = TAG, operation_id = "streamAgent", request_body = AgentExecuteBody,
    params(("ref" = String, Path)),
    responses((status = 200, body = StreamEventView, content_type = "text/event-stream")))]
pub(crate) async fn execute_stream(
    State(engine): State<AppState>,
    Caller(session): Caller,
    CallerKey(key): CallerKey,
    PathName(agent): PathName,
    JsonBody(body): JsonBody<AgentExecuteBody>,
) -> Result<impl IntoResponse, Problem> {
    if !body.tool_results.is_empty() {
        let path = "/toolResults";
        return Err(Problem::invalid(
            path,
            "is not supported here; send results to `…/runs/{id}/tool-results` and stream the run from `…/runs/{id}/events`",
        ));
    }
    let started = start(&engine, &session, &agent, body, None).await?;
    let watch = engine.runs.watch_handle(&started.handle);
    Ok(stream::events(watch, started.run.to_string(), agent, key, engine.shutdown_token()))
}

/// Starts a durable run, which survives a crash of the server, and returns at once.
#[utoipa::path(post, path = "/api/v1/ai/agents/{ref}/execute/durable", tag = TAG, operation_id = "startAgent", request_body = AgentExecuteBody,
    params(("ref" = String, Path)),
    responses((status = 202, body = AcceptedView, headers(("Location" = String, description = "the path of the run")))))]
pub(crate) async fn execute_durable(
    State(engine): State<AppState>,
    Caller(session): Caller,
    PathName(agent): PathName,
    JsonBody(body): JsonBody<AgentExecuteBody>,
) -> Result<impl IntoResponse, Problem> {
    if !body.tool_results.is_empty() {
        return Err(Problem::invalid(
            "/toolResults",
            "is not supported here; send results to `…/runs/{id}/tool-results`",
        ));
    }
    let started = start(&engine, &session, &agent, body, Some(true)).await?;
    let location = [(LOCATION, format!("/api/v1/ai/runs/{}", started.run))];
    Ok((StatusCode::ACCEPTED, location, Json(AcceptedView::running(started.run))))
}

async fn start(
    engine: &AppState,
    session: &Session,
    agent: &str,
    body: AgentExecuteBody,
    durable: Option<bool>,
) -> Result<StartedRun, Problem> {
    if body.agent_ref.as_deref().is_some_and(|other| !other.eq_ignore_ascii_case(agent)) {
        return Err(Problem::invalid("/agentRef", format!("must be `{agent}`, the agent in the path, or absent")));
    }
    let version = body.version.as_deref().map(parse_requirement).transpose()?;
    let agent = VersionedRef { name: agent, version_req: version };
    let message = body.user_message.filter(|message| !message.trim().is_empty());
    let message = message.ok_or_else(|| Problem::invalid("/userMessage", "is required and must not be blank"))?;
    let request = AgentRequest {
        message,
        conversation: body.conversation_id,
        context: body.context,
        realm: body.realm_id,
        principal: body.principal_id,
        session: body.session_id,
        durable,
        history: Vec::new(),
        run: None,
    };
    Ok(engine.agents.start(session, agent.to_string().as_str(), request).await?)
}

/// Passes the results of client tools to the waiting run of a conversation.
async fn resume_with_results(
    engine: &AppState,
    session: &Session,
    agent: &str,
    body: AgentExecuteBody,
) -> Result<Option<Arc<RunSnapshot>>, Problem> {
    let Some(id) = body.conversation_id else {
        return Err(Problem::invalid("/conversationId", "is required with `toolResults`"));
    };
    if body.user_message.is_some() {
        return Err(Problem::invalid("/userMessage", "must be absent if `toolResults` is set; send the results first"));
    }
    let (conversation, _) = engine.conversations.get(session, id, 0, 1).await?;
    if !conversation.agent.eq_ignore_ascii_case(agent) {
        let detail = format!("conversation `{id}` belongs to agent `{}`, not to `{agent}`", conversation.agent);
        return Err(Problem::new(Code::NotFound, detail));
    }
    let query = RunQuery {
        conversation: Some(id),
        status: vec![RunStatus::AwaitingClient, RunStatus::AwaitingApproval],
        limit: 1,
        ..RunQuery::default()
    };
    let page = engine.runs.list(session, query).await?;
    let run: Option<RunId> = page.items.first().map(|run| run.id);
    let run = run.ok_or_else(|| {
        let detail = format!("no run of conversation `{id}` waits for results of client tools");
        Problem::new(Code::NotWaiting, detail)
    })?;
    let handle = engine.runs.return_results(session, run, client_results("/toolResults", body.tool_results)?).await?;
    Ok(handle.settled().await)
}

/// Creates the view of a run that ended or waits.
pub(crate) async fn response_view(
    engine: &AppState,
    session: &Session,
    snapshot: Arc<RunSnapshot>,
) -> Result<AgentResponseView, Problem> {
    let pins = engine.agents.pins(session, &snapshot).await?;
    let mut view = AgentResponseView::new(&snapshot, pins);
    if !view.waiting_child_runs.is_empty() {
        let below = engine.runs.approvals_below(session, snapshot.run.id()).await?;
        for approval in &below {
            view.approvals.push(ApprovalView::from_wait(approval)?);
        }
    }
    Ok(view)
}

/// Returns the problem for a run whose journal could not be written.
pub(crate) fn journal_lost() -> Problem {
    Problem::new(Code::Unavailable, "the run's journal could not be written; the cause is in the server's log")
}

/// A tool of an agent.
#[derive(Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentToolView {
    /// The name of the tool, or of the delegate agent.
    pub ref_name: String,
    /// The version of the tool.
    pub version: String,
    /// The life cycle status of the version.
    #[serde(default)]
    pub status: ToolStatus,
    /// The description.
    pub description: String,
    /// The side effects of the tool.
    pub side_effects: SideEffects,
    /// Whether calls require approval.
    pub requires_confirmation: bool,
    /// Whether the tool is a delegate agent.
    pub delegate: bool,
    /// Whether the first request to the model offers the tool. The model finds other tools with `search_tools`.
    pub shown: bool,
}

/// The parameters of the tool list of an agent.
#[derive(Deserialize)]
pub(crate) struct AgentToolParams {
    #[serde(default)]
    message: String,
}

/// Lists the tools of an agent for the caller, in the order in which they are resolved.
#[utoipa::path(get, path = "/api/v1/ai/agents/{ref}/tools", tag = TAG, operation_id = "listAgentTools",
    params(("ref" = String, Path), ("message" = Option<String>, Query, description = "the message of the user; selects the tools that the model sees if the agent has many")),
    responses((status = 200, body = PageView<AgentToolView>)))]
pub(crate) async fn tools(
    State(agents): State<Agents>,
    Caller(session): Caller,
    PathName(agent): PathName,
    QueryParams(params): QueryParams<AgentToolParams>,
) -> Result<Json<PageView<AgentToolView>>, Problem> {
    let resolved = agents.tools(&session, &agent, &params.message).await?;
    let items = resolved.tools.members().iter().map(|member| {
        let definition = &member.tool.definition;
        let ref_name = definition.ref_name.to_string();
        AgentToolView {
            shown: resolved.shown.contains(&ref_name),
            ref_name,
            version: definition.version.to_string(),
            status: definition.status,
            description: definition.description_or_name().to_owned(),
            side_effects: member.tool.effects,
            requires_confirmation: resolved.needs_approval(&member.tool),
            delegate: member.delegate,
        }
    });
    Ok(Json(PageView::complete(items.collect())))
}
