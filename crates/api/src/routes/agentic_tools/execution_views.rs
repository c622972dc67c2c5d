//! Wire views of the executions of agentic tools. All of them are computed from the journal of the run. Personal data
//! is masked.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use toolwright_agents::{AgenticResult, agentic_result};
use toolwright_machine::AgentRun;
use toolwright_machine::agent::{APPROVE_PLAN_TOOL, ModelCall};
use toolwright_machine::plan::StepReport;
use toolwright_runs::{Run, RunSnapshot};
use toolwright_types::{
    Document, ExecutionMode, Message, RunStatus, Timestamp, ToolDefinition, ToolEnvelope, ToolError, round_usd,
};

use crate::personal_data::{masked, masked_value};
use crate::run_views::ApprovalView;

/// The maximum size of a prompt or reply in a response, in bytes.
const MAX_TEXT_BYTES: usize = 100_000;

/// The status of an execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ExecutionStatus {
    /// The run has not ended. It may wait for an approval.
    Running,
    /// The run has a result. If the run has reached its step limit, the result is partial and has a warning.
    Success,
    /// The run failed.
    Error,
    /// The time limit was exceeded.
    Timeout,
}

impl ExecutionStatus {
    /// Converts the status of a run to the status of the execution.
    pub(crate) fn of(status: RunStatus) -> Self {
        match status {
            RunStatus::Completed | RunStatus::MaxIterations => Self::Success,
            RunStatus::Timeout => Self::Timeout,
            other if !other.is_terminal() => Self::Running,
            _ => Self::Error,
        }
    }
}

/// An execution of an agentic tool, in a list.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExecutionSummaryView {
    /// The id of the execution, which is the id of its run.
    pub id: String,
    /// The agentic tool.
    pub agentic_tool: String,
    /// The first 500 characters of the task. If the input has no task: in a list, the first 200 characters of the input
    /// as JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// The status.
    pub status: ExecutionStatus,
    /// The status of the run.
    pub run_status: RunStatus,
    /// The reason for the status, as a stable identifier.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The cost in US dollars.
    pub total_cost: f64,
    /// The number of tokens.
    pub total_tokens: u64,
    /// The duration in milliseconds, until now if the run has not ended.
    pub duration_ms: u64,
    /// The run that called the tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_run_id: Option<String>,
    /// When the execution started.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
    /// When the execution ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub completed_at: Option<Timestamp>,
}

impl ExecutionSummaryView {
    pub(crate) fn new(row: &Run) -> Self {
        Self {
            id: row.id.to_string(),
            agentic_tool: row.subject.clone(),
            task: row.labels.user_message.as_deref().map(masked),
            status: ExecutionStatus::of(row.state.status),
            run_status: row.state.status,
            reason: row.state.reason.clone(),
            total_cost: row.state.cost_usd,
            total_tokens: row.state.tokens,
            duration_ms: row.state.ended_at.unwrap_or(row.state.updated_at).millis_since(row.started_at),
            parent_run_id: row.parent.map(|run| run.to_string()),
            created_at: row.started_at,
            completed_at: row.state.ended_at,
        }
    }
}

/// An execution of an agentic tool with its model calls, its tool calls and its cost.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExecutionView {
    /// The fields that are also in a list of executions.
    #[serde(flatten)]
    pub summary: ExecutionSummaryView,
    /// The id of the agentic tool.
    pub agentic_tool_id: String,
    /// The id of the realm.
    pub tenant_id: String,
    /// How the tool uses its model.
    pub mode: ExecutionMode,
    /// The model.
    pub model: String,
    /// The input of the call.
    pub parent_request: Value,
    /// The plan that the model wrote, also while it waits for an approval and if it was denied. Absent in the agentic
    /// mode, and until there is a valid plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution_plan: Option<Value>,
    /// The finished steps of the plan.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<Object>)]
    pub steps: Vec<StepReport>,
    /// The calls that wait for approval. Personal data in their inputs is masked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub approvals: Vec<ApprovalView>,
    /// The result.
    pub result: Value,
    /// Why the execution failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ToolError>,
    /// The calls to the embedded model.
    pub llm_calls: Vec<LlmCallView>,
    /// The calls to tools.
    pub tool_calls: Vec<ToolCallView>,
    /// The cost of each call.
    pub cost_breakdown: CostBreakdown,
    /// Problems that did not stop the execution.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// A call to the embedded model.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct LlmCallView {
    /// The number of the call, from 1.
    pub call_sequence: usize,
    /// `planning`, `tool_selection`, `result_review` or `error_recovery`.
    pub purpose: String,
    /// `CONTINUE`, `COMPLETE` or `ERROR_RECOVERY`.
    pub decision: String,
    /// The model.
    pub model: String,
    /// All messages of the request.
    pub prompt: String,
    /// The reply.
    pub response: String,
    /// The reason that the model gave for its decision, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<String>,
    /// The input tokens.
    pub tokens_input: u64,
    /// The output tokens.
    pub tokens_output: u64,
    /// The cost in US dollars; 0 if the price of the model is unknown.
    pub cost: f64,
    /// The duration in milliseconds.
    pub latency_ms: u64,
    /// When the request was sent.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
}

