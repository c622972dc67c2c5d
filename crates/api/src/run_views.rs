//! Wire views of runs.

use std::borrow::Cow;

use crate::approval_views::{ApprovalDecisionView, ApprovedCallView, ChildRunView};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolwright_agents::Pins;
use toolwright_catalog::Unavailable;
use toolwright_machine::agent::{ApprovalRecord, ApprovalRequest, ClientActionRequest};
use toolwright_machine::journal::RunStart;
use toolwright_machine::view::{self, AgentResponse};
use toolwright_machine::{AgentOutputs, PinError};
use toolwright_runs::{PendingWait, Run, RunSnapshot};
use toolwright_types::{RunId, RunStatus, SideEffects, Timestamp, TrialKind, Usage};

/// The response of an agent, or the state of its run.
#[derive(Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentResponseView {
    /// The id of the run.
    pub run_id: String,
    /// The correlation id: the header `X-Correlation-Id` of the request that started the run. Default: the id of that
    /// request. Child runs have the same correlation id, and HTTP, gRPC and MCP tools send it with their requests.
    #[serde(default)]
    pub correlation_id: String,
    /// The conversation, if the agent keeps one.
    pub conversation_id: Option<String>,
    /// The version of the agent that ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_version: Option<String>,
    /// The answer, the calls and the status.
    #[serde(flatten)]
    pub response: AgentResponse,
    /// Why the run ended, as a text for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The tokens used.
    pub usage: Usage,
    /// The cost in US dollars, as far as prices are known.
    pub cost_usd: f64,
    /// The outputs of the run: the answer and the envelopes of all calls.
    pub outputs: AgentOutputs,
    /// The pinned outputs by name.
    #[schema(value_type = Object)]
    pub pins: Pins,
    /// The actions that the client has to perform.
    pub client_actions: Vec<ClientActionView>,
    /// The calls that wait for approval, of this run and of its child runs. To decide one of them, use the `runId` of
    /// its entry.
    pub approvals: Vec<ApprovalView>,
    /// The child runs that wait for an approval or a client.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waiting_child_runs: Vec<ChildRunView>,
    /// The decisions on earlier approvals.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub decisions: Vec<DecisionView>,
    /// The principal that started the run.
    pub owner: String,
    /// The principal that the run acts as.
    pub principal: String,
    /// Problems that did not stop the run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

impl AgentResponseView {
    /// Creates the view of a run and its pins.
    pub(crate) fn new(snapshot: &RunSnapshot, pins: Result<Pins, PinError>) -> Self {
        let run = &snapshot.run;
        let outputs = run.outputs();
        let response = view::agent_response(run, &outputs);
        let message = run.ending().and_then(|ending| ending.message.clone());
        // `pins` is an error if a required pin has no value. If the run has ended, it failed for this reason. If the
        // run is active, the pin may still get a value. In both cases the view contains every pin as null.
        let pins =
            pins.unwrap_or_else(|_| snapshot.start.spec.pins.iter().map(|pin| (pin.name.clone(), None)).collect());
        let run_id = run.id().to_string();
        Self {
            correlation_id: snapshot.start.correlation_id().to_string(),
            conversation_id: snapshot.start.conversation.map(|id| id.to_string()),
            agent_version: snapshot.start.agent_version.clone(),
            response,
            message,
            usage: run.resource_usage().usage,
            cost_usd: run.resource_usage().cost_usd,
            outputs,
            pins,
            client_actions: run
                .pending_client_actions()
                .into_iter()
                .map(|action| ClientActionView::new(&run_id, action))
                .collect(),
            approvals: run
                .pending_approvals()
                .into_iter()
                .map(|request| ApprovalView::new(&run_id, &snapshot.start.subject, request))
                .collect(),
            waiting_child_runs: run.suspended_children().into_iter().map(ChildRunView::from).collect(),
            decisions: run.decisions().iter().map(DecisionView::from).collect(),
            owner: snapshot.start.owner.clone(),
            principal: snapshot.start.principal.clone(),
            warnings: snapshot.start.warnings.iter().chain(run.warnings()).cloned().collect(),
            run_id,
        }
    }
}

