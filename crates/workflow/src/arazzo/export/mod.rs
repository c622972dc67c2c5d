//! Writes Arazzo documents.

mod document;
mod flow;
mod schema;
mod template;
mod workflow;

use serde_json::Value;
use toolwright_types::WorkflowDefinition;

use super::{Operation, Problem};

/// The settings of a workflow that Arazzo has no fields for. They do not change which steps run.
pub(super) const SETTINGS: [&str; 10] = [
    "version",
    "status",
    "outputSchema",
    "limits",
    "sideEffects",
    "durable",
    "onUnknownOutcome",
    "securityUri",
    "enabled",
    "layout",
];

/// The version of an exported document.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ArazzoVersion {
    /// 1.0.1.
    #[default]
    V1_0,
    /// 1.1.0, which has timeouts.
    V1_1,
}

impl ArazzoVersion {
    fn as_str(self) -> &'static str {
        match self {
            ArazzoVersion::V1_0 => "1.0.1",
            ArazzoVersion::V1_1 => "1.1.0",
        }
    }
}

/// Writes workflows as one document. Workflows that execute each other must be in one document. `operation_of` finds the
/// operation that the `handlerRef` of a step calls. With several workflows, the path of a problem begins with the
/// position of its workflow.
pub fn export(
    workflows: &[&WorkflowDefinition],
    version: ArazzoVersion,
    operation_of: impl Fn(&str) -> Option<Operation>,
) -> Result<Value, Vec<Problem>> {
    document::export(workflows, version, &operation_of)
}
