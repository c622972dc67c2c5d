//! The document that a model writes.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A plan: the parameters for the steps of a sequence.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Plan {
    /// Why the plan fulfils the task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<String>,
    /// The steps in the order of the sequence. Steps of the sequence that the task does not need are left out.
    pub steps: Vec<PlannedStep>,
}

/// The parameters for one step. Every string may contain `${…}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PlannedStep {
    /// The number of the step in the sequence.
    pub step: u32,
    /// The input of the tool.
    #[serde(default)]
    pub parameters: Map<String, Value>,
    /// A condition. If it is false, the step is skipped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when: Option<String>,
    /// The expression of a list. The tool is called once for each item of the list; the parameters read the item as
    /// `item`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub for_each: Option<String>,
    /// How to read the next page of a list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paging: Option<Paging>,
    /// Why the step has these parameters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<String>,
}

/// How a step reads all pages of a list. The expressions read the output of the latest call as `page`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Paging {
    /// The expression that returns the items of a page.
    pub items: String,
    /// The parameters that request the next page. If one of them is null, the page was the last one.
    pub next: Map<String, Value>,
}
