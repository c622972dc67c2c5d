//! Workflows: graphs of steps that run without a model deciding what comes next.
//!
//! This module defines the compiled graph, the input of a workflow run and the states of its steps. `agent/workflow`
//! connects it to the machine of a run. The machine prepares, decides and executes the calls of steps like the calls of
//! a model. Steps without a call (conditions, branches, joins, transforms and waits) are computed in the machine, and need
//! no journal entry.

mod branch;
mod compile;
mod graph;
mod issue;
mod names;
mod order;
mod references;
mod scope;
mod spec;
mod state;
mod type_check;

pub use compile::MAX_WORKFLOW_EDGES;
pub use graph::{
    BRANCH, EXECUTE_WORKFLOW, Edge, EdgeKind, FORM, GraphStep, HandlerKind, INVOKE_AGENT, JOIN, REQUEST_APPROVAL,
    SLEEP, TRANSFORM, WAIT_FOR_SIGNAL, WorkflowGraph, WorkflowSource, is_built_in_handler,
};
pub use issue::{IssueSeverity, WorkflowIssue};
pub use names::is_valid_step_name;
pub use references::{ReferencedValue, StepNames, StepReference};
pub(crate) use scope::StepContext;
pub use spec::{ReusedItem, ReusedStep, WorkflowSpec};
pub(crate) use state::{ItemRef, StepCall, StepRun, Unit, UnitState, WorkflowState};
pub use state::{ItemReport, StepReport, StepStatus};
pub use type_check::StepSchemas;
