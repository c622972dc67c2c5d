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
mod order;
mod references;
mod scope;
mod spec;
mod state;
mod type_check;

pub use compile::MAX_WORKFLOW_EDGES;
pub use graph::{Edge, EdgeKind, GraphStep, HandlerKind, WorkflowGraph, WorkflowSource};
pub use issue::{IssueSeverity, WorkflowIssue};
pub use references::{ReferencedValue, StepNames, StepReference};
pub(crate) use scope::StepContext;
pub use spec::{ReusedItem, ReusedStep, WorkflowSpec};
pub(crate) use state::{ItemRef, StepCall, StepRun, Unit, UnitState, WorkflowState};
pub use state::{ItemReport, StepReport, StepStatus};
pub use type_check::StepSchemas;
