//! What runs, conversations and what happens in them look like on the wire.

use serde::Serialize;
use serde_json::Value;
use toolwright_engine::agents::{Pins, TurnBody};
use toolwright_engine::conversations::{Conversation, Turn};
use toolwright_engine::runs::{PendingWait, Run, Snapshot};
use toolwright_machine::agent::{ApprovalRecord, ApprovalRequest, ClientRequest};
use toolwright_machine::journal::Began;
use toolwright_machine::view::{self, AgentResponse, ToolCallEntry};
use toolwright_machine::{AgentOutputs, PinError};
use toolwright_types::{RunId, RunStatus, SideEffects, Timestamp, TrialKind, Usage};

/// What an agent answered, or where its run stands.
#[derive(Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentResponseView {
    /// The run.
    run_id: String,
    /// The conversation, if it is kept.
    conversation_id: Option<String>,
    #[serde(flatten)]
    response: AgentResponse,
    /// Why it ended, for a person.
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    /// Tokens.
    usage: Usage,
    /// Dollars, as far as prices are known.
    cost_usd: f64,
    /// The stable outputs.
    outputs: AgentOutputs,
    /// Named outputs.
    #[schema(value_type = Object)]
    pins: Pins,
    /// What the client has to do.
    client_actions: Vec<ClientActionView>,
    /// What a person has to decide.
    approvals: Vec<ApprovalView>,
    /// What people decided.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    decisions: Vec<DecisionView>,
    /// Who asked for the run.
    owner: String,
    /// On whose authority it acts.
    principal: String,
    /// What the reader should know although the run went on.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
}

impl AgentResponseView {
    /// The view of a run, with the pins that were found for it.
    pub fn new(snapshot: &Snapshot, pins: Result<Pins, PinError>) -> Self {
        let run = &snapshot.run;
        let outputs = run.outputs();
        let response = view::agent_response(run, &outputs);
        let message = run.ending().and_then(|ending| ending.message.clone());
        // A run that has ended without one has failed for it; one that goes on may still get it.
        let pins =
            pins.unwrap_or_else(|_| snapshot.began.spec.pins.iter().map(|pin| (pin.name.clone(), None)).collect());
        let run_id = run.id().to_string();
        Self {
            conversation_id: snapshot.began.conversation.map(|id| id.to_string()),
            response,
            message,
            usage: run.spent().usage,
            cost_usd: run.spent().cost_usd,
            outputs,
            pins,
            client_actions: run
                .client_actions()
                .into_iter()
                .map(|action| ClientActionView::new(&run_id, action))
                .collect(),
            approvals: run
                .approvals()
                .into_iter()
                .map(|asked| ApprovalView::new(&run_id, &snapshot.began.agent, asked))
                .collect(),
            decisions: run.decisions().iter().map(DecisionView::from).collect(),
            owner: snapshot.began.owner.clone(),
            principal: snapshot.began.principal.clone(),
            warnings: snapshot.began.warnings.iter().chain(run.warnings()).cloned().collect(),
            run_id,
        }
    }
}

/// A run that goes on by itself.
#[derive(Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AcceptedView {
    run_id: String,
    status: RunStatus,
}

impl AcceptedView {
    /// The view of a run that has begun or been taken up.
    pub fn running(run: RunId) -> Self {
        Self { run_id: run.to_string(), status: RunStatus::Running }
    }
}

/// A run with everything it did.
#[derive(Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunView {
    #[serde(flatten)]
    origin: RunOriginView,
    /// The run whose calls it takes back.
    #[serde(skip_serializing_if = "Option::is_none")]
    undoes_run_id: Option<String>,
    #[serde(flatten)]
    response: AgentResponseView,
}

impl RunView {
    /// The view of a run.
    pub fn new(row: &Run, began: &Began, response: AgentResponseView) -> Self {
        let undoes_run_id = began.undoes.map(|run| run.to_string());
        Self { origin: RunOriginView::new(row), undoes_run_id, response }
    }
}

/// A run in a list.
#[derive(Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunSummaryView {
    #[serde(flatten)]
    origin: RunOriginView,
    /// The conversation it belongs to.
    conversation_id: Option<String>,
    /// Where it stands.
    status: RunStatus,
    /// Why, as a word.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// How often the model was asked.
    iterations_used: u32,
    /// How many tokens that took.
    tokens_used: u64,
    /// Dollars, as far as prices are known.
    cost_usd: f64,
}

impl RunSummaryView {
    /// The view of a row.
    pub fn new(row: &Run) -> Self {
        Self {
            origin: RunOriginView::new(row),
            conversation_id: row.conversation.map(|id| id.to_string()),
            status: row.state.status,
            reason: row.state.reason.clone(),
            iterations_used: row.state.iterations,
            tokens_used: row.state.tokens,
            cost_usd: row.state.cost_usd,
        }
    }
}