/// A run that was accepted and continues in the background.
#[derive(Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AcceptedView {
    /// The id of the run.
    pub run_id: String,
    /// The status of the run.
    pub status: RunStatus,
}

impl AcceptedView {
    /// Creates the view of a run that was started or resumed.
    pub(crate) fn running(run: RunId) -> Self {
        Self { run_id: run.to_string(), status: RunStatus::Running }
    }
}

/// A run with its calls and outputs.
#[derive(Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunView {
    /// The origin of the run.
    #[serde(flatten)]
    pub origin: RunOriginView,
    /// The run whose calls this run undoes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compensates_run_id: Option<String>,
    /// The state of the run.
    #[serde(flatten)]
    pub state: AgentResponseView,
}

impl RunView {
    pub(crate) fn new(row: &Run, began: &RunStart, state: AgentResponseView) -> Self {
        let compensates_run_id = began.compensates.map(|run| run.to_string());
        Self { origin: RunOriginView::new(row), compensates_run_id, state }
    }
}

/// A run in a list.
#[derive(Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunSummaryView {
    /// The origin of the run.
    #[serde(flatten)]
    pub origin: RunOriginView,
    /// The conversation of the run.
    pub conversation_id: Option<String>,
    /// The version of the agent. Absent in direct calls and in runs of earlier builds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_version: Option<String>,
    /// The correlation id of the run. Absent in runs of earlier builds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub correlation_id: Option<String>,
    /// The first 500 characters of the user's message. Absent in direct calls and in runs of earlier builds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_message: Option<String>,
    /// The status of the run.
    pub status: RunStatus,
    /// The reason for the status, as a stable identifier.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The number of model calls.
    pub iterations_used: u32,
    /// The number of tokens used.
    pub tokens_used: u64,
    /// The cost in US dollars, as far as prices are known.
    pub cost_usd: f64,
}

impl RunSummaryView {
    /// Creates the view of a stored run.
    pub(crate) fn new(row: &Run) -> Self {
        Self {
            origin: RunOriginView::new(row),
            conversation_id: row.conversation.map(|id| id.to_string()),
            agent_version: row.labels.agent_version.clone(),
            correlation_id: row.labels.correlation_id.clone(),
            user_message: row.labels.user_message.clone(),
            status: row.state.status,
            reason: row.state.reason.clone(),
            iterations_used: row.state.iterations,
            tokens_used: row.state.tokens,
            cost_usd: row.state.cost_usd,
        }
    }
}

/// The point at which a run was forked from another.
#[derive(Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ForkView {
    /// The original run.
    pub run_id: String,
    /// The last journal entry that both runs share.
    pub at: u64,
}

/// The role of a run in a trial.
#[derive(Serialize, Deserialize, utoipa::ToSchema)]
pub struct RunTrialView {
    /// The kind of the trial.
    pub kind: TrialKind,
    /// The library that selects the implementations of the tools; `default` means that the run uses no library.
    pub arm: String,
    /// The trial, or the run that this run replays or shadows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub of: Option<String>,
}

/// The origin of a run.
#[derive(Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunOriginView {
    /// The id of the run.
    pub id: String,
    /// `agent`, `tool`, `agentic-tool`, `composite-tool` or `workflow`.
    pub kind: Cow<'static, str>,
    /// The name of the agent, tool or workflow.
    pub subject: String,
    /// The run that started this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent_run_id: Option<String>,
    /// The run that this one was forked from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forked_from: Option<ForkView>,
    /// The role of the run in a trial.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trial: Option<RunTrialView>,
    /// Whether the run is durable: each journal entry is committed before the next step starts.
    pub durable: bool,
    /// When the run started.
    #[schema(value_type = String, format = DateTime)]
    pub started_at: Timestamp,
    /// When the run ended.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub ended_at: Option<Timestamp>,
}

