//! The calls of one model reply and their states.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolwright_types::{CallId, CallMetadata, RunId, RunStatus, Timestamp, ToolEnvelope, ToolError};

use super::CallFacts;
use super::run::is_zero;
use crate::workflow::ItemRef;
use crate::{ApprovalTrigger, Ending};

/// The calls of one model reply, in the order in which the model requested them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Batch {
    pub calls: Vec<Call>,
    /// Set when a limit is exceeded: the ending that the run gets after its running calls have finished.
    pub pending_ending: Option<Ending>,
}

/// One requested call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Call {
    /// The id that the model assigned.
    pub model_id: String,
    /// The tool name that the model used.
    pub requested_name: String,
    pub call_id: CallId,
    /// The id of the first call with the same tool, version and input. Calls with equal tool, version and input share
    /// this signature.
    pub signature: CallId,
    pub name: String,
    pub version: String,
    pub input: Value,
    /// Absent if the call was refused during preparation.
    pub facts: Option<CallFacts>,
    /// How often the model has requested this call although its result was already available.
    pub repeat: u32,
    pub edited_from: Option<CallId>,
    pub created_at: Timestamp,
    /// The time of the last intent, for calls that may have side effects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub intended_at: Option<Timestamp>,
    /// The number of earlier attempts: repeated intents, recoveries, and resumptions of a child run.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub attempt: u32,
    /// The step of a workflow that makes the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<StepOfCall>,
    pub state: CallState,
}

/// The step of a workflow that makes a call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct StepOfCall {
    pub of: ItemRef,
    /// The iteration in which the call was prepared.
    pub iteration: u32,
    /// The position of the call among the calls that were prepared together.
    pub position: u32,
    /// The call of the first attempt, if this call is a retry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first: Option<CallId>,
}

/// A child run that is suspended, with the call that waits for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SuspendedChild {
    /// The call.
    pub call_id: CallId,
    /// The tool that was called: the name of the agent.
    pub tool: String,
    /// The child run.
    pub run: RunId,
    /// The status of the child run.
    pub status: RunStatus,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum CallState {
    /// Waits until the concurrency limit allows another call and no earlier unfinished call shares an order key with
    /// this call.
    Queued,
    /// The driver executes the call.
    Running,
    /// The driver was lost after it recorded the call's intent. The verify operation finds out whether the write took
    /// effect.
    Interrupted,
    /// The child run that this call started is suspended.
    ChildSuspended { run: RunId, status: RunStatus },
    /// A person must decide.
    AwaitingApproval { triggers: Vec<ApprovalTrigger>, at: Timestamp, expires_at: Option<Timestamp> },
    /// A person approved the call; it is being prepared again.
    Approved,
    /// The client must act.
    AwaitingClient {
        payload: Value,
        schema: Value,
        pending: Box<ToolEnvelope>,
        at: Timestamp,
        expires_at: Option<Timestamp>,
    },
    /// Finished; the envelope is in the ledger.
    Done,
}

impl Batch {
    pub(super) fn new(calls: Vec<Call>) -> Self {
        Self { calls, pending_ending: None }
    }

    pub(super) fn find(&self, id: &CallId) -> Option<&Call> {
        self.calls.iter().find(|call| call.call_id == *id)
    }

    pub(super) fn find_mut(&mut self, id: &CallId) -> Option<&mut Call> {
        self.calls.iter_mut().find(|call| call.call_id == *id)
    }

    pub(super) fn is_done(&self) -> bool {
        self.calls.iter().all(|call| call.state == CallState::Done)
    }

    /// Whether some calls are unfinished and none of them is running.
    pub(super) fn is_waiting(&self) -> bool {
        !self.is_done() && !self.has_work()
    }

    /// Whether the driver works on a call.
    pub(super) fn has_work(&self) -> bool {
        let is_active =
            |call: &Call| matches!(call.state, CallState::Running | CallState::Interrupted | CallState::Approved);
        self.calls.iter().any(is_active)
    }

    /// Whether any call awaits a person's decision, or waits for a child run that awaits one.
    pub(super) fn awaits_approval(&self) -> bool {
        let awaits_approval = |state: &CallState| match state {
            CallState::AwaitingApproval { .. } => true,
            CallState::ChildSuspended { status, .. } => *status == RunStatus::AwaitingApproval,
            _ => false,
        };
        self.calls.iter().any(|call| awaits_approval(&call.state))
    }

    /// Whether any call awaits the client, or waits for a child run that awaits one.
    pub(super) fn awaits_client(&self) -> bool {
        let awaits_client = |state: &CallState| match state {
            CallState::AwaitingClient { .. } => true,
            CallState::ChildSuspended { status, .. } => *status == RunStatus::AwaitingClient,
            _ => false,
        };
        self.calls.iter().any(|call| awaits_client(&call.state))
    }

    pub(super) fn next_expiry(&self) -> Option<Timestamp> {
        self.calls.iter().filter_map(|call| call.state.expires_at()).min()
    }
}

impl Call {
    /// Whether the tool was executed, or may have been executed.
    pub(super) fn started(&self) -> bool {
        self.intended_at.is_some()
            || matches!(
                self.state,
                CallState::Running | CallState::ChildSuspended { .. } | CallState::AwaitingClient { .. }
            )
    }

    /// The price of the call in US dollars, as far as it is known before the call.
    pub(super) fn price_usd(&self) -> f64 {
        self.facts.as_ref().and_then(|facts| facts.price_usd).unwrap_or(0.0)
    }

    /// Builds the envelope of this call for a failure at the time `at`.
    pub(super) fn failure_envelope(&self, error: ToolError, at: Timestamp) -> ToolEnvelope {
        let facts = self.facts.as_ref();
        ToolEnvelope {
            call_id: self.call_id.clone(),
            name: self.name.clone(),
            version: self.version.clone(),
            input: self.input.clone(),
            output: Value::Null,
            error: Some(error),
            t_start: self.created_at,
            t_end: at.max(self.created_at),
            cached: false,
            truncated: false,
            attachments: Vec::new(),
            metadata: CallMetadata {
                principal: facts.and_then(|facts| facts.principal.clone()),
                policy_id: facts.and_then(|facts| facts.policy_id.clone()),
                execution_site: facts.map(|facts| facts.execution_site),
                ..CallMetadata::default()
            },
        }
    }
}

impl CallState {
    pub(super) fn expires_at(&self) -> Option<Timestamp> {
        match self {
            CallState::AwaitingApproval { expires_at, .. } | CallState::AwaitingClient { expires_at, .. } => {
                *expires_at
            }
            _ => None,
        }
    }
}
