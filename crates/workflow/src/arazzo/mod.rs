//! Arazzo documents (versions 1.0 and 1.1) as workflows, and workflows as Arazzo documents.
//!
//! Everything that cannot be converted without a change of meaning is refused with its place. Nothing is left out
//! silently. The caller knows the operations: it maps an operation of an API to a tool, and a tool to its operation.

mod condition;
mod expression;
mod operation;
mod path;
mod problem;
mod retry;
mod status;

pub mod export;
pub mod import;

pub use operation::{Operation, OperationBody, OperationParameter, OperationRef, OperationTool, ParameterLocation};
pub use problem::Problem;

use toolwright_types::step_handlers::{BRANCH, EXECUTE_WORKFLOW, JOIN};

/// The field of a workflow or a step that contains what Arazzo has no fields for.
const EXTENSION: &str = "x-toolwright";
