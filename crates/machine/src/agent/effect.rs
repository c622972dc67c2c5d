//! The effects that a run requests from its driver.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolwright_types::{CallId, ModelRequest, ResolvedInput, SideEffects, Timestamp};

use super::CallFacts;
use crate::{ApprovalTrigger, Ending};

/// Work for the driver. Exactly one event answers each effect, except `Finish`, which has no answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Effect {
    /// Call the model; answered by `model_replied` or `model_failed` with the same iteration.
    CallModel {
        /// The number of the model call, from 1.
        iteration: u32,
        /// The request.
        request: Box<ModelRequest>,
    },
    /// Prepare every call of a reply; answered by `prepared` with the same iteration and with one result per call, in
    /// call order.
    PrepareCalls {
        /// The iteration whose reply requested the calls.
        iteration: u32,
        /// The calls, in the order in which the model requested them.
        calls: Vec<CallToPrepare>,
    },
    /// Prepare a call again after its approval; answered by `prepared_again`.
    PrepareAgain {
        /// The call; it has a new id if its input was edited.
        call_id: CallId,
        /// The call to prepare.
        call: CallToPrepare,
    },
    /// Execute a call; answered by `call_ended`, `handed_to_client` or `child_suspended`.
    RunCall(Box<CallToRun>),
    /// Find out whether an interrupted write took effect. If it did, the answer is `call_ended`. If it did not, or if
    /// the outcome is unknown, the answer is `verified`.
    VerifyCall {
        /// The call.
        call: Box<CallToRun>,
        /// The time of its intent.
        intended_at: Timestamp,
    },
    /// Request a decision from a person; answered by `approval_decided` or `expired`.
    RequestApproval(Box<ApprovalRequest>),
    /// Request an action from the client; answered by `client_returned` or `expired`.
    RequestClientAction(Box<ClientActionRequest>),
    /// The run has ended. The driver may stop calls that are still running.
    Finish {
        /// The ending of the run.
        ending: Ending,
        /// The final answer. The driver reads the other outputs from the run.
        response: String,
    },
}

/// A call to be prepared.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CallToPrepare {
    /// The tool name that the model used.
    pub tool: String,
    /// The exact version, if already known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The arguments; malformed arguments are a string with the model's text.
    pub input: Value,
    /// The ids that a person approved for the names of reference data in the arguments. If absent, the names are looked
    /// up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub names: Option<BTreeMap<String, ResolvedInput>>,
}

/// A call to be executed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CallToRun {
    /// The iteration whose reply requested the call.
    pub iteration: u32,
    /// The id of the call. The envelope must have the same id.
    pub call_id: CallId,
    /// The call of the first attempt, if a step of a workflow makes the call again. Both calls have the same idempotency
    /// key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_call: Option<CallId>,
    /// The input of the call, before names are replaced by ids.
    pub input: Value,
    /// The facts on which the machine decided that the call may run.
    pub facts: CallFacts,
    /// Whether a person approved the call. If so, the definitions behind [`CallFacts::closure_hash`] must be unchanged.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub approved: bool,
    /// Whether an earlier driver may already have executed the call.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub repeated: bool,
    /// Whether the call must end without being executed, because the run captures calls of this kind (see
    /// [`Policy::capture_writes`](crate::Policy::capture_writes)).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub captured: bool,
}

/// A call that a person must decide on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ApprovalRequest {
    /// The iteration whose reply requested the call.
    pub iteration: u32,
    /// The call.
    pub call_id: CallId,
    /// The tool.
    pub tool: String,
    /// The tool version.
    pub version: String,
    /// The hash of the tool definition. A decision is valid only for this definition.
    pub definition_hash: String,
    /// The side effects of the tool.
    pub effects: SideEffects,
    /// The arguments.
    pub input: Value,
    /// The settings that require the approval.
    pub triggers: Vec<ApprovalTrigger>,
    /// The time of the request.
    pub requested_at: Timestamp,
    /// The time when the request expires.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
}

/// A call that the client must complete.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClientActionRequest {
    /// The iteration whose reply requested the call.
    pub iteration: u32,
    /// The call.
    pub call_id: CallId,
    /// The tool.
    pub tool: String,
    /// The tool version.
    pub version: String,
    /// The arguments.
    pub input: Value,
    /// The payload for the client.
    pub prepared_payload: Value,
    /// The schema of the client's result.
    pub schema: Value,
    /// The time when the call was handed to the client.
    pub handed_over_at: Timestamp,
    /// The time when the call expires.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
}

/// The identity of an effect within its run, stable across restarts and replays.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EffectId {
    /// The model call of an iteration.
    Model(u32),
    /// The preparation of an iteration's calls.
    Prepare(u32),
    /// The preparation of a call after its approval.
    PrepareAgain(CallId),
    /// The execution of a call.
    Call(CallId),
    /// The verification of an interrupted call.
    Verify(CallId),
    /// The approval of a call.
    Approval(CallId),
    /// The client's part of a call.
    Client(CallId),
    /// The end of the run.
    Finish,
}

impl fmt::Display for EffectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EffectId::Model(iteration) => write!(f, "model/{iteration}"),
            EffectId::Prepare(iteration) => write!(f, "prepare/{iteration}"),
            EffectId::PrepareAgain(call) => write!(f, "prepare_again/{call}"),
            EffectId::Call(call) => write!(f, "call/{call}"),
            EffectId::Verify(call) => write!(f, "verify/{call}"),
            EffectId::Approval(call) => write!(f, "approval/{call}"),
            EffectId::Client(call) => write!(f, "client/{call}"),
            EffectId::Finish => f.write_str("finish"),
        }
    }
}

impl Effect {
    /// Returns the identity of the effect within its run.
    pub fn id(&self) -> EffectId {
        match self {
            Effect::CallModel { iteration, .. } => EffectId::Model(*iteration),
            Effect::PrepareCalls { iteration, .. } => EffectId::Prepare(*iteration),
            Effect::PrepareAgain { call_id, .. } => EffectId::PrepareAgain(call_id.clone()),
            Effect::RunCall(call) => EffectId::Call(call.call_id.clone()),
            Effect::VerifyCall { call, .. } => EffectId::Verify(call.call_id.clone()),
            Effect::RequestApproval(request) => EffectId::Approval(request.call_id.clone()),
            Effect::RequestClientAction(request) => EffectId::Client(request.call_id.clone()),
            Effect::Finish { .. } => EffectId::Finish,
        }
    }
}