/// A call to a tool.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolCallView {
    /// The id of the call.
    pub call_id: String,
    /// The number of the call, from 1.
    pub call_sequence: usize,
    /// The tool.
    pub action_slug: String,
    /// The version of the tool.
    pub version: String,
    /// The input.
    pub parameters: Value,
    /// The output; null if the call failed.
    pub response: Value,
    /// `success` or `error`.
    pub status: String,
    /// The error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ToolError>,
    /// The cost in US dollars.
    pub cost: f64,
    /// The duration in milliseconds.
    pub latency_ms: u64,
    /// When the call started.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
}

/// The cost of an execution. The total is the sum of the costs of all calls.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CostBreakdown {
    /// The total in US dollars.
    pub total_cost: f64,
    /// The tokens of all calls.
    pub total_tokens: u64,
    /// The costs of the calls to the embedded model.
    pub llm_calls: Vec<LlmCallCost>,
    /// The costs of the calls to tools.
    pub action_calls: Vec<ActionCallCost>,
}

/// The cost of a call to the embedded model.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct LlmCallCost {
    /// The id of the call, such as `llm_1`. It is unique only in this execution.
    pub call_id: String,
    /// The purpose of the call, such as `planning`.
    pub purpose: String,
    /// The model.
    pub model: String,
    /// The input tokens.
    pub tokens_input: u64,
    /// The output tokens.
    pub tokens_output: u64,
    /// The cost in US dollars.
    pub cost: f64,
}

/// The cost of a call to a tool.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ActionCallCost {
    /// The id of the call.
    pub call_id: String,
    /// The tool.
    pub action_slug: String,
    /// The tokens of the run that the call started, if it started one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// The cost in US dollars.
    pub cost: f64,
}

impl ExecutionView {
    /// Creates the view of a run; `None` if the run is not an execution of an agentic tool.
    pub(crate) fn new(
        tenant_id: String,
        row: &Run,
        snapshot: &RunSnapshot,
        approvals: Vec<ApprovalView>,
    ) -> Option<Self> {
        let (run, start) = (&snapshot.run, &snapshot.start);
        let execution = start.agentic.as_deref()?;
        let cost_breakdown = CostBreakdown::new(snapshot);
        let mut summary = ExecutionSummaryView {
            total_cost: cost_breakdown.total_cost,
            total_tokens: cost_breakdown.total_tokens,
            ..ExecutionSummaryView::new(row)
        };
        let task = summary.task.take().filter(|_| execution.input.get("task").is_some_and(Value::is_string));
        summary.task = task;
        let (result, error, warnings) = match agentic_result(snapshot) {
            Some(AgenticResult { output: Ok(result), warnings }) => (result, None, warnings),
            Some(AgenticResult { output: Err(error), warnings }) => (Value::Null, Some(error), warnings),
            None => (Value::Null, None, start.warnings.clone()),
        };
        let model = model_name(snapshot);
        let llm_calls = run.model_calls().iter().enumerate();
        let envelopes = run.outputs();
        Some(Self {
            summary,
            agentic_tool_id: execution.tool_id.clone(),
            tenant_id,
            mode: execution.mode,
            parent_request: masked_value(&execution.input),
            execution_plan: plan_of(run).map(|plan| masked_value(&plan)),
            approvals: approvals.into_iter().map(masked_approval).collect(),
            steps: run.plan_progress().map(|progress| progress.reports().to_vec()).unwrap_or_default(),
            result: masked_value(&result),
            error: error.map(masked_error),
            llm_calls: llm_calls.map(|(index, call)| LlmCallView::new(run, &model, index, call)).collect(),
            tool_calls: envelopes.in_order().enumerate().map(|(at, call)| ToolCallView::new(at, call)).collect(),
            cost_breakdown,
            warnings,
            model,
        })
    }
}

