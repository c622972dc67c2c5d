//! Wire views of parts of runs: journal entries, states and trees.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolwright_machine::agent::{EventKind, OpenCall};
use toolwright_machine::journal::EntryBody;
use toolwright_machine::{Limits, ResourceUsage};
use toolwright_runs::{InspectedEntry, RunNode, RunTree, StateAt};
use toolwright_types::{Message, OfferedTool, RunStatus, Timestamp, Usage, round_usd};

use crate::run_views::RunSummaryView;

/// An entry of a journal.
#[derive(Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct JournalEntryView {
    /// The number of the entry, from 1.
    pub n: u64,
    /// The time of the entry.
    #[schema(value_type = String, format = DateTime)]
    pub at: Timestamp,
    /// The kind of the entry: `started`, `model_replied`, `model_failed`, `prepared`, `prepared_again`, `intended`,
    /// `recovered`, `verified`, `call_ended`, `child_suspended`, `child_ended`, `handed_to_client`,
    /// `approval_decided`, `client_returned`, `expired`, `timer_fired`, `cancelled` or `failed`.
    pub kind: String,
    /// The duration of the step that ends with this entry: a model call, a preparation, a tool call, or a wait. Absent
    /// for other entries.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// The cost of the model call or the tool call, in US dollars. Absent if it is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// The tokens of the model call, or of the child run that the tool call started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// The call that the entry refers to. Absent if the entry refers to no single call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call_id: Option<String>,
    /// The tool of the call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_ref: Option<String>,
    /// Whether the run can be forked at this entry if the fork uses the current definitions and changes nothing else.
    pub can_fork: bool,
    /// Why the run cannot be forked at this entry.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why_not: Option<String>,
    /// The content of the entry, in the format of the journal.
    #[schema(value_type = Object)]
    pub body: Value,
}

impl From<InspectedEntry> for JournalEntryView {
    fn from(inspected: InspectedEntry) -> Self {
        let InspectedEntry { entry, body, call_id, tool, started_at, fork_obstacle } = inspected;
        let (cost_usd, usage, executed) = match &entry.body {
            EntryBody::Event(EventKind::ModelReplied { reply, .. }) => (reply.cost_usd, Some(reply.usage), None),
            EntryBody::Event(EventKind::CallEnded { envelope, usage, .. }) => (
                envelope.metadata.cost_usd,
                Some(*usage).filter(|usage| !usage.is_zero()),
                Some(envelope.t_end.millis_since(envelope.t_start)),
            ),
            _ => (None, None, None),
        };
        Self {
            n: entry.n,
            at: entry.at,
            kind: entry.kind().to_owned(),
            duration_ms: executed.or_else(|| started_at.map(|started| entry.at.millis_since(started))),
            cost_usd,
            usage,
            call_id: call_id.map(|id| id.to_string()),
            tool_ref: tool,
            can_fork: fork_obstacle.is_none(),
            why_not: fork_obstacle.map(str::to_owned),
            body,
        }
    }
}

/// The state of a run after an entry.
#[derive(Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunStateView {
    /// The id of the run.
    pub run_id: String,
    /// The number of the entry.
    pub at: u64,
    /// The status of the run.
    pub status: RunStatus,
    /// The reason for the status, as a stable identifier.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The number of messages in the conversation with the model, including those that are not returned.
    pub message_count: u64,
    /// The index of the first of the returned messages, from 0. If it is not 0, a request with `beforeMessage` returns
    /// earlier messages.
    pub first_message: u64,
    /// The messages, oldest first.
    pub messages: Vec<MessageView>,
    /// The tools that are offered to the model.
    pub tools: Vec<OfferedToolView>,
    /// The consumption and the limits of the run.
    pub budget: BudgetView,
    /// The calls that have not ended.
    pub open_calls: Vec<OpenCallView>,
    /// Whether the run can be forked at this entry if the fork uses the current definitions and changes nothing else.
    pub can_fork: bool,
    /// Why the run cannot be forked at this entry.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why_not: Option<String>,
}

impl RunStateView {
    /// Creates the view of a state with at most `limit` messages before the index `before`.
    pub(crate) fn new(state: &StateAt, before: Option<u64>, limit: u32) -> Self {
        let (run, messages) = (&state.run, state.run.messages());
        let before = before.and_then(|before| usize::try_from(before).ok());
        let end = before.unwrap_or(usize::MAX).min(messages.len());
        let first = end.saturating_sub(usize::try_from(limit).unwrap_or(usize::MAX));
        let shown = messages.get(first..end).unwrap_or_default();
        let count = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
        Self {
            run_id: run.id().to_string(),
            at: state.at,
            status: run.status(),
            reason: run.ending().and_then(|ending| ending.reason.clone()),
            message_count: count(messages.len()),
            first_message: count(first),
            messages: shown.iter().map(MessageView::from).collect(),
            tools: run.offered_tools().iter().map(OfferedToolView::from).collect(),
            budget: BudgetView::new(run.limits(), run.resource_usage(), run.started_model_calls()),
            open_calls: run.open_calls().map(OpenCallView::from).collect(),
            can_fork: state.fork_obstacle.is_none(),
            why_not: state.fork_obstacle.map(str::to_owned),
        }
    }
}

/// A message of the conversation with the model.
#[derive(Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct MessageView {
    /// `system`, `user`, `assistant` or `tool`.
    pub role: String,
    /// The text.
    pub content: String,
    /// The calls that a reply requests.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<RequestedCallView>,
    /// If the message is the result of a call: the id that the model gave to the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// If the message is the result of a call: the tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_ref: Option<String>,
    /// If the message is the result of a call: whether the call failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is_error: Option<bool>,
}

