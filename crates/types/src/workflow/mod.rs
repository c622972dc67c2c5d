//! The definition of a workflow: a graph of steps that is executed without a model deciding what comes next.

mod duration;
mod parts;
mod step;
pub mod step_handlers;
mod step_name;

use std::collections::BTreeMap;

use semver::Version;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::nullable::{null_as_default, null_as_true};
use crate::tool::{first_version, null_as_first_version};
use crate::{RefName, SideEffects, ToolStatus, UnknownOutcome};

pub use duration::{DurationMs, InvalidDuration};
pub use parts::{ConditionBinding, StepRegistration};
pub use step::{ErrorRoutes, ForEach, OnError, RetryPolicy, WorkflowStep};
pub use step_name::{RESERVED_STEP_NAMES, StepName, is_valid_step_name};

/// The maximum number of steps of a workflow.
pub const MAX_WORKFLOW_STEPS: usize = 10_000;

/// A workflow as its author wrote it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WorkflowDefinition {
    /// The reference name of the workflow.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub ref_name: RefName,
    /// A name in any form, up to 128 characters. Default: `refName`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What the workflow does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The version of the definition.
    #[serde(default = "first_version", deserialize_with = "null_as_first_version")]
    #[cfg_attr(feature = "openapi", schema(value_type = String, example = "1.0.0"))]
    pub version: Version,
    /// The life cycle status of this version.
    #[serde(default, deserialize_with = "null_as_default")]
    pub status: ToolStatus,
    /// The JSON Schema of the input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Object>))]
    pub input_schema: Option<Value>,
    /// The JSON Schema of the output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Object>))]
    pub output_schema: Option<Value>,
    /// The steps. Their order has no meaning: a step runs when the steps that it depends on have ended.
    pub steps: Vec<WorkflowStep>,
    /// The output: JSON whose strings may contain `${…}` expressions over `input` and the steps. Default: an object with
    /// the output of each step on which no other step depends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Value>,
    /// The limits of an instance.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "WorkflowLimits::is_default")]
    pub limits: WorkflowLimits,
    /// The strongest side effect that a step may have. Default: `writes`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub side_effects: Option<SideEffects>,
    /// Whether an instance continues after a crash of the server. Default: true.
    #[serde(default = "default_true", deserialize_with = "null_as_true")]
    pub durable: bool,
    /// Who decides about a write whose outcome is unknown after a crash. Default: the step fails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_unknown_outcome: Option<UnknownOutcome>,
    /// A further permission that a caller needs, as a security URI.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub security_uri: Option<String>,
    /// Whether the workflow can be started.
    #[serde(default = "default_true", deserialize_with = "null_as_true")]
    pub enabled: bool,
    /// Positions and other data of an editor, by step name. It has no meaning for the execution, and comparisons ignore
    /// it.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "BTreeMap::is_empty")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Object>))]
    pub layout: BTreeMap<String, Value>,
}

/// The limits of a workflow instance. Steps do not count as tool calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WorkflowLimits {
    /// The maximum time in which steps run. Time in which the instance only waits does not count. Default: no maximum.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<DurationMs>,
    /// The maximum cost of an instance with its child runs, in US dollars. Default: the limit of the platform.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_cost_usd: Option<f64>,
    /// The maximum number of tokens of an instance with its child runs. Default: no maximum.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
    /// The maximum number of items of one `forEach`. Default: 1000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_items: Option<u32>,
    /// The maximum number of calls that run at the same time. Default: 16.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_parallel_calls: Option<u32>,
}

impl WorkflowLimits {
    /// The default for `max_items`.
    pub const MAX_ITEMS: u32 = 1000;
    /// The default for `max_parallel_calls`.
    pub const MAX_PARALLEL_CALLS: u32 = 16;

    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl WorkflowDefinition {
    /// Creates a workflow without steps. All other fields have their defaults.
    pub fn new(ref_name: RefName) -> Self {
        Self {
            ref_name,
            name: None,
            description: None,
            version: first_version(),
            status: ToolStatus::default(),
            input_schema: None,
            output_schema: None,
            steps: Vec::new(),
            output: None,
            limits: WorkflowLimits::default(),
            side_effects: None,
            durable: true,
            on_unknown_outcome: None,
            security_uri: None,
            enabled: true,
            layout: BTreeMap::new(),
        }
    }

    /// A description for callers: the description, the name or the reference name.
    pub fn summary(&self) -> &str {
        self.description.as_deref().or(self.name.as_deref()).unwrap_or_else(|| self.ref_name.as_str())
    }
}

fn default_true() -> bool {
    true
}
