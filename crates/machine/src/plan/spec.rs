//! The additional input of a run that follows a plan.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Plan;

/// The sequence of tools that a run executes, and the limits of its plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlanSpec {
    /// The tools, in the order of their execution.
    pub sequence: Vec<SequenceStep>,
    /// The JSON Schema of a plan.
    pub schema: Value,
    /// The input of the run. Expressions of a plan read it as `input`.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub input: Value,
    /// The plan, if it is known before the run starts. Such a run calls no model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub given: Option<Plan>,
    /// The maximum number of steps that are executed.
    pub max_steps: u32,
    /// The maximum number of items of a list that a step collects or processes.
    pub max_items: u32,
    /// Whether a person must approve the plan before its first step.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub requires_approval: bool,
}

/// One tool of the sequence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SequenceStep {
    /// The number of the step. Numbers increase.
    pub step: u32,
    /// The name of the tool.
    pub tool: String,
    /// The purpose of the step.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub purpose: String,
}

impl PlanSpec {
    /// Returns the tool of a step.
    pub(super) fn tool(&self, step: u32) -> Option<&str> {
        self.sequence.iter().find(|known| known.step == step).map(|known| known.tool.as_str())
    }
}