/// Where a run left another.
#[derive(Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ForkView {
    /// The other run.
    run_id: String,
    /// The last entry that both share.
    at: u64,
}

/// The part that a run has in a trial.
#[derive(Serialize, utoipa::ToSchema)]
pub struct InTrialView {
    /// What kind of trial.
    kind: TrialKind,
    /// The library that its tools are bound by; `default` is what its agent says without any.
    arm: String,
    /// The trial, or the run that it replays or is the shadow of.
    #[serde(skip_serializing_if = "Option::is_none")]
    of: Option<String>,
}

/// What was run, and when.
#[derive(Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunOriginView {
    /// The run.
    id: String,
    /// What was run: `agent` or `tool`.
    kind: &'static str,
    /// The agent or tool.
    subject: String,
    /// The run that started it.
    #[serde(skip_serializing_if = "Option::is_none")]
    parent_run_id: Option<String>,
    /// The run whose beginning it shares.
    #[serde(skip_serializing_if = "Option::is_none")]
    forked_from: Option<ForkView>,
    /// Its part in a trial.
    #[serde(skip_serializing_if = "Option::is_none")]
    trial: Option<InTrialView>,
    /// Whether each step is committed before the next.
    durable: bool,
    /// When it began.
    #[schema(value_type = String, format = DateTime)]
    started_at: Timestamp,
    /// When it ended.
    #[schema(value_type = Option<String>, format = DateTime)]
    ended_at: Option<Timestamp>,
}

impl RunOriginView {
    fn new(row: &Run) -> Self {
        Self {
            id: row.id.to_string(),
            kind: row.kind.as_str(),
            subject: row.subject.clone(),
            parent_run_id: row.parent.map(|id| id.to_string()),
            forked_from: row.fork.map(|fork| ForkView { run_id: fork.run.to_string(), at: fork.n }),
            trial: row.trial.as_ref().map(|trial| InTrialView {
                kind: trial.kind,
                arm: trial.arm.clone(),
                of: trial.of.clone(),
            }),
            durable: row.durable,
            started_at: row.started_at,
            ended_at: row.state.ended_at,
        }
    }
}

/// A call that a person has to decide on.
#[derive(Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalView {
    run_id: String,
    /// The agent that wants it.
    agent_ref: String,
    /// The call; the decision is bound to it.
    call_id: String,
    /// The tool.
    tool_ref: String,
    /// Its version.
    version: String,
    /// What it does to the world.
    side_effects: SideEffects,
    /// The arguments.
    input: Value,
    /// Which knobs ask for a decision: `tool`, `agent`, `guardrail`.
    because: Vec<&'static str>,
    /// Since when.
    #[schema(value_type = String, format = DateTime)]
    asked_at: Timestamp,
    /// Until when.
    #[schema(value_type = Option<String>, format = DateTime)]
    expires_at: Option<Timestamp>,
}

impl ApprovalView {
    fn new(run: &str, agent: &str, asked: ApprovalRequest) -> Self {
        Self {
            run_id: run.to_owned(),
            agent_ref: agent.to_owned(),
            call_id: asked.call_id.to_string(),
            tool_ref: asked.tool,
            version: asked.version,
            side_effects: asked.effects,
            input: asked.input,
            because: asked.because.into_iter().map(toolwright_machine::Knob::as_str).collect(),
            asked_at: asked.asked_at,
            expires_at: asked.expires_at,
        }
    }

    /// The view of a wait for an approval; none if this release cannot read it.
    pub fn of_wait(pending: &PendingWait) -> Option<Self> {
        let asked = serde_json::from_str(&pending.wait.body).ok()?;
        Some(Self::new(&pending.run.to_string(), &pending.subject, asked))
    }
}

/// What a person decided on a call.
#[derive(Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DecisionView {
    /// The call.
    call_id: String,
    /// Which knobs had asked for a decision.
    because: Vec<&'static str>,
    /// What was decided.
    verdict: Value,
    /// Who decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    by: Option<String>,
}

impl From<&ApprovalRecord> for DecisionView {
    fn from(record: &ApprovalRecord) -> Self {
        Self {
            call_id: record.call_id.to_string(),
            because: record.because.iter().map(|knob| knob.as_str()).collect(),
            verdict: serde_json::to_value(&record.verdict).unwrap_or_default(),
            by: record.by.clone(),
        }
    }
}

/// What the client is asked to do.
#[derive(Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClientActionView {
    /// The call whose result is wanted.
    call_id: String,
    /// The tool.
    tool_ref: String,
    /// What to act on.
    prepared_payload: Value,
    /// What the result must look like.
    schema: Value,
    /// Until when.
    #[schema(value_type = Option<String>, format = DateTime)]
    expires_at: Option<Timestamp>,
    /// The same whenever this action is seen: acting on it twice can be avoided by it.
    token: String,
}

