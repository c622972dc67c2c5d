//! Agents: running one, at once or as a stream, and the tools it has. Their definitions are a collection like any other.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::LOCATION;
use axum::response::IntoResponse;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use toolwright_engine::Session;
use toolwright_engine::agents::{AgentRequest, Started};
use toolwright_engine::runs::{RunQuery, Snapshot};
use toolwright_machine::agent::ClientResult;
use toolwright_types::{
    AgentDefinition, CallId, ConversationId, ErrorCode, PromptFragment, RunId, RunStatus, SideEffects, ToolError,
};

use crate::collection::Kind;
use crate::extract::{App, Body, Caller, Named, Parameters};
use crate::problem::{Code, Problem};
use crate::run_views::{AcceptedView, AgentResponseView, StreamEventView};
use crate::stream;
use crate::views::PageView;

const TAG: &str = "agents";

impl Kind for AgentDefinition {
    const PATH: &'static str = "/api/v1/ai/agents";
    const TAG: &'static str = TAG;
    const ONE: &'static str = "Agent";
}

impl Kind for PromptFragment {
    const PATH: &'static str = "/api/v1/ai/prompt-fragments";
    const TAG: &'static str = "prompt-fragments";
    const ONE: &'static str = "PromptFragment";
}

/// What to run an agent with.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AgentExecuteBody {
    /// The agent, where the path does not say; otherwise the same.
    #[serde(default)]
    agent_ref: Option<String>,
    /// What the user says.
    #[serde(default)]
    user_message: Option<String>,
    /// The conversation to go on with; a new one when absent.
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    conversation_id: Option<ConversationId>,
    /// Variables for the prompt.
    #[serde(default, deserialize_with = "toolwright_types::or_default")]
    #[schema(value_type = Object)]
    context: Map<String, Value>,
    /// The realm to act in; the caller's when absent.
    #[serde(default)]
    realm_id: Option<String>,
    /// The principal to act as; the caller when absent.
    #[serde(default)]
    principal_id: Option<String>,
    /// The client's session; the conversation when absent.
    #[serde(default)]
    session_id: Option<String>,
    /// Results of client tools, instead of a message: the conversation's run goes on with them.
    #[serde(default, deserialize_with = "toolwright_types::or_default")]
    tool_results: Vec<ToolResultBody>,
}

