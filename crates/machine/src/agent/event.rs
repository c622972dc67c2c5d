//! What a run is told, and why it may not take it.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolwright_types::{CallId, ModelReply, OfferedTool, RunId, RunStatus, Timestamp, ToolEnvelope, ToolError, Usage};

use super::Prepared;

/// Something that happened, and when.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// When it happened. Time never runs backwards in a run: an earlier moment counts as the latest one known.
    pub at: Timestamp,
    /// What happened.
    pub what: Happened,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Happened {
    /// The model answered.
    ModelReplied {
        /// The step it was asked in.
        step: u32,
        /// The answer.
        reply: Box<ModelReply>,
        /// Why the answer is not what was asked for, where the driver held it against a schema.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        misfit: Option<String>,
    },
    /// The model gave no answer, however often the driver tried.
    ModelFailed {
        /// The step it was asked in.
        step: u32,
        /// A word to branch on.
        reason: String,
        /// What happened, for a person.
        message: String,
    },
    /// The first half of a reply's calls is done.
    Prepared {
        /// The step whose reply asked for them.
        step: u32,
        /// One result for each call, in the order of the calls.
        calls: Vec<Prepared>,
    },
    /// The first half of one call is done once more.
    PreparedAgain {
        /// The call.
        call_id: CallId,
        /// The result.
        call: Prepared,
    },
    /// A call that may change the world is about to be made. Without an outcome behind it, nobody knows whether it was.
    Intended {
        /// The call.
        call_id: CallId,
    },
    /// Another driver goes on with the run, which the last one left in the middle; or with one call of it, where each
    /// call has a driver of its own.
    TakenUp {
        /// The call; the whole run when absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        call_id: Option<CallId>,
    },
    /// Whoever knows was asked whether a call was made, and it was not, or that is not known either. One that was made
    /// has ended.
    Verified {
        /// The call.
        call_id: CallId,
        /// Why it is not known; absent when it was not made.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        unknown: Option<String>,
    },
    /// A call ended, one way or the other.
    CallEnded {
        /// Its receipt.
        envelope: Box<ToolEnvelope>,
        /// Tokens that it consumed, if there was a model behind the tool.
        #[serde(default, skip_serializing_if = "Usage::is_zero")]
        usage: Usage,
        /// Tool calls that were made by a run behind the tool.
        #[serde(default, skip_serializing_if = "is_zero")]
        calls: u32,
        /// Tools that it found, for the model to call from now on.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        offers: Vec<OfferedTool>,
    },
    /// The run that a call started waits for somebody; so does the call.
    CallPaused {
        /// The call.
        call_id: CallId,
        /// That run.
        run: RunId,
        /// What it waits for.
        status: RunStatus,
    },
    /// The run that a call started has gone on; what came of the call is asked once more.
    CallWentOn {
        /// The call.
        call_id: CallId,
    },
    /// The server's part of a call is done; the rest is the client's.
    CallHandedOver {
        /// What the client acts on.
        prepared_payload: Value,
        /// What its result must look like.
        schema: Value,
        /// The receipt so far.
        pending: Box<ToolEnvelope>,
    },
    /// A person decided on a call.
    Approval {
        /// The call.
        call_id: CallId,
        /// The definition that was shown.
        definition_hash: String,
        /// The decision.
        decision: Decision,
        /// Who decided.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
    },
    /// The client returned a result, which the driver has held against the schema.
    ClientReturned {
        /// The call.
        call_id: CallId,
        /// What it returned.
        result: ClientResult,
    },
    /// Nobody decided or returned a result in time.
    Expired {
        /// The call.
        call_id: CallId,
    },
    /// Nothing happened, for so long that it matters.
    TimePassed,
    /// Someone stopped the run.
    Cancelled {
        /// Why, for a person.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<String>,
    },
    /// The driver cannot go on with this run.
    Failed {
        /// A word to branch on.
        reason: String,
        /// What happened, for a person.
        message: String,
    },
}

