//! Reads Arazzo documents. Steps run one after the other; `goto` and `end` become branches and error routes.

mod document;
mod flow;
mod inputs;
mod outcome;
mod step;
mod values;
mod workflow;

use serde_json::Value;
use toolwright_types::WorkflowDefinition;

use super::{OperationRef, OperationTool, Problem};

/// The workflows of a document.
#[derive(Debug, Clone, PartialEq)]
pub struct Imported {
    /// The workflows, in the order of the document.
    pub workflows: Vec<WorkflowDefinition>,
    /// Parts whose meaning differs in a detail.
    pub warnings: Vec<Problem>,
}

/// Reads a document. With `workflow_id`, only this workflow and those that it executes are read. `tool_of` finds the tool
/// for an operation.
pub fn import(
    document: &Value,
    workflow_id: Option<&str>,
    tool_of: impl Fn(&OperationRef<'_>) -> Option<OperationTool>,
) -> Result<Imported, Vec<Problem>> {
    document::import(document, workflow_id, &tool_of)
}
