//! The calls of one reply and where each of them stands.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolwright_types::{Arguments, CallId, CallMetadata, RunId, RunStatus, Timestamp, ToolEnvelope, ToolError};

use super::Facts;
use super::run::is_zero;
use crate::{Ending, Knob};

/// The calls of one reply, in the order the model emitted them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Batch {
    pub calls: Vec<Call>,
    /// How the run ends once the calls under way are done.
    pub stopping: Option<Ending>,
}

/// One call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Call {
    /// The id the model gave it.
    pub model_id: String,
    /// The name the model used.
    pub asked_name: String,
    pub call_id: CallId,
    /// The same for every call with this tool and input.
    pub signature: CallId,
    pub name: String,
    pub version: String,
    pub input: Value,
    /// Absent when it could not be prepared.
    pub facts: Option<Facts>,
    /// How often the model had asked for it before, with a result to look at.
    pub repeat: u32,
    pub edited_from: Option<CallId>,
    pub since: Timestamp,
    /// When it was about to be made, if it may change the world.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub intended: Option<Timestamp>,
    /// How often it was to be made before: it was intended anew, its driver was lost, or the run it started has gone on.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub attempt: u32,
    pub state: CallState,
}

/// Where a call stands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum CallState {
    /// It may run as soon as there is a place and it is its turn.
    Queued,
    /// It is under way.
    Running,
    /// It was about to be made when its driver was lost; whoever knows is asked whether it was.
    InDoubt,
    /// The run it started waits for somebody.
    Paused { run: RunId, status: RunStatus },
    /// A person has to agree.
    Asked { because: Vec<Knob>, at: Timestamp, expires_at: Option<Timestamp> },
    /// A person has agreed; the facts are gathered once more.
    Agreed,
    /// The client has to act.
    Handed { payload: Value, schema: Value, pending: Box<ToolEnvelope>, at: Timestamp, expires_at: Option<Timestamp> },
    /// Its receipt is in the ledger.
    Done,
}

impl Batch {
    pub fn new(calls: Vec<Call>) -> Self {
        Self { calls, stopping: None }
    }

    pub fn find(&self, id: &CallId) -> Option<&Call> {
        self.calls.iter().find(|call| call.call_id == *id)
    }

    pub fn find_mut(&mut self, id: &CallId) -> Option<&mut Call> {
        self.calls.iter_mut().find(|call| call.call_id == *id)
    }

    pub fn done(&self) -> bool {
        self.calls.iter().all(|call| call.state == CallState::Done)
    }

    /// Whether nothing is under way, and not everything is done.
    pub fn only_waits(&self) -> bool {
        !self.done()
            && !self
                .calls
                .iter()
                .any(|call| matches!(call.state, CallState::Running | CallState::InDoubt | CallState::Agreed))
    }

    /// Whether a person has to decide something.
    pub fn asks(&self) -> bool {
        let asks = |state: &CallState| match state {
            CallState::Asked { .. } => true,
            CallState::Paused { status, .. } => *status == RunStatus::AwaitingApproval,
            _ => false,
        };
        self.calls.iter().any(|call| asks(&call.state))
    }

    pub fn next_expiry(&self) -> Option<Timestamp> {
        self.calls.iter().filter_map(|call| call.state.expires_at()).min()
    }
}

impl Call {
    /// Whether the tool has been reached, or may have been.
    pub fn started(&self) -> bool {
        self.intended.is_some()
            || matches!(self.state, CallState::Running | CallState::Paused { .. } | CallState::Handed { .. })
    }

    /// The receipt of this call if it fails here and now.
    pub fn failed(&self, error: ToolError, at: Timestamp) -> ToolEnvelope {
        let facts = self.facts.as_ref();
        ToolEnvelope {
            call_id: self.call_id.clone(),
            name: self.name.clone(),
            version: self.version.clone(),
            input: self.input.clone(),
            output: Value::Null,
            error: Some(error),
            t_start: self.since,
            t_end: at.max(self.since),
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
    pub fn expires_at(&self) -> Option<Timestamp> {
        match self {
            CallState::Asked { expires_at, .. } | CallState::Handed { expires_at, .. } => *expires_at,
            _ => None,
        }
    }
}

/// The arguments as a value: what the model wrote, as a string, when that is not JSON.
pub(super) fn input_of(arguments: &Arguments) -> Value {
    match arguments {
        Arguments::Json(value) => value.clone(),
        Arguments::Malformed(text) => Value::String(text.clone()),
    }
}
