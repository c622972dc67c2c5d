//! Materializes a run: makes a workflow from the calls of a recorded run, with their exact inputs and versions.
//!
//! The data flow between the calls is found by value. A value in the input of a call that is also in the output of an
//! earlier call, or in the input of the run, becomes a reference. Every other value becomes an input of the workflow,
//! with the recorded value as its default. A long text that a model wrote becomes a step that calls the agent.
//!
//! The result is verified: the machine executes the workflow with the recorded outputs, and the inputs that it computes
//! are compared with the recorded inputs.
//!
//! Not here: checks that need other definitions, and the store.

mod build;
mod dependencies;
mod inputs;
mod names;
mod paths;
mod source;
mod texts;
mod values;
mod verify;

use serde_json::Value;
use toolwright_types::{CallId, ErrorCode, InvalidRefName, RefName, RunId, SideEffects, WorkflowDefinition};

pub use source::{SourceAgent, SourceCall, SourceRun};

/// The maximum number of calls of one run that are materialized together.
pub const MAX_CALLS: usize = 1000;

/// The calls to materialize.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Selection {
    /// All successful calls.
    All,
    /// These calls, whether they succeeded or not.
    Calls(Vec<CallId>),
}

/// A workflow that was made from a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Materialized {
    /// The workflow.
    pub definition: WorkflowDefinition,
    /// What became of each call and value.
    pub report: Report,
    /// The comparison of the workflow with the run.
    pub verification: Verification,
}

/// What became of each call and value of the run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Report {
    /// The steps that make a recorded call.
    pub steps: Vec<CallStep>,
    /// The references that were found by value.
    pub links: Vec<Link>,
    /// The values that became inputs of the workflow.
    pub inputs: Vec<LiftedInput>,
    /// The steps that call the agent to write a text.
    pub agent_steps: Vec<AgentStep>,
    /// The calls without a step.
    pub left_out: Vec<LeftOutCall>,
    /// The steps whose recorded output is truncated. A value that the truncated part contained cannot be found.
    pub truncated: Vec<String>,
    /// What the author should know before the workflow is used.
    pub warnings: Vec<String>,
}

/// A step that makes a recorded call.
#[derive(Debug, Clone, PartialEq)]
pub struct CallStep {
    /// The name of the step.
    pub step: String,
    /// The recorded call.
    pub call_id: CallId,
    /// The tool.
    pub tool: String,
    /// The version of the tool.
    pub version: String,
    /// The side effects of the call.
    pub side_effects: SideEffects,
    /// The scope of the secret that the recorded call used. The step uses the secret of its tool, so the workflow contains
    /// none.
    pub secret_scope: Option<String>,
}

/// A reference that was found by value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// The step; absent for the output of the workflow.
    pub step: Option<String>,
    /// A JSON pointer into the input of the step, or into the output.
    pub path: String,
    /// The expression, with `${` and `}`.
    pub expression: String,
}

/// A value that became an input of the workflow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiftedInput {
    /// The name of the input.
    pub name: String,
    /// The step that uses it.
    pub step: String,
    /// A JSON pointer into the input of the step.
    pub path: String,
    /// Whether the recorded value was redacted. The input then has no default and is required.
    pub redacted: bool,
}

/// A step that calls the agent to write a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentStep {
    /// The name of the step.
    pub step: String,
    /// The step that uses the text.
    pub used_by: String,
    /// A JSON pointer into the input of that step.
    pub path: String,
}

/// A call without a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftOutCall {
    /// The call.
    pub call_id: CallId,
    /// The tool.
    pub tool: String,
    /// Why the call has no step.
    pub reason: LeftOutReason,
    /// The error code of the call.
    pub code: ErrorCode,
}

/// Why a call has no step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeftOutReason {
    /// The call failed, and a later call of the same tool succeeded.
    Retried,
    /// The call failed, and no later call of the same tool succeeded.
    Failed,
}

impl LeftOutReason {
    /// The name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            LeftOutReason::Retried => "retried",
            LeftOutReason::Failed => "failed",
        }
    }
}

/// The comparison of the workflow with the run. The workflow was executed with the recorded outputs.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Verification {
    /// The number of steps that make a recorded call.
    pub calls: usize,
    /// The number of these steps whose computed input is the recorded input.
    pub reproduced: usize,
    /// Whether the computed output is the recorded output. Absent if only some calls were selected.
    pub output_reproduced: Option<bool>,
    /// Every value that the workflow does not reproduce.
    pub not_reproduced: Vec<NotReproduced>,
}

/// A value that the workflow does not reproduce.
#[derive(Debug, Clone, PartialEq)]
pub struct NotReproduced {
    /// The step; absent for the output of the workflow.
    pub step: Option<String>,
    /// A JSON pointer into the input of the step, or into the output.
    pub path: String,
    /// The recorded value.
    pub recorded: Value,
    /// The computed value.
    pub computed: Value,
    /// Why they differ.
    pub reason: NotReproducedReason,
}

/// Why a value is not reproduced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotReproducedReason {
    /// The recorded value was redacted, so the caller of the workflow must set it.
    Redacted,
    /// No output of a call contains the value.
    NotFound,
    /// The step did not run.
    NotRun,
    /// The computed value differs.
    Differs,
}

impl NotReproducedReason {
    /// The name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            NotReproducedReason::Redacted => "redacted",
            NotReproducedReason::NotFound => "not_found",
            NotReproducedReason::NotRun => "not_run",
            NotReproducedReason::Differs => "differs",
        }
    }
}

/// Why a run cannot be materialized.
#[derive(Debug, thiserror::Error)]
pub enum MaterializeError {
    /// The run made no call.
    #[error("run `{0}` made no calls, so it has nothing to materialize")]
    NoCalls(RunId),
    /// All calls of the run failed.
    #[error("all calls of run `{0}` failed; select a failed call by its id to materialize it")]
    OnlyFailedCalls(RunId),
    /// The run has no call with this id.
    #[error("run `{run}` has no call `{call}`")]
    UnknownCall {
        /// The run.
        run: RunId,
        /// The call.
        call: CallId,
    },
    /// The call was refused because its tool is unknown.
    #[error("call `{0}` has no tool: the run called a tool that does not exist")]
    NoTool(CallId),
    /// The selected calls are too many.
    #[error("at most {MAX_CALLS} calls can be materialized together, got {0}; select some of them")]
    TooManyCalls(usize),
    /// The name of the workflow cannot be derived from the run.
    #[error(transparent)]
    Name(#[from] InvalidRefName),
}

/// Makes a workflow from calls of a run. `name` is the name of the workflow; by default, it is derived from the run.
pub fn materialize(
    source: &SourceRun,
    selection: &Selection,
    name: Option<RefName>,
) -> Result<Materialized, MaterializeError> {
    let selected = source::select(source, selection)?;
    let name = match name {
        Some(name) => name,
        None => names::workflow_name(source, &selected)?,
    };
    let built = build::build(source, selected, name);
    let verification = verify::verify(&built);
    Ok(Materialized { definition: built.definition, report: built.report, verification })
}
