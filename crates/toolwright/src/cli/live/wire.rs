//! Runs as the API tells them. Fields that are not shown are not read, and what is not known yet is passed over, so that
//! a newer server can be watched.

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::Value;
use toolwright_types::{CallSource, RunStatus, Timestamp, ToolEnvelope, Usage};

/// One event of a stream.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Told {
    /// The run.
    pub run_id: String,
    /// What happened in it.
    #[serde(flatten)]
    pub what: Happening,
}

/// What happened in a run.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "SCREAMING_SNAKE_CASE", rename_all_fields = "camelCase")]
pub enum Happening {
    /// The model is asked, or thinks.
    Thinking,
    /// The model says something.
    TextDelta {
        /// The piece.
        content: String,
    },
    /// The model begins its reply anew.
    TextReset,
    /// The model has replied.
    Usage,
    /// A call began.
    ToolCallStart {
        /// The call.
        tool_invocation: Call,
    },
    /// A call ended, or was refused.
    ToolCallEnd {
        /// The call.
        tool_invocation: Call,
    },
    /// A person has to decide.
    ApprovalRequired {
        /// On this.
        approval: Approval,
    },
    /// The client has to act.
    ClientAction {
        /// What it has to do.
        client_action: ClientAction,
    },
    /// The run ended.
    Done,
    /// The run failed.
    Error,
    /// Something that this client does not know.
    #[serde(other)]
    Unknown,
}

/// A call of a tool.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Call {
    /// Which.
    pub call_id: String,
    /// The tool.
    pub tool_ref: String,
    /// Its arguments.
    pub input: Value,
    /// How long it took.
    #[serde(default)]
    pub duration_ms: u64,
    /// How it ended; none while it has not.
    #[serde(default)]
    pub status: Option<CallStatus>,
    /// Why it failed.
    #[serde(default)]
    pub error_message: Option<String>,
    /// Whether the result was there already.
    #[serde(default)]
    pub cached: bool,
    /// Where the result comes from in a trial, if the tool was not called.
    #[serde(default)]
    pub source: Option<CallSource>,
}

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum CallStatus {
    /// It went through.
    Success,
    /// It was not tried.
    Skipped,
    /// It failed.
    #[serde(other)]
    Error,
}

/// A call that a person has to decide on.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Approval {
    /// The run that wants it.
    pub run_id: String,
    /// The agent that wants it.
    pub agent_ref: String,
    /// The call.
    pub call_id: String,
    /// The tool.
    pub tool_ref: String,
    /// What it does to the world.
    pub side_effects: String,
    /// The arguments.
    pub input: Value,
    /// Since when.
    pub asked_at: Timestamp,
    /// Until when.
    #[serde(default)]
    pub expires_at: Option<Timestamp>,
}

/// What the client is asked to do.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClientAction {
    /// The call whose result is wanted.
    pub call_id: String,
    /// The tool.
    pub tool_ref: String,
    /// What to act on.
    pub prepared_payload: Value,
}

/// Where a run stands: the answer of `…/runs/{id}` and of whatever makes a run go on.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// The run.
    pub run_id: String,
    /// The agent; only in the answer of `…/runs/{id}`, like the times.
    #[serde(default)]
    pub subject: String,
    /// When it began.
    #[serde(default)]
    pub started_at: Option<Timestamp>,
    /// When it ended.
    #[serde(default)]
    pub ended_at: Option<Timestamp>,
    /// The conversation, if it is kept.
    pub conversation_id: Option<String>,
    /// The answer.
    pub response_text: String,
    /// Where it stands.
    pub status: RunStatus,
    /// Why, as a word.
    #[serde(default)]
    pub reason: Option<String>,
    /// Why, for a person.
    #[serde(default)]
    pub message: Option<String>,
    /// How often the model was asked.
    pub iterations_used: u32,
    /// Tokens.
    pub usage: Usage,
    /// Dollars, as far as prices are known.
    pub cost_usd: f64,
    /// What the calls left behind.
    pub outputs: Outputs,
    /// What a person has to decide.
    #[serde(default)]
    pub approvals: Vec<Approval>,
    /// What the client has to do.
    #[serde(default)]
    pub client_actions: Vec<ClientAction>,
    /// What the reader should know although the run went on.
    #[serde(default)]
    pub warnings: Vec<String>,
}

/// The receipts of a run's calls.
#[derive(Debug, Deserialize)]
pub struct Outputs {
    tools_by_id: HashMap<String, ToolEnvelope>,
    tool_order: Vec<String>,
}

impl Report {
    /// The calls that ended, in their order.
    pub fn calls(&self) -> impl Iterator<Item = Call> {
        self.outputs.tool_order.iter().filter_map(|id| self.outputs.tools_by_id.get(id)).map(Call::from)
    }

    /// Whether someone else has to act before it goes on.
    pub fn waits(&self) -> bool {
        matches!(self.status, RunStatus::AwaitingApproval | RunStatus::AwaitingClient)
    }
}

impl From<&ToolEnvelope> for Call {
    fn from(envelope: &ToolEnvelope) -> Self {
        let status = match &envelope.error {
            None => CallStatus::Success,
            Some(_) if envelope.metadata.attempt == 0 => CallStatus::Skipped,
            Some(_) => CallStatus::Error,
        };
        Self {
            call_id: envelope.call_id.to_string(),
            tool_ref: envelope.name.clone(),
            input: envelope.input.clone(),
            duration_ms: envelope.t_end.millis_since(envelope.t_start),
            status: Some(status),
            error_message: envelope.error.as_ref().map(|error| error.message.clone()),
            cached: envelope.cached,
            source: envelope.metadata.source,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn events_are_read_and_new_ones_passed_over() {
        let read = |event: Value| serde_json::from_value::<Told>(event).unwrap().what;
        let call = json!({ "toolRef": "t", "input": {}, "output": 1, "durationMs": 5, "status": "PERMISSION_DENIED", "callId": "call_1" });
        let ended = read(
            json!({ "type": "TOOL_CALL_END", "content": "t", "toolInvocation": call, "iteration": 1, "runId": "r" }),
        );
        assert!(
            matches!(ended, Happening::ToolCallEnd { tool_invocation } if tool_invocation.status == Some(CallStatus::Error))
        );
        let text = read(
            json!({ "type": "TEXT_DELTA", "content": "hi", "toolInvocation": null, "iteration": 1, "runId": "r" }),
        );
        assert!(matches!(text, Happening::TextDelta { content } if content == "hi"));
        let thought = read(json!({ "type": "THINKING", "content": "hm", "iteration": 1, "runId": "r" }));
        assert!(matches!(thought, Happening::Thinking));
        assert!(matches!(read(json!({ "type": "DREAM", "runId": "r", "dream": {} })), Happening::Unknown));
    }
}