impl Happened {
    /// The word for it, as it is written.
    pub fn kind(&self) -> &'static str {
        match self {
            Happened::ModelReplied { .. } => "model_replied",
            Happened::ModelFailed { .. } => "model_failed",
            Happened::Prepared { .. } => "prepared",
            Happened::PreparedAgain { .. } => "prepared_again",
            Happened::Intended { .. } => "intended",
            Happened::TakenUp { .. } => "taken_up",
            Happened::Verified { .. } => "verified",
            Happened::CallEnded { .. } => "call_ended",
            Happened::CallPaused { .. } => "call_paused",
            Happened::CallWentOn { .. } => "call_went_on",
            Happened::CallHandedOver { .. } => "call_handed_over",
            Happened::Approval { .. } => "approval",
            Happened::ClientReturned { .. } => "client_returned",
            Happened::Expired { .. } => "expired",
            Happened::TimePassed => "time_passed",
            Happened::Cancelled { .. } => "cancelled",
            Happened::Failed { .. } => "failed",
        }
    }

    /// The model answered, as it was asked to.
    pub fn replied(step: u32, reply: ModelReply) -> Self {
        Happened::ModelReplied { step, reply: Box::new(reply), misfit: None }
    }

    /// Another driver goes on with the whole run.
    pub fn taken_up() -> Self {
        Happened::TakenUp { call_id: None }
    }

    /// A call ended, and there is no more to say than its receipt does.
    pub fn ended(envelope: ToolEnvelope) -> Self {
        Happened::CallEnded { envelope: Box::new(envelope), usage: Usage::default(), calls: 0, offers: Vec::new() }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_zero(count: &u32) -> bool {
    *count == 0
}

/// What a person decided.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "decision", rename_all = "lowercase")]
pub enum Decision {
    /// Do it.
    Approve,
    /// Do not.
    Deny {
        /// Why, for the model.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// Do it with this input.
    Edit {
        /// The input.
        input: Value,
    },
}

/// What a client returned.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ClientResult {
    /// The result.
    Output(Value),
    /// Why there is none.
    Error(ToolError),
}

/// What an event did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Applied {
    /// The run took it.
    Taken,
    /// The run had ended before and stays as it is.
    Late,
}

/// Why a run does not take an event. Nothing has changed then.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EventError {
    /// The model is not being asked in this step.
    #[error("no model call of step {0} is open")]
    NoModelCall(u32),
    /// No calls of this step are being prepared.
    #[error("no calls of step {0} are being prepared")]
    NotPreparing(u32),
    /// Not one result for each call.
    #[error("{expected} calls were to be prepared, {found} are")]
    PreparedCount {
        /// How many calls there are.
        expected: usize,
        /// How many results came.
        found: usize,
    },
    /// No such call in this run.
    #[error("no call `{0}` in this run")]
    UnknownCall(CallId),
    /// The call is not being prepared again.
    #[error("call `{0}` is not being prepared again")]
    NotPreparingAgain(CallId),
    /// The call is not under way.
    #[error("call `{0}` is not under way")]
    NotRunning(CallId),
    /// Nobody doubts that the call was made.
    #[error("whether call `{0}` was made is not in question")]
    NotInDoubt(CallId),
    /// A call that may have been made can be repeated or given up.
    #[error("whether call `{0}` was made is not known: it can be repeated as it is or given up, not changed")]
    NotEditable(CallId),
    /// Nobody is asked about the call, or somebody has decided already.
    #[error("call `{0}` does not wait for an approval")]
    NotAwaitingApproval(CallId),
    /// The call is not the client's, or the client has answered already.
    #[error("call `{0}` does not wait for a client")]
    NotAwaitingClient(CallId),
    /// The call waits for nobody.
    #[error("call `{0}` waits for nobody")]
    NotWaiting(CallId),
    /// Too late.
    #[error("the time to answer call `{0}` is over")]
    TooLate(CallId),
    /// The approval is for another definition of the tool.
    #[error("the definition behind call `{0}` is not the one that was approved")]
    OtherDefinition(CallId),
}

/// Why a set of client results does not fit the calls that wait for one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClientResultProblem {
    /// No such call in this run.
    #[error("no call `{0}` in this run")]
    Unknown(CallId),
    /// The same call twice.
    #[error("more than one result for call `{0}`")]
    Duplicate(CallId),
    /// The call is not the client's, or the client has answered already.
    #[error("call `{0}` does not wait for a client")]
    NotWaiting(CallId),
    /// A call that waits has no result.
    #[error("no result for call `{0}`")]
    Missing(CallId),
}
