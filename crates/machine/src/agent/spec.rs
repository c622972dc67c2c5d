//! The immutable input of a run.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolwright_types::{ModelRequest, PinnedHandle, RunId};

use crate::plan::PlanSpec;
use crate::workflow::WorkflowSpec;
use crate::{Breach, Limits, Policy, ResourceUsage};

/// The immutable input of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunSpec {
    /// The id of the run.
    pub run: RunId,
    /// The first model request. Later requests add messages and tools.
    #[serde(default = "ModelRequest::none", skip_serializing_if = "ModelRequest::is_none")]
    pub request: ModelRequest,
    /// The limits of the run, with the platform's limits already applied.
    pub limits: Limits,
    /// The policy of the run.
    pub policy: Policy,
    /// The maximum number of concurrent calls.
    pub max_parallel_calls: u32,
    /// The maximum number of tools that the model sees at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tools: Option<u32>,
    /// The time that a person has to decide on a call, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval_wait_ms: Option<u64>,
    /// The time that a client has to return a result, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_wait_ms: Option<u64>,
    /// The pins of the run. The run fails if a required pin has no value.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pins: Vec<PinnedHandle>,
    /// Predefined calls, made in sequence instead of calling a model.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub predefined_calls: Vec<PredefinedCall>,
    /// The sequence of tools, if the run follows a plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<Arc<PlanSpec>>,
    /// The workflow, if the run executes one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workflow: Option<Arc<WorkflowSpec>>,
    /// The URL of the run's trace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traces_url: Option<String>,
}

/// A call that the run makes without asking a model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PredefinedCall {
    /// The name of the tool.
    pub tool: String,
    /// The arguments.
    pub input: Value,
}

impl RunSpec {
    /// Creates a spec with default limits, eight concurrent calls, and no expiry for approvals and client results.
    pub fn new(run: RunId, request: ModelRequest, policy: Policy) -> Self {
        Self {
            run,
            request,
            limits: Limits::default(),
            policy,
            max_parallel_calls: 8,
            max_tools: None,
            approval_wait_ms: None,
            client_wait_ms: None,
            pins: Vec::new(),
            predefined_calls: Vec::new(),
            plan: None,
            workflow: None,
            traces_url: None,
        }
    }

    /// Whether the run calls a model.
    pub fn uses_model(&self) -> bool {
        let has_model_for_plan = self.plan.as_ref().is_none_or(|plan| plan.given.is_none());
        self.predefined_calls.is_empty() && self.workflow.is_none() && has_model_for_plan
    }

    /// Returns the limit that forbids another tool call with this price, if there is one. The limit for tool calls counts
    /// calls that a model chooses. In a plan or workflow, `max_items` limits the number of items and pages instead.
    pub(super) fn breach_before_call(&self, resource_usage: &ResourceUsage, price_usd: f64) -> Option<Breach> {
        let breach = if self.plan.is_some() || self.workflow.is_some() {
            self.limits.budget_breach(resource_usage)
        } else {
            self.limits.before_tool(resource_usage)
        };
        breach.or_else(|| self.limits.price_breach(resource_usage, price_usd))
    }

    /// The limit for concurrent calls. It is 1 if the model may not request calls in parallel.
    pub(super) fn max_concurrent_calls(&self) -> usize {
        if self.request.parallel_tool_calls || self.workflow.is_some() {
            usize::try_from(self.max_parallel_calls).unwrap_or(usize::MAX).max(1)
        } else {
            1
        }
    }
}
