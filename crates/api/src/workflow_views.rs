//! Wire views of workflow runs.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolwright_machine::workflow::{ItemReport, StepReport, StepStatus};
use toolwright_runs::{Run, RunSnapshot};
use toolwright_types::{CallId, RunStatus, Timestamp, ToolError, Usage};

use crate::approval_views::ChildRunView;
use crate::run_views::{ApprovalView, ClientActionView, RunOriginView};

/// The state of a workflow run.
#[derive(Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkflowRunView {
    /// The id of the run, which is also the id of the workflow instance.
    pub run_id: String,
    /// The name of the workflow.
    pub workflow_ref: String,
    /// The version of the workflow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The hash of the definition that the run executes. Later changes of the workflow do not affect the run.
    pub definition_hash: String,
    /// The status.
    pub status: RunStatus,
    /// The reason for the status, as a stable identifier.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Why the run ended, as a text for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Whether the run is paused, or will be when its calls in progress have ended.
    #[serde(default)]
    pub paused: bool,
    /// The input.
    pub input: Value,
    /// The output; null until the run has completed.
    pub output: Value,
    /// The steps by name, in the order of the definition.
    #[schema(value_type = std::collections::BTreeMap<String, StepView>)]
    pub steps: serde_json::Map<String, Value>,
    /// The tokens used.
    pub usage: Usage,
    /// The cost in US dollars, as far as prices are known.
    pub cost_usd: f64,
    /// The calls that wait for approval, of this run and of its child runs. To decide one of them, use the `runId` of
    /// its entry.
    pub approvals: Vec<ApprovalView>,
    /// The actions that the client has to perform.
    pub client_actions: Vec<ClientActionView>,
    /// The child runs that wait.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waiting_child_runs: Vec<ChildRunView>,
    /// Problems that did not stop the run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// The state of a step.
#[derive(Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct StepView {
    /// The status.
    pub status: StepStatus,
    /// The output; null until the step has ended. For a `forEach`: the list of the outputs, null for each failed item.
    pub output: Value,
    /// The error of a failed step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ToolError>,
    /// The number of attempts.
    pub attempts: u32,
    /// The last call of the step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub call_id: Option<CallId>,
    /// The time when the step started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub started_at: Option<Timestamp>,
    /// The time when the step ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub ended_at: Option<Timestamp>,
    /// The time at which a waiting step continues at the latest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub wakes_at: Option<Timestamp>,
    /// The signal for which the step waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<String>,
    /// Whether the result comes from an earlier run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reused: bool,
    /// The items of a `forEach`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub items: Option<Vec<StepItemView>>,
}

/// The state of one item of a `forEach`.
#[derive(Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct StepItemView {
    /// The position in the list.
    pub index: u32,
    /// The status.
    pub status: StepStatus,
    /// The output; null until the item has completed.
    pub output: Value,
    /// The error of a failed item.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ToolError>,
    /// The number of attempts.
    pub attempts: u32,
    /// The last call of the item.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub call_id: Option<CallId>,
}

/// A workflow run with its origin.
#[derive(Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkflowInstanceView {
    /// The origin of the run.
    #[serde(flatten)]
    pub origin: RunOriginView,
    /// The state of the run.
    #[serde(flatten)]
    pub state: WorkflowRunView,
}

impl WorkflowRunView {
    /// Creates the view of a workflow run.
    pub(crate) fn new(snapshot: &RunSnapshot) -> Self {
        let RunSnapshot { start, run } = snapshot;
        let run_id = run.id().to_string();
        let step = |report: StepReport| {
            (report.name.clone(), serde_json::to_value(StepView::from(report)).unwrap_or_default())
        };
        Self {
            workflow_ref: start.subject.clone(),
            version: start.agent_version.clone(),
            definition_hash: start.definition_hash.clone(),
            status: run.status(),
            reason: run.ending().and_then(|ending| ending.reason.clone()),
            message: run.ending().and_then(|ending| ending.message.clone()),
            paused: run.is_paused(),
            input: run.workflow().map(|workflow| workflow.input.clone()).unwrap_or_default(),
            output: run.workflow_output().clone(),
            steps: run.step_reports().into_iter().map(step).collect(),
            usage: run.resource_usage().usage,
            cost_usd: run.resource_usage().cost_usd,
            approvals: run
                .pending_approvals()
                .into_iter()
                .map(|request| ApprovalView::new(&run_id, &start.subject, request))
                .collect(),
            client_actions: run
                .pending_client_actions()
                .into_iter()
                .map(|action| ClientActionView::new(&run_id, action))
                .collect(),
            waiting_child_runs: run.suspended_children().into_iter().map(ChildRunView::from).collect(),
            warnings: start.warnings.iter().chain(run.warnings()).cloned().collect(),
            run_id,
        }
    }
}

impl WorkflowInstanceView {
    pub(crate) fn new(row: &Run, state: WorkflowRunView) -> Self {
        Self { origin: RunOriginView::new(row), state }
    }
}

impl From<StepReport> for StepView {
    fn from(report: StepReport) -> Self {
        let items = report.items.map(|items| items.into_iter().map(StepItemView::from).collect());
        Self {
            status: report.status,
            output: report.output,
            error: report.error,
            attempts: report.attempts,
            call_id: report.call_id,
            started_at: report.started_at,
            ended_at: report.ended_at,
            wakes_at: report.wakes_at,
            signal: report.signal,
            reused: report.reused,
            items,
        }
    }
}

impl From<ItemReport> for StepItemView {
    fn from(item: ItemReport) -> Self {
        let ItemReport { index, status, output, error, attempts, call_id } = item;
        Self { index, status, output, error, attempts, call_id }
    }
}