impl AgentExecuteBody {
    /// A body that says this and nothing else.
    pub fn saying(message: String, conversation: ConversationId, context: Map<String, Value>) -> Self {
        Self {
            agent_ref: None,
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

/// What a client made of a call.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ToolResultBody {
    /// The call.
    #[schema(value_type = String)]
    #[serde(alias = "toolCallId", alias = "tool_call_id")]
    call_id: CallId,
    /// The result.
    #[serde(default, deserialize_with = "present")]
    output: Option<Value>,
    /// Why there is none: a text, or an object with `message`.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    error: Option<ClientError>,
}

/// A result that is null is a result.
fn present<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

#[derive(Deserialize)]
#[serde(untagged)]
enum ClientError {
    Text(String),
    Whole { message: String },
}

/// The results as a run takes them.
pub fn results(field: &str, bodies: Vec<ToolResultBody>) -> Result<Vec<(CallId, ClientResult)>, Problem> {
    let results = bodies.into_iter().enumerate().map(|(at, body)| {
        let result = match (body.output, body.error) {
            (Some(output), None) => ClientResult::Output(output),
            (None, Some(ClientError::Text(message) | ClientError::Whole { message })) => {
                ClientResult::Error(ToolError::new(ErrorCode::ProviderError, message).reason("client_error"))
            }
            _ => {
                let path = format!("{field}/{at}");
                return Err(Problem::invalid(&path, "needs either `output` or `error`"));
            }
        };
        Ok((body.call_id, result))
    });
    results.collect()
}

/// Runs an agent and answers when it has ended or waits for someone.
#[utoipa::path(post, path = "/api/v1/ai/agents/{ref}/execute", tag = TAG, operation_id = "executeAgent", request_body = AgentExecuteBody,
    params(("ref" = String, Path)),
    responses((status = 200, body = AgentResponseView), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub async fn execute(
    State(engine): State<App>,
    Caller(session): Caller,
    Named(agent): Named,
    Body(body): Body<AgentExecuteBody>,
) -> Result<Json<AgentResponseView>, Problem> {
    Ok(Json(run(&engine, &session, &agent, body).await?))
}

/// Runs an agent to its next rest.
pub async fn run(
    engine: &App,
    session: &Session,
    agent: &str,
    body: AgentExecuteBody,
) -> Result<AgentResponseView, Problem> {
    let settled = if body.tool_results.is_empty() {
        let started = start(engine, session, agent, body, None).await?;
        engine.runs.outcome(&started).await
    } else {
        go_on(engine, session, agent, body).await?
    };
    answer(engine, session, settled.ok_or_else(lost)?).await
}

/// Runs an agent and tells what happens while it happens.
#[utoipa::path(post, path = "/api/v1/ai/agents/{ref}/execute/stream", tag = TAG, operation_id = "streamAgent", request_body = AgentExecuteBody,
    params(("ref" = String, Path)),
    responses((status = 200, body = StreamEventView, content_type = "text/event-stream"),
        (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub async fn execute_stream(
    State(engine): State<App>,
    Caller(session): Caller,
    Named(agent): Named,
    Body(body): Body<AgentExecuteBody>,
) -> Result<impl IntoResponse, Problem> {
    if !body.tool_results.is_empty() {
        let path = "/toolResults";
        return Err(Problem::invalid(path, "send results to the run itself, whose stream is at `…/runs/{id}/events`"));
    }
    let started = start(&engine, &session, &agent, body, None).await?;
    let watch = engine.runs.watch_started(&started);
    Ok(stream::events(watch, started.run.to_string(), agent, engine.stopping()))
}

/// Starts an agent that survives a crash of the server, and leaves it to itself.
#[utoipa::path(post, path = "/api/v1/ai/agents/{ref}/execute/durable", tag = TAG, operation_id = "startAgent", request_body = AgentExecuteBody,
    params(("ref" = String, Path)),
    responses((status = 202, body = AcceptedView, headers(("Location" = String, description = "the run"))),
        (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub async fn execute_durable(
    State(engine): State<App>,
    Caller(session): Caller,
    Named(agent): Named,
    Body(body): Body<AgentExecuteBody>,
) -> Result<impl IntoResponse, Problem> {
    if !body.tool_results.is_empty() {
        return Err(Problem::invalid("/toolResults", "send results to the run itself, at `…/runs/{id}/tool-results`"));
    }
    let started = start(&engine, &session, &agent, body, Some(true)).await?;
    let location = [(LOCATION, format!("/api/v1/ai/runs/{}", started.run))];
    Ok((StatusCode::ACCEPTED, location, Json(AcceptedView::running(started.run))))
}

async fn start(
    engine: &App,
    session: &Session,
    agent: &str,
    body: AgentExecuteBody,
    durable: Option<bool>,
) -> Result<Started, Problem> {
    if body.agent_ref.as_deref().is_some_and(|other| !other.eq_ignore_ascii_case(agent)) {
        return Err(Problem::invalid("/agentRef", "names another agent than the path"));
    }
    let message = body.user_message.filter(|message| !message.trim().is_empty());
    let message = message.ok_or_else(|| Problem::invalid("/userMessage", "says what the agent should do"))?;
    let request = AgentRequest {
        message,
        conversation: body.conversation_id,
        context: body.context,
        realm: body.realm_id,
        principal: body.principal_id,
        session: body.session_id,
        durable,
        history: Vec::new(),
    };
    Ok(engine.agents.start(session, agent, request).await?)
}

/// Goes on with the run of a conversation that waits for its client.
async fn go_on(
    engine: &App,
    session: &Session,
    agent: &str,
    body: AgentExecuteBody,
) -> Result<Option<Arc<Snapshot>>, Problem> {
    let Some(conversation) = body.conversation_id else {
        return Err(Problem::invalid("/conversationId", "names the conversation whose calls these are the results of"));
    };
    if body.user_message.is_some() {
        return Err(Problem::invalid("/userMessage", "cannot be sent together with results; send the results first"));
    }
    let (talk, _) = engine.conversations.get(session, conversation, 0, 1).await?;
    if !talk.agent.eq_ignore_ascii_case(agent) {
        let detail = format!("conversation `{conversation}` is with agent `{}`, not with `{agent}`", talk.agent);
        return Err(Problem::new(Code::NotFound, detail));
    }
    let waiting = RunQuery {
        conversation: Some(conversation),
        status: vec![RunStatus::AwaitingClient, RunStatus::AwaitingApproval],
        limit: 1,
        ..RunQuery::default()
    };
    let page = engine.runs.list(session, waiting).await?;
    let run: Option<RunId> = page.items.first().map(|run| run.id);
    let run = run.ok_or_else(|| {
        Problem::new(Code::NotWaiting, format!("no run of conversation `{conversation}` waits for a client"))
    })?;
    let steered = engine.runs.return_results(session, run, results("/toolResults", body.tool_results)?).await?;
    Ok(steered.settled().await)
}

/// The view of a run that came to rest.
pub async fn answer(engine: &App, session: &Session, snapshot: Arc<Snapshot>) -> Result<AgentResponseView, Problem> {
    let pins = engine.agents.pins(session, &snapshot).await?;
    Ok(AgentResponseView::new(&snapshot, pins))
}

/// A run whose journal failed under it.
pub fn lost() -> Problem {
    Problem::new(Code::Unavailable, "the run's journal could not be written; the server's log has the cause")
}

/// One of an agent's tools.
#[derive(Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentToolView {
    /// The tool, or the agent that can be delegated to.
    ref_name: String,
    /// Its version.
    version: String,
    /// What it does.
    description: String,
    /// What it does to the world.
    side_effects: SideEffects,
    /// Whether a person is asked before it is called.
    requires_confirmation: bool,
    /// Whether it is an agent.
    delegate: bool,
    /// Whether the model is shown it at once; otherwise it is found by `search_tools`.
    shown: bool,
}

/// What the tools are to be chosen for.
#[derive(Deserialize)]
pub struct ToolsFor {
    #[serde(default)]
    message: String,
}

/// The tools an agent has for the caller, in the order they are resolved.
#[utoipa::path(get, path = "/api/v1/ai/agents/{ref}/tools", tag = TAG, operation_id = "listAgentTools",
    params(("ref" = String, Path), ("message" = Option<String>, Query, description = "what the user would say; decides what is shown when there are many")),
    responses((status = 200, body = PageView<AgentToolView>), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub async fn tools(
    State(engine): State<App>,
    Caller(session): Caller,
    Named(agent): Named,
    Parameters(wanted): Parameters<ToolsFor>,
) -> Result<Json<PageView<AgentToolView>>, Problem> {
    let resolved = engine.agents.tools(&session, &agent, &wanted.message).await?;
    let items = resolved.tools.members().iter().map(|member| {
        let definition = &member.tool.definition;
        let ref_name = definition.ref_name.to_string();
        AgentToolView {
            shown: resolved.shown.contains(&ref_name),
            ref_name,
            version: definition.version.to_string(),
            description: definition.description_or_name().to_owned(),
            side_effects: member.tool.effects,
            requires_confirmation: resolved.needs_approval(&member.tool),
            delegate: member.delegate,
        }
    });
    Ok(Json(PageView::whole(items.collect())))
}