impl RunOriginView {
    pub(crate) fn new(row: &Run) -> Self {
        Self {
            id: row.id.to_string(),
            kind: row.kind.as_str().into(),
            subject: row.subject.clone(),
            parent_run_id: row.parent.map(|id| id.to_string()),
            forked_from: row.fork.map(|fork| ForkView { run_id: fork.run.to_string(), at: fork.n }),
            trial: row.trial.as_ref().map(|trial| RunTrialView {
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

/// A call that waits for approval.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalView {
    /// The run of the call.
    pub run_id: String,
    /// The parent run of the run that requested the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_run_id: Option<String>,
    /// The first run of the chain of parents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root_run_id: Option<String>,
    /// The agent that requested the call.
    pub agent_ref: String,
    /// The call that the decision applies to.
    pub call_id: String,
    /// The name of the tool.
    pub tool_ref: String,
    /// The version of the tool.
    pub version: String,
    /// The side effects of the tool.
    pub side_effects: SideEffects,
    /// The arguments of the call.
    pub input: Value,
    /// The settings that require the approval: `tool`, `agent`, `guardrail`, `unknown_outcome`.
    pub triggers: Vec<Cow<'static, str>>,
    /// When the approval was requested.
    #[schema(value_type = String, format = DateTime)]
    pub requested_at: Timestamp,
    /// When the request expires.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub expires_at: Option<Timestamp>,
    /// The decision. Absent while the call waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<ApprovalDecisionView>,
    /// With `compare=true`: the last approved call of the same agent to the same tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_approved: Option<ApprovedCallView>,
}

impl ApprovalView {
    pub(crate) fn new(run: &str, agent: &str, request: ApprovalRequest) -> Self {
        Self {
            run_id: run.to_owned(),
            parent_run_id: None,
            root_run_id: None,
            agent_ref: agent.to_owned(),
            call_id: request.call_id.to_string(),
            tool_ref: request.tool,
            version: request.version,
            side_effects: request.effects,
            input: request.input,
            triggers: request.triggers.into_iter().map(|trigger| trigger.as_str().into()).collect(),
            requested_at: request.requested_at,
            expires_at: request.expires_at,
            decision: None,
            last_approved: None,
        }
    }

    /// Creates the view of a stored approval request.
    pub(crate) fn from_wait(pending: &PendingWait) -> Result<Self, Unavailable> {
        let unreadable = |error| Unavailable::new("a stored approval request cannot be read", error);
        let request = serde_json::from_str(&pending.wait.body).map_err(unreadable)?;
        Ok(Self {
            parent_run_id: pending.ancestry.parent.map(String::from),
            root_run_id: pending.ancestry.root.map(String::from),
            ..Self::new(&pending.run.to_string(), &pending.subject, request)
        })
    }
}

/// A decision on a call.
#[derive(Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DecisionView {
    /// The call.
    pub call_id: String,
    /// The settings that required the approval.
    pub triggers: Vec<Cow<'static, str>>,
    /// The outcome: `approved`, `denied`, `expired`, or `{"edited": CALL_ID}`.
    pub outcome: Value,
    /// The principal that decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decided_by: Option<String>,
}

impl From<&ApprovalRecord> for DecisionView {
    fn from(record: &ApprovalRecord) -> Self {
        Self {
            call_id: record.call_id.to_string(),
            triggers: record.triggers.iter().map(|trigger| trigger.as_str().into()).collect(),
            outcome: serde_json::to_value(&record.outcome).unwrap_or_default(),
            decided_by: record.decided_by.clone(),
        }
    }
}

/// An action that the client has to perform.
#[derive(Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClientActionView {
    /// The call that waits for the result.
    pub call_id: String,
    /// The name of the tool.
    pub tool_ref: String,
    /// The input of the action.
    pub prepared_payload: Value,
    /// The JSON Schema of the result.
    pub schema: Value,
    /// When the request expires.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub expires_at: Option<Timestamp>,
    /// A token that is the same each time this action is returned. The client can use it to avoid performing the action
    /// twice.
    pub token: String,
}

impl ClientActionView {
    /// Creates the view of a client action.
    pub(crate) fn new(run: &str, action: ClientActionRequest) -> Self {
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
