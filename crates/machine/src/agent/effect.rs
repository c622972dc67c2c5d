//! What a run asks of its driver.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolwright_types::{CallId, ModelRequest, ResolvedInput, SideEffects, Timestamp};

use super::Facts;
use crate::{Ending, Knob};

/// Something to be done. Each is answered by exactly one event, except the last, which is answered by nothing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Effect {
    /// Ask the model; answered by `model_replied` or `model_failed` of the same step.
    CallModel {
        /// Which of the run's model calls, from 1.
        step: u32,
        /// What to ask.
        request: Box<ModelRequest>,
    },
    /// Do the first half of every call of a reply; answered by `prepared` of the same step, in the same order.
    PrepareCalls {
        /// The step whose reply asked for them.
        step: u32,
        /// The calls, in the order the model emitted them.
        calls: Vec<CallToPrepare>,
    },
    /// Do the first half once more, now that a person has agreed; answered by `prepared_again`.
    PrepareAgain {
        /// The call; a new one if its input was edited.
        call_id: CallId,
        /// What to prepare.
        call: CallToPrepare,
    },
    /// Do the second half; answered by `call_ended` or `call_handed_over`.
    RunCall(Box<CallToRun>),
    /// Ask whether a call was made that an earlier driver was about to make; answered by `verified`, or by `call_ended`
    /// if it was.
    VerifyCall {
        /// The call.
        call: Box<CallToRun>,
        /// When it was about to be made.
        intended_at: Timestamp,
    },
    /// Let a person decide; answered by `approval` or `expired`.
    AskApproval(Box<ApprovalRequest>),
    /// Let the client act; answered by `client_returned` or `expired`.
    HandToClient(Box<ClientRequest>),
    /// Nothing is left to do. Whatever is still under way may be stopped.
    Finish {
        /// How the run ended.
        ending: Ending,
        /// Its answer; the rest of what it leaves behind is the run's to give.
        response: String,
    },
}

/// A call whose first half is to be done.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CallToPrepare {
    /// The tool, by the name the model used.
    pub tool: String,
    /// The exact version, where it is known already.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The arguments; what the model wrote, as a string, when that is not JSON.
    pub input: Value,
    /// What names in the arguments mean, where a decision was taken on that; else they are looked up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub names: Option<BTreeMap<String, ResolvedInput>>,
}

/// A call whose second half is to be done.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CallToRun {
    /// The step whose reply asked for it.
    pub step: u32,
    /// The call's id, which its receipt must carry.
    pub call_id: CallId,
    /// The arguments as they were given.
    pub input: Value,
    /// What the decision was taken on.
    pub facts: Facts,
    /// Whether an earlier driver may have made it already.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub again: bool,
    /// Whether it ends without being made.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub captured: bool,
}

/// A call that a person has to agree to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ApprovalRequest {
    /// The step whose reply asked for the call.
    pub step: u32,
    /// The call.
    pub call_id: CallId,
    /// The tool.
    pub tool: String,
    /// Its version.
    pub version: String,
    /// The definition the approval binds to.
    pub definition_hash: String,
    /// What the tool does to the world.
    pub effects: SideEffects,
    /// The arguments.
    pub input: Value,
    /// Which knobs ask for it.
    pub because: Vec<Knob>,
    /// When it was asked.
    pub asked_at: Timestamp,
    /// When it is too late.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
}

/// A call whose final step is the client's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClientRequest {
    /// The step whose reply asked for the call.
    pub step: u32,
    /// The call.
    pub call_id: CallId,
    /// The tool.
    pub tool: String,
    /// Its version.
    pub version: String,
    /// The arguments.
    pub input: Value,
    /// What the client acts on.
    pub prepared_payload: Value,
    /// What its result must look like.
    pub schema: Value,
    /// When it was handed over.
    pub handed_at: Timestamp,
    /// When it is too late.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
}

/// The identity of an effect within its run: the same after a restart and in a replay.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EffectId {
    /// The model call of a step.
    Model(u32),
    /// The preparation of a step's calls.
    Prepare(u32),
    /// The second preparation of one call.
    PrepareAgain(CallId),
    /// The run of one call.
    Call(CallId),
    /// The question whether one call was made.
    Verify(CallId),
    /// The approval of one call.
    Approval(CallId),
    /// The client's part of one call.
    Client(CallId),
    /// The end.
    Finish,
}

impl fmt::Display for EffectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EffectId::Model(step) => write!(f, "model/{step}"),
            EffectId::Prepare(step) => write!(f, "prepare/{step}"),
            EffectId::PrepareAgain(call) => write!(f, "prepare/{call}"),
            EffectId::Call(call) => write!(f, "call/{call}"),
            EffectId::Verify(call) => write!(f, "verify/{call}"),
            EffectId::Approval(call) => write!(f, "approval/{call}"),
            EffectId::Client(call) => write!(f, "client/{call}"),
            EffectId::Finish => f.write_str("finish"),
        }
    }
}

impl Effect {
    /// The effect's identity within its run.
    pub fn id(&self) -> EffectId {
        match self {
            Effect::CallModel { step, .. } => EffectId::Model(*step),
            Effect::PrepareCalls { step, .. } => EffectId::Prepare(*step),
            Effect::PrepareAgain { call_id, .. } => EffectId::PrepareAgain(call_id.clone()),
            Effect::RunCall(call) => EffectId::Call(call.call_id.clone()),
            Effect::VerifyCall { call, .. } => EffectId::Verify(call.call_id.clone()),
            Effect::AskApproval(request) => EffectId::Approval(request.call_id.clone()),
            Effect::HandToClient(request) => EffectId::Client(request.call_id.clone()),
            Effect::Finish { .. } => EffectId::Finish,
        }
    }
}