impl ExecutionView {
    /// Creates the view of a call that was refused before the model was called. `None` if the run is not such a call.
    pub(crate) fn refused(
        tenant_id: String,
        tool: &Document<ToolDefinition>,
        row: &Run,
        snapshot: &RunSnapshot,
    ) -> Option<Self> {
        let config = tool.body.agentic.as_deref()?;
        let envelopes = snapshot.run.outputs();
        let envelope = envelopes.in_order().next().filter(|envelope| envelope.metadata.child_run.is_none())?;
        let error = envelope.error.clone()?;
        let model = [config.embedded_llm_config.provider.as_deref(), config.embedded_llm_config.model.as_deref()];
        Some(Self {
            summary: ExecutionSummaryView {
                agentic_tool: tool.meta.ref_name.to_string(),
                status: ExecutionStatus::Error,
                ..ExecutionSummaryView::new(row)
            },
            agentic_tool_id: tool.meta.id.clone(),
            tenant_id,
            mode: config.execution_mode,
            model: model.into_iter().flatten().collect::<Vec<_>>().join("/"),
            parent_request: masked_value(&envelope.input),
            execution_plan: None,
            steps: Vec::new(),
            approvals: Vec::new(),
            result: Value::Null,
            error: Some(masked_error(error)),
            llm_calls: Vec::new(),
            tool_calls: Vec::new(),
            cost_breakdown: CostBreakdown {
                total_cost: 0.0,
                total_tokens: 0,
                llm_calls: Vec::new(),
                action_calls: Vec::new(),
            },
            warnings: envelope.metadata.warnings.clone(),
        })
    }
}

impl LlmCallView {
    fn new(run: &AgentRun, model: &str, index: usize, call: &ModelCall) -> Self {
        let messages = run.messages();
        let request = messages.get(..call.request_messages).unwrap_or_default();
        let (response, reasoning) = match messages.get(call.request_messages) {
            Some(Message::Assistant { content, tool_calls, thinking }) => {
                let requested: Vec<String> =
                    tool_calls.iter().map(|call| format!("{} {}", call.name, call.arguments.to_value())).collect();
                let thought: Vec<&str> = thinking.iter().filter_map(|block| block.get("text")?.as_str()).collect();
                let reasoning = match (thought.is_empty(), tool_calls.is_empty()) {
                    (false, _) => Some(thought.join("\n")),
                    (true, false) if !content.is_empty() => Some(content.clone()),
                    _ => plan_reasoning(content),
                };
                let parts = [content.clone()].into_iter().chain(requested).filter(|part| !part.is_empty());
                (parts.collect::<Vec<_>>().join("\n"), reasoning)
            }
            _ => (String::new(), None),
        };
        let prompt: Vec<String> = request.iter().map(shown).collect();
        Self {
            call_sequence: index + 1,
            purpose: call.purpose.as_str().to_owned(),
            decision: call.decision().as_str().to_owned(),
            model: model.to_owned(),
            prompt: masked(&shortened(prompt.join("\n\n"))),
            response: masked(&shortened(response)),
            reasoning: reasoning.map(|text| masked(&shortened(text))),
            tokens_input: call.usage.input_tokens,
            tokens_output: call.usage.output_tokens,
            cost: call.cost_usd.unwrap_or(0.0),
            latency_ms: call.ended_at.millis_since(call.started_at),
            created_at: call.started_at,
        }
    }
}

impl ToolCallView {
    fn new(index: usize, envelope: &ToolEnvelope) -> Self {
        Self {
            call_id: envelope.call_id.to_string(),
            call_sequence: index + 1,
            action_slug: envelope.name.clone(),
            version: envelope.version.clone(),
            parameters: masked_value(&envelope.input),
            response: masked_value(&envelope.output),
            status: if envelope.is_success() { "success" } else { "error" }.to_owned(),
            error: envelope.error.clone().map(masked_error),
            cost: envelope.metadata.cost_usd.unwrap_or(0.0),
            latency_ms: envelope.t_end.millis_since(envelope.t_start),
            created_at: envelope.t_start,
        }
    }
}

