//! What a run is given at its start and never changes.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolwright_types::{ModelRequest, PinnedHandle, RunId};

use crate::{Limits, Policy};

/// What a run is given at its start.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Spec {
    /// The run.
    pub run: RunId,
    /// What the model is asked first; later requests are the same with more messages.
    pub request: ModelRequest,
    /// How much the run may do, the platform's limits already applied.
    pub limits: Limits,
    /// What it may do.
    pub policy: Policy,
    /// How many calls may be under way at once.
    pub max_parallel_calls: u32,
    /// How many tools the model sees at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tools: Option<u32>,
    /// How long a person has to decide.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval_wait_ms: Option<u64>,
    /// How long a client has to return a result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_wait_ms: Option<u64>,
    /// Named outputs. A run that misses one it must not miss has failed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pins: Vec<PinnedHandle>,
    /// Calls that are made one after the other, and nothing else: no model is asked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub plan: Vec<PlannedCall>,
    /// Where the run's trace can be seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traces_url: Option<String>,
}

/// A call that was decided on before the run began.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlannedCall {
    /// The tool, by name.
    pub tool: String,
    /// The arguments.
    pub input: Value,
}

impl Spec {
    /// A run with default limits, eight calls at once, and as much patience as it takes.
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
            plan: Vec::new(),
            traces_url: None,
        }
    }

    /// How many calls may be under way at once, seen from both knobs.
    pub(super) fn places(&self) -> usize {
        if self.request.parallel_tool_calls {
            usize::try_from(self.max_parallel_calls).unwrap_or(usize::MAX).max(1)
        } else {
            1
        }
    }
}