/// A call that a reply requests.
#[derive(Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RequestedCallView {
    /// The id that the model gave to the call.
    pub id: String,
    /// The name that the model used for the tool.
    pub name: String,
    /// The arguments; a string if they are not valid JSON.
    pub input: Value,
}

impl From<&Message> for MessageView {
    fn from(message: &Message) -> Self {
        let text = |role: &str, content: &str| Self {
            role: role.to_owned(),
            content: content.to_owned(),
            tool_calls: Vec::new(),
            id: None,
            tool_ref: None,
            is_error: None,
        };
        match message {
            Message::System { content } => text("system", content),
            Message::User { content } => text("user", content),
            Message::Assistant { content, tool_calls, .. } => {
                let calls = tool_calls.iter().map(|call| RequestedCallView {
                    id: call.id.clone(),
                    name: call.name.clone(),
                    input: call.arguments.to_value(),
                });
                Self { tool_calls: calls.collect(), ..text("assistant", content) }
            }
            Message::Tool { id, name, content, is_error, .. } => Self {
                id: Some(id.clone()),
                tool_ref: Some(name.clone()),
                is_error: Some(*is_error),
                ..text("tool", content)
            },
        }
    }
}

/// A tool that is offered to the model.
#[derive(Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct OfferedToolView {
    /// The name of the tool.
    pub name: String,
    /// The description for the model.
    pub description: String,
    /// The JSON Schema of the input.
    pub input_schema: Value,
}

impl From<&OfferedTool> for OfferedToolView {
    fn from(tool: &OfferedTool) -> Self {
        let OfferedTool { name, description, input_schema } = tool;
        Self { name: name.clone(), description: description.clone(), input_schema: input_schema.clone() }
    }
}

/// The consumption and the limits of a run. `limit` and `left` are null if there is no limit.
#[derive(Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct BudgetView {
    /// Model calls.
    pub iterations: AmountView,
    /// Tool calls.
    pub tool_calls: AmountView,
    /// Tokens.
    pub tokens: AmountView,
    /// Cost in US dollars.
    pub cost_usd: AmountView,
    /// Active time in milliseconds.
    pub time_ms: AmountView,
}

/// A consumed amount and its limit.
#[derive(Serialize, Deserialize, utoipa::ToSchema)]
pub struct AmountView {
    /// The consumed amount.
    pub used: f64,
    /// The limit.
    pub limit: Option<f64>,
    /// The amount that is left until the limit.
    pub left: Option<f64>,
}

impl AmountView {
    fn new(used: f64, limit: Option<f64>) -> Self {
        Self { used, limit, left: limit.map(|limit| round_usd((limit - used).max(0.0))) }
    }
}

impl BudgetView {
    fn new(limits: &Limits, used: &ResourceUsage, model_calls: u32) -> Self {
        // Amounts above 2^53 lose precision, as in any JSON number.
        #[expect(clippy::cast_precision_loss, reason = "amounts are shown to people")]
        let float = |number: u64| number as f64;
        // `u32::MAX` means that there is no limit.
        let bounded = |limit: u32| Some(f64::from(limit)).filter(|_| limit != u32::MAX);
        Self {
            iterations: AmountView::new(f64::from(model_calls), bounded(limits.max_iterations)),
            tool_calls: AmountView::new(f64::from(used.tool_calls), bounded(limits.max_tool_calls)),
            tokens: AmountView::new(float(used.usage.total()), limits.max_tokens.map(float)),
            cost_usd: AmountView::new(used.cost_usd, limits.max_cost_usd),
            time_ms: AmountView::new(float(used.active_us / 1000), limits.timeout_ms.map(float)),
        }
    }
}

/// A call that has not ended.
#[derive(Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct OpenCallView {
    /// The call.
    pub call_id: String,
    /// The tool.
    pub tool_ref: String,
    /// The version of the tool; empty if the tool is unknown.
    pub version: String,
    /// The arguments.
    pub input: Value,
    /// What the call does or waits for: `queued`, `running`, `verifying`, `child_run`, `approval`, `preparing` or
    /// `client`.
    pub state: String,
    /// The child run that the call waits for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub child_run_id: Option<String>,
}

impl From<OpenCall<'_>> for OpenCallView {
    fn from(call: OpenCall<'_>) -> Self {
        Self {
            call_id: call.call_id.to_string(),
            tool_ref: call.tool.to_owned(),
            version: call.version.to_owned(),
            input: call.input.clone(),
            state: call.state.to_owned(),
            child_run_id: call.child.map(|run| run.to_string()),
        }
    }
}

/// A run and its child runs.
#[derive(Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunTreeView {
    /// The run.
    pub root: RunNodeView,
    /// Whether child runs are missing, because the tree has more than 500 runs.
    pub truncated: bool,
}

/// A run of a tree.
#[derive(Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunNodeView {
    /// The run. `tokensUsed` and `costUsd` include the child runs whose results the run received.
    #[serde(flatten)]
    pub run: RunSummaryView,
    /// The tokens of the run and of all its child runs.
    pub total_tokens: u64,
    /// The cost of the run and of all its child runs, in US dollars.
    pub total_cost_usd: f64,
    /// The child runs, in the order of their start.
    #[schema(no_recursion)]
    pub children: Vec<RunNodeView>,
}

impl RunTreeView {
    /// Creates the view of a tree.
    pub(crate) fn new(tree: &RunTree) -> Self {
        Self { root: RunNodeView::new(&tree.root), truncated: tree.truncated }
    }
}

impl RunNodeView {
    fn new(node: &RunNode) -> Self {
        Self {
            run: RunSummaryView::new(&node.run),
            total_tokens: node.total_tokens,
            total_cost_usd: node.total_cost_usd,
            children: node.children.iter().map(Self::new).collect(),
        }
    }
}
