//! Read access to the state of a run, for people who inspect it.

use serde_json::Value;
use toolwright_types::{CallId, OfferedTool, RunId};

use super::EventKind;
use super::call::{Call, CallState};
use super::run::AgentRun;

/// A call that has not ended.
#[derive(Debug, Clone, PartialEq)]
pub struct OpenCall<'a> {
    /// The call.
    pub call_id: &'a CallId,
    /// The name of the tool.
    pub tool: &'a str,
    /// The version of the tool; empty if the tool is unknown.
    pub version: &'a str,
    /// The arguments.
    pub input: &'a Value,
    /// The state of the call: `queued`, `running`, `verifying`, `child_run`, `approval`, `preparing` or `client`.
    pub state: &'static str,
    /// The child run that the call waits for.
    pub child: Option<RunId>,
}

impl AgentRun {
    /// The tools that the next model call offers.
    pub fn offered_tools(&self) -> &[OfferedTool] {
        &self.spec.request.tools
    }

    /// The calls of the current reply that have not ended, in call order.
    pub fn open_calls(&self) -> impl Iterator<Item = OpenCall<'_>> {
        let calls = self.batch().into_iter().flat_map(|batch| &batch.calls);
        calls.filter_map(|call| Some(open_call(call, state_name(&call.state)?)))
    }

    /// The tool of the call that an event refers to by its id. `None` if the event refers to no single call, or if the
    /// current batch has no such call.
    pub fn tool_of(&self, event: &EventKind) -> Option<&str> {
        let id = event.call_id()?;
        self.batch().and_then(|batch| batch.find(id)).map(|call| call.name.as_str())
    }
}

fn open_call<'a>(call: &'a Call, state: &'static str) -> OpenCall<'a> {
    let child = match &call.state {
        CallState::ChildSuspended { run, .. } => Some(*run),
        _ => None,
    };
    let Call { call_id, name, version, input, .. } = call;
    OpenCall { call_id, tool: name, version, input, state, child }
}

/// The name of the state of an unfinished call.
fn state_name(state: &CallState) -> Option<&'static str> {
    match state {
        CallState::Queued => Some("queued"),
        CallState::Running => Some("running"),
        CallState::Interrupted => Some("verifying"),
        CallState::ChildSuspended { .. } => Some("child_run"),
        CallState::AwaitingApproval { .. } => Some("approval"),
        CallState::Approved => Some("preparing"),
        CallState::AwaitingClient { .. } => Some("client"),
        CallState::Done => None,
    }
}

impl EventKind {
    /// The id of the call that the event refers to. `None` for an event of the model, of several calls or of the whole
    /// run.
    pub fn call_id(&self) -> Option<&CallId> {
        match self {
            EventKind::PreparedAgain { call_id, .. }
            | EventKind::Intended { call_id }
            | EventKind::Verified { call_id, .. }
            | EventKind::ChildSuspended { call_id, .. }
            | EventKind::ChildEnded { call_id }
            | EventKind::ApprovalDecided { call_id, .. }
            | EventKind::ClientReturned { call_id, .. }
            | EventKind::Expired { call_id } => Some(call_id),
            EventKind::Recovered { call_id } => call_id.as_ref(),
            EventKind::CallEnded { envelope, .. } => Some(&envelope.call_id),
            EventKind::HandedToClient { pending, .. } => Some(&pending.call_id),
            EventKind::ModelReplied { .. }
            | EventKind::ModelFailed { .. }
            | EventKind::Prepared { .. }
            | EventKind::TimerFired
            | EventKind::SignalReceived { .. }
            | EventKind::Paused { .. }
            | EventKind::Resumed { .. }
            | EventKind::Cancelled { .. }
            | EventKind::Failed { .. } => None,
        }
    }
}