impl CostBreakdown {
    /// Adds up the costs of the calls of a run.
    pub(crate) fn new(snapshot: &RunSnapshot) -> Self {
        let run = &snapshot.run;
        let model = model_name(snapshot);
        let llm_calls: Vec<LlmCallCost> = run
            .model_calls()
            .iter()
            .enumerate()
            .map(|(index, call)| LlmCallCost {
                call_id: format!("llm_{}", index + 1),
                purpose: call.purpose.as_str().to_owned(),
                model: model.clone(),
                tokens_input: call.usage.input_tokens,
                tokens_output: call.usage.output_tokens,
                cost: call.cost_usd.unwrap_or(0.0),
            })
            .collect();
        let outputs = run.outputs();
        let action_calls: Vec<ActionCallCost> = outputs
            .in_order()
            .map(|envelope| ActionCallCost {
                call_id: envelope.call_id.to_string(),
                action_slug: envelope.name.clone(),
                tokens: envelope.metadata.child_run.as_ref().map(|child| child.usage.total()),
                cost: envelope.metadata.cost_usd.unwrap_or(0.0),
            })
            .collect();
        let tokens = llm_calls.iter().map(|call| call.tokens_input + call.tokens_output);
        let costs = llm_calls.iter().map(|call| call.cost).chain(action_calls.iter().map(|call| call.cost));
        Self {
            // `sum` would return -0 if there are no costs.
            total_cost: round_usd(costs.fold(0.0, |total, cost| total + cost)),
            total_tokens: tokens.chain(action_calls.iter().filter_map(|call| call.tokens)).sum(),
            llm_calls,
            action_calls,
        }
    }
}

/// Returns the plan of a run: the plan in execution, or else the plan that waits for approval or was denied.
pub(super) fn plan_of(run: &AgentRun) -> Option<Value> {
    if let Some(progress) = run.plan_progress() {
        return Some(json!(progress.plan()));
    }
    if let Some(request) = run.pending_approvals().into_iter().find(|request| request.tool == APPROVE_PLAN_TOOL) {
        return Some(request.input);
    }
    run.outputs().in_order().find(|call| call.name == APPROVE_PLAN_TOOL).map(|call| call.input.clone())
}

fn masked_approval(approval: ApprovalView) -> ApprovalView {
    ApprovalView { input: masked_value(&approval.input), ..approval }
}

/// The name of the embedded model, as `provider/model`.
fn model_name(snapshot: &RunSnapshot) -> String {
    let model = &snapshot.start.model;
    let parts = [model.provider.as_deref(), model.model.as_deref().or(Some(&snapshot.start.spec.request.model))];
    parts.into_iter().flatten().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("/")
}

/// Returns the reasoning in a reply that contains a plan.
fn plan_reasoning(content: &str) -> Option<String> {
    let plan: Value = serde_json::from_str(content).ok()?;
    plan.get("reasoning")?.as_str().map(str::to_owned)
}

fn shown(message: &Message) -> String {
    match message {
        Message::System { content } => format!("[system]\n{content}"),
        Message::User { content } => format!("[user]\n{content}"),
        Message::Assistant { content, tool_calls, .. } => {
            let calls: Vec<String> =
                tool_calls.iter().map(|call| format!("\n-> {} {}", call.name, call.arguments.to_value())).collect();
            format!("[assistant]\n{content}{}", calls.concat())
        }
        Message::Tool { name, content, .. } => format!("[tool {name}]\n{content}"),
    }
}

fn shortened(mut text: String) -> String {
    if text.len() > MAX_TEXT_BYTES {
        let bytes = text.len();
        text.truncate(text.floor_char_boundary(MAX_TEXT_BYTES));
        text.push_str(&format!("… [cut after {} of {bytes} bytes]", text.len()));
    }
    text
}

fn masked_error(error: ToolError) -> ToolError {
    ToolError { message: masked(&error.message), details: error.details.as_ref().map(masked_value), ..error }
}
