//! The additional input of a run that executes a workflow.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolwright_types::{StepName, ToolError};

use super::{StepStatus, WorkflowGraph};

/// The graph that a run executes, and its input.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WorkflowSpec {
    /// The graph.
    pub graph: Arc<WorkflowGraph>,
    /// The input of the workflow.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub input: Value,
    /// The results of steps that an earlier run executed, by step name. These steps are not executed again.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub reused: BTreeMap<StepName, ReusedStep>,
    /// The only step that is executed. All other steps have their reused results or are skipped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub only: Option<StepName>,
}

/// The result of a step of an earlier run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReusedStep {
    /// The status. A step with `Pending` is executed; its completed items are reused.
    pub status: StepStatus,
    /// The output.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub output: Value,
    /// The error of a failed step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ToolError>,
    /// The completed items of a `forEach`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub items: Vec<ReusedItem>,
}

/// The result of a completed item of a `forEach`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReusedItem {
    /// The position in the list.
    pub index: u32,
    /// The output.
    pub output: Value,
}