impl ClientActionView {
    /// The view of an action of a run.
    pub fn new(run: &str, action: ClientRequest) -> Self {
        Self {
            token: token(run, action.call_id.as_str()),
            call_id: action.call_id.to_string(),
            tool_ref: action.tool,
            prepared_payload: action.prepared_payload,
            schema: action.schema,
            expires_at: action.expires_at,
        }
    }
}

fn token(run: &str, call: &str) -> String {
    let digest = toolwright_types::json::digest(&serde_json::json!([run, call, "client"]));
    digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

/// One event of a stream.
#[derive(Default, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct StreamEventView {
    /// THINKING, TEXT_DELTA, TEXT_RESET, TOOL_CALL_START, TOOL_CALL_END, APPROVAL_REQUIRED, CLIENT_ACTION, USAGE, DONE or ERROR.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// Text, or what there is to say.
    pub content: Option<String>,
    /// The call that started or ended.
    pub tool_invocation: Option<Box<ToolCallEntry>>,
    /// How often the model had been asked.
    pub iteration: u32,
    /// The run.
    pub run_id: String,
    /// What a person has to decide.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approval: Option<ApprovalView>,
    /// What the client has to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_action: Option<ClientActionView>,
    /// Tokens of one model call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// Dollars of one model call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// How the run ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<RunStatus>,
    /// Why, as a word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl StreamEventView {
    /// The view of something to decide.
    pub fn approval(run: &str, agent: &str, asked: ApprovalRequest) -> Self {
        Self { kind: "APPROVAL_REQUIRED", approval: Some(ApprovalView::new(run, agent, asked)), ..Self::default() }
    }
}

/// A conversation.
#[derive(Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConversationView {
    /// The conversation.
    id: String,
    /// The agent it is with.
    agent_ref: String,
    /// Whose it is.
    principal_id: String,
    /// What it is called.
    title: Option<String>,
    /// ACTIVE, COMPLETED or ARCHIVED.
    status: &'static str,
    /// How many turns it has.
    turn_count: u32,
    /// The tokens of all of them.
    total_tokens_used: u64,
    /// What was said in the first turns, in short.
    summary: Option<String>,
    /// What its runs share.
    #[schema(value_type = Object)]
    shared_context: Value,
    /// When it began.
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    /// When something was last said or changed.
    #[schema(value_type = String, format = DateTime)]
    updated_at: Timestamp,
    /// What was said; only where one conversation is asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    turns: Option<Vec<TurnView>>,
}

impl ConversationView {
    /// The view of a conversation, with turns if there are any to show.
    pub fn new(conversation: Conversation, turns: Option<Vec<Turn>>) -> Self {
        Self {
            id: conversation.id.to_string(),
            agent_ref: conversation.agent,
            principal_id: conversation.owner.to_string(),
            title: conversation.title,
            status: conversation.status.as_str(),
            turn_count: conversation.turn_count,
            total_tokens_used: conversation.total_tokens,
            summary: conversation.summary,
            shared_context: conversation.shared_context,
            created_at: conversation.created_at,
            updated_at: conversation.updated_at,
            turns: turns.map(|turns| turns.into_iter().map(TurnView::from).collect()),
        }
    }
}

/// Something that was said.
#[derive(Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TurnView {
    /// The turn.
    id: String,
    /// Its place, from 0.
    turn_index: u32,
    /// user, assistant, system or tool.
    role: String,
    /// What was said.
    content: String,
    /// The calls that were asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<Object>)]
    tool_calls: Vec<Value>,
    /// The call this is the result of, by the id the model gave it.
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_call_id: Option<String>,
    /// The tool whose result this is.
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_ref: Option<String>,
    /// The tokens it took.
    tokens_used: u64,
    /// How long it took.
    duration_ms: u64,
    /// The run it was said in.
    run_id: Option<String>,
    /// When.
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
}

impl From<Turn> for TurnView {
    fn from(turn: Turn) -> Self {
        let TurnBody { tool_calls, result_of } = TurnBody::of(&turn);
        let (tool_call_id, tool_ref) = result_of.map(|(id, tool, _)| (id, tool)).unzip();
        Self {
            id: turn.id.to_string(),
            turn_index: turn.index,
            role: turn.role,
            content: turn.content,
            tool_calls: tool_calls.iter().filter_map(|call| serde_json::to_value(call).ok()).collect(),
            tool_call_id,
            tool_ref,
            tokens_used: turn.tokens,
            duration_ms: turn.duration_ms,
            run_id: turn.run.map(|run| run.to_string()),
            created_at: turn.at,
        }
    }
}
