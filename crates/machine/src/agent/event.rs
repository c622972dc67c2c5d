//! The events that a run accepts, and the errors for rejected events.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolwright_types::{CallId, ModelReply, OfferedTool, RunId, RunStatus, Timestamp, ToolEnvelope, ToolError, Usage};

use super::PreparedCall;
use crate::plan::PlanIssue;

/// An event with its time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// The time of the event. A time before the previous event's time is replaced by the previous event's time.
    pub at: Timestamp,
    /// The event.
    pub kind: EventKind,
}

/// The kinds of events.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum EventKind {
    /// The model replied.
    ModelReplied {
        /// The iteration of the model call.
        iteration: u32,
        /// The reply.
        reply: Box<ModelReply>,
        /// The validation error, if the driver found that the answer does not match the requested schema.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        schema_error: Option<String>,
        /// Whether `schema_error` says that the answer could not be checked. The run then ends, because a corrected
        /// answer could not be checked either.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        answer_unchecked: bool,
    },
    /// The model call failed after all retries.
    ModelFailed {
        /// The iteration of the model call.
        iteration: u32,
        /// A stable reason code.
        reason: String,
        /// A message for people.
        message: String,
    },
    /// The calls of a reply were prepared.
    Prepared {
        /// The iteration whose reply requested the calls.
        iteration: u32,
        /// One result for each call, in call order.
        calls: Vec<PreparedCall>,
    },
    /// A call was prepared again after its approval.
    PreparedAgain {
        /// The call.
        call_id: CallId,
        /// The result.
        call: PreparedCall,
    },
    /// A call that may have side effects is about to be executed. If no later event contains the outcome of the call,
    /// it is unknown whether the call was executed.
    Intended {
        /// The call.
        call_id: CallId,
    },
    /// A new driver took over the run, or took over one call if each call has its own driver.
    Recovered {
        /// The call. If absent, the driver took over the whole run.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        call_id: Option<CallId>,
    },
    /// The verify operation reported that a write did not take effect, or that the outcome is unknown. If the write
    /// took effect, `call_ended` is recorded instead.
    Verified {
        /// The call.
        call_id: CallId,
        /// The reason why the outcome is unknown; absent if the write did not take effect.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        unknown_reason: Option<String>,
    },
    /// A call succeeded or failed.
    CallEnded {
        /// The envelope.
        envelope: Box<ToolEnvelope>,
        /// Tokens that the tool consumed by calling a model.
        #[serde(default, skip_serializing_if = "Usage::is_zero")]
        usage: Usage,
        /// The number of tool calls that the child run of this call made.
        #[serde(default, skip_serializing_if = "is_zero")]
        nested_calls: u32,
        /// Tools that the call found and that the model may call from now on.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        offered_tools: Vec<OfferedTool>,
    },
    /// The child run that a call started is suspended, so the call waits too. Recorded each time the child run is
    /// suspended.
    ChildSuspended {
        /// The call.
        call_id: CallId,
        /// The child run.
        run: RunId,
        /// The status of the child run.
        status: RunStatus,
    },
    /// The child run that a call started has ended. The call is executed again to get the outcome of the child run.
    ChildEnded {
        /// The call.
        call_id: CallId,
    },
    /// The server's part of a call is done and the client must complete the call.
    HandedToClient {
        /// The payload for the client.
        prepared_payload: Value,
        /// The schema of the client's result.
        schema: Value,
        /// The envelope so far.
        pending: Box<ToolEnvelope>,
    },
    /// A person decided on a call.
    ApprovalDecided {
        /// The call.
        call_id: CallId,
        /// The `definition_hash` of the approval request.
        definition_hash: String,
        /// The decision.
        decision: Decision,
        /// The person who decided.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        decided_by: Option<String>,
        /// The person's reason for an approval or an edit. The model does not see it. The reason for a denial is in the
        /// decision.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// The client returned a result. The driver has validated it against the schema.
    ClientReturned {
        /// The call.
        call_id: CallId,
        /// The result.
        result: ClientResult,
    },
    /// An approval or a client result did not arrive in time.
    Expired {
        /// The call.
        call_id: CallId,
    },
    /// A timer of the run fired: its time limit, or a timer of a step.
    TimerFired,
    /// A workflow received a signal.
    SignalReceived {
        /// The name of the signal.
        name: String,
        /// The payload.
        #[serde(default, skip_serializing_if = "Value::is_null")]
        payload: Value,
        /// The principal who sent the signal.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        sent_by: Option<String>,
    },
    /// A workflow was paused: the calls in progress end, and nothing else starts.
    Paused {
        /// The principal who paused the workflow.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
    },
    /// A paused workflow continues.
    Resumed {
        /// The principal who resumed the workflow.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
    },
    /// The run was cancelled.
    Cancelled {
        /// A message for people.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<String>,
    },
    /// The driver cannot continue the run.
    Failed {
        /// A stable reason code.
        reason: String,
        /// A message for people.
        message: String,
    },
}

