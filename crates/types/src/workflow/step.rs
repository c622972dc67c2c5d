//! The steps of a workflow.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{DurationMs, StepName};
use crate::nullable::null_as_default;
use crate::{Backoff, ErrorCode};

/// A step of a workflow.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WorkflowStep {
    /// The name of the step, unique in the workflow.
    pub name: StepName,
    /// What the step does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// What the step calls: a built-in handler (`quantum.…`), a step registration, or a tool, which may have a version
    /// requirement (`search_deals@^1.2`).
    pub handler_ref: String,
    /// The input: JSON whose strings may contain `${…}` expressions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Value>,
    /// The steps that must end before this step runs. `route.large` names the case `large` of the branch `route`.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub depends_on: Vec<String>,
    /// An expression. If it is false, the step is skipped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub condition: Option<String>,
    /// The name of a condition binding. If it is false, the step is skipped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub condition_ref: Option<String>,
    /// When the step is repeated after a failure. Default: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<RetryPolicy>,
    /// The maximum time of one attempt, including waits for people, clients and child runs. Default: the time limit of
    /// the tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<DurationMs>,
    /// What happens after the step has failed. Default: `fail`.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "OnError::is_fail")]
    pub on_error: OnError,
    /// Runs the step once for each item of a list. Expressions of the step read `item` and `index`.
    /// A list, or an expression with a list, may stand in place of the object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Value>))]
    pub for_each: Option<ForEach>,
    /// A second name under which expressions read the output of the step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_as: Option<StepName>,
}

/// A list of items for which a step runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", from = "WrittenForEach")]
pub struct ForEach {
    /// An expression whose value is a list, or a list.
    #[cfg_attr(feature = "openapi", schema(value_type = Value))]
    pub items: Value,
    /// The maximum number of items that run at the same time. Default: 8.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(required = false))]
    pub concurrency: Option<u32>,
}

/// A `forEach` as its author writes it: an object, or only the list.
#[derive(Deserialize)]
#[serde(try_from = "Value")]
struct WrittenForEach(ForEach);

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ForEachObject {
    items: Value,
    #[serde(default)]
    concurrency: Option<u32>,
}

impl TryFrom<Value> for WrittenForEach {
    type Error = serde_json::Error;

    fn try_from(written: Value) -> Result<Self, serde_json::Error> {
        if !written.is_object() {
            return Ok(Self(ForEach { items: written, concurrency: None }));
        }
        let ForEachObject { items, concurrency } = serde_json::from_value(written)?;
        Ok(Self(ForEach { items, concurrency }))
    }
}

impl From<WrittenForEach> for ForEach {
    fn from(WrittenForEach(written): WrittenForEach) -> Self {
        written
    }
}

impl ForEach {
    /// The default for `concurrency`.
    pub const CONCURRENCY: u32 = 8;
}

/// When a failed step is repeated. A write that is not idempotent is never repeated.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RetryPolicy {
    /// The maximum number of attempts, including the first.
    pub max_attempts: u32,
    /// The delay before the first retry. Default: 1 second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<DurationMs>,
    /// The longest delay. Default: 1 minute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_delay: Option<DurationMs>,
    /// How the delay grows. Default: `exponential`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backoff: Option<Backoff>,
    /// The error codes after which the step is repeated. Default: `TIMEOUT`, `RATE_LIMIT`, `PROVIDER_ERROR` and
    /// `NETWORK_ERROR`.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub on: Vec<ErrorCode>,
}

/// What happens after a step has failed, including its retries.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub enum OnError {
    /// The instance fails after the steps in progress have ended.
    #[default]
    Fail,
    /// The steps that depend on this step run. The output of this step is null, and `steps.NAME.error` is its error.
    Continue,
    /// Another step runs instead. Steps that depend on the failed step treat it as skipped.
    Fallback(StepName),
    /// The error code decides which step runs instead. Without a matching entry, the instance fails.
    Branch(ErrorRoutes),
}

impl OnError {
    fn is_fail(&self) -> bool {
        *self == OnError::Fail
    }

    /// The steps that this setting names, each with its place: the error code, or none.
    pub fn targets(&self) -> Vec<&StepName> {
        match self {
            OnError::Fail | OnError::Continue => Vec::new(),
            OnError::Fallback(step) => vec![step],
            OnError::Branch(routes) => routes.codes.values().chain(&routes.default).collect(),
        }
    }

    /// The step that runs after an error with this code.
    pub fn target(&self, code: ErrorCode) -> Option<&StepName> {
        match self {
            OnError::Fail | OnError::Continue => None,
            OnError::Fallback(step) => Some(step),
            OnError::Branch(routes) => routes.codes.get(code.as_str()).or(routes.default.as_ref()),
        }
    }
}

/// The steps that run after errors, by error code.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ErrorRoutes {
    /// The step for each error code.
    #[serde(flatten)]
    pub codes: BTreeMap<String, StepName>,
    /// The step for all other errors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<StepName>,
}