impl EventKind {
    /// Returns the stored name of the event type.
    pub fn as_str(&self) -> &'static str {
        match self {
            EventKind::ModelReplied { .. } => "model_replied",
            EventKind::ModelFailed { .. } => "model_failed",
            EventKind::Prepared { .. } => "prepared",
            EventKind::PreparedAgain { .. } => "prepared_again",
            EventKind::Intended { .. } => "intended",
            EventKind::Recovered { .. } => "recovered",
            EventKind::Verified { .. } => "verified",
            EventKind::CallEnded { .. } => "call_ended",
            EventKind::ChildSuspended { .. } => "child_suspended",
            EventKind::ChildEnded { .. } => "child_ended",
            EventKind::HandedToClient { .. } => "handed_to_client",
            EventKind::ApprovalDecided { .. } => "approval_decided",
            EventKind::ClientReturned { .. } => "client_returned",
            EventKind::Expired { .. } => "expired",
            EventKind::TimerFired => "timer_fired",
            EventKind::SignalReceived { .. } => "signal_received",
            EventKind::Paused { .. } => "paused",
            EventKind::Resumed { .. } => "resumed",
            EventKind::Cancelled { .. } => "cancelled",
            EventKind::Failed { .. } => "failed",
        }
    }

    /// Creates the event for a reply without a schema error.
    pub fn model_replied(iteration: u32, reply: ModelReply) -> Self {
        EventKind::ModelReplied { iteration, reply: Box::new(reply), schema_error: None, answer_unchecked: false }
    }

    /// Creates the event for a new driver of the whole run.
    pub fn recovered() -> Self {
        EventKind::Recovered { call_id: None }
    }

    /// Creates the event for the end of a call that used no tokens, had no child run and found no tools.
    pub fn call_ended(envelope: ToolEnvelope) -> Self {
        EventKind::CallEnded {
            envelope: Box::new(envelope),
            usage: Usage::default(),
            nested_calls: 0,
            offered_tools: Vec::new(),
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(count: &u32) -> bool {
    *count == 0
}

/// A person's decision on a call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "decision", rename_all = "lowercase")]
pub enum Decision {
    /// The call may run.
    Approve,
    /// The call may not run.
    Deny {
        /// The reason, shown to the model.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// The call may run with another input.
    Edit {
        /// The new input.
        input: Value,
    },
}

/// The result that a client returned.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ClientResult {
    /// The output.
    Output(Value),
    /// The error.
    Error(ToolError),
}

/// The result of applying an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApplyOutcome {
    /// The event was applied.
    Accepted,
    /// The run had already ended; nothing changed.
    AlreadyEnded,
}

/// The reason why a run rejects an event. A rejected event changes nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EventError {
    /// No model call of this iteration is open.
    #[error("no model call of iteration {0} is open")]
    NoModelCall(u32),
    /// The calls of this iteration are not being prepared.
    #[error("no calls of iteration {0} are being prepared")]
    NotPreparing(u32),
    /// The number of results differs from the number of calls.
    #[error("expected results for {expected} prepared calls, got {found}")]
    PreparedCount {
        /// The number of calls.
        expected: usize,
        /// The number of results.
        found: usize,
    },
    /// The run has no such call.
    #[error("the run has no call `{0}`")]
    UnknownCall(CallId),
    /// The call is not being prepared again.
    #[error("call `{0}` is not being prepared again")]
    NotPreparingAgain(CallId),
    /// The call is not running.
    #[error("call `{0}` is not running")]
    NotRunning(CallId),
    /// The call was not interrupted.
    #[error("call `{0}` was not interrupted")]
    NotInterrupted(CallId),
    /// The outcome of the call is unknown, so its input cannot be edited.
    #[error("the outcome of call `{0}` is unknown; approve it to repeat it unchanged, or deny it, but do not edit it")]
    NotEditable(CallId),
    /// The edited plan is not valid.
    #[error("the edited plan of call `{call_id}` is not valid")]
    InvalidPlan {
        /// The call.
        call_id: CallId,
        /// The mistakes.
        issues: Vec<PlanIssue>,
    },
    /// The call does not await approval, or was already decided.
    #[error("call `{0}` does not await approval")]
    NotAwaitingApproval(CallId),
    /// The call does not await the client, or was already answered.
    #[error("call `{0}` does not await a client result")]
    NotAwaitingClient(CallId),
    /// The call does not wait for an approval, a client or a child run.
    #[error("call `{0}` is not waiting")]
    NotWaiting(CallId),
    /// The approval or client request has expired.
    #[error("the time to answer call `{0}` has expired")]
    Expired(CallId),
    /// The run executes no workflow.
    #[error("the run executes no workflow, so it cannot be paused and receives no signals")]
    NoWorkflow,
    /// The run has too many signals that no step has received.
    #[error("the run has {max} signals that no step has received; send this one later", max = super::MAX_BUFFERED_SIGNALS)]
    TooManySignals,
    /// The tool definition changed after the approval was requested.
    #[error("the tool definition of call `{0}` differs from the one that was shown")]
    DefinitionChanged(CallId),
}

/// A mismatch between a set of client results and the calls that await the client.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClientResultError {
    /// The run has no such call.
    #[error("the run has no call `{0}`")]
    Unknown(CallId),
    /// Two results have the same call id.
    #[error("call `{0}` has more than one result")]
    Duplicate(CallId),
    /// The call does not await the client, or was already answered.
    #[error("call `{0}` does not await a client result")]
    NotWaiting(CallId),
    /// A waiting call has no result.
    #[error("call `{0}` has no result")]
    Missing(CallId),
}
