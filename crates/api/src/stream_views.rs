//! Wire views of the events that the stream of a run sends.

use serde::{Deserialize, Serialize};
use toolwright_machine::agent::ApprovalRequest;
use toolwright_machine::view::ToolCallEntry;
use toolwright_types::{RunStatus, Timestamp, Usage};

use crate::approval_views::ChildRunView;
use crate::run_views::{ApprovalView, ClientActionView};

/// An event of the stream of a run.
#[derive(Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct StreamEventView {
    /// THINKING, TEXT_DELTA, TEXT_RESET, TOOL_CALL_START, TOOL_CALL_END, APPROVAL_REQUIRED, CLIENT_ACTION,
    /// CHILD_WAITING, USAGE, DONE or ERROR.
    #[serde(rename = "type")]
    #[schema(value_type = String)]
    pub kind: StreamEventKind,
    /// The text of the event.
    pub content: Option<String>,
    /// The call that started or ended.
    pub tool_invocation: Option<Box<ToolCallEntry>>,
    /// The number of model calls so far.
    pub iteration: u32,
    /// The id of the run.
    pub run_id: String,
    /// The time of the event's journal entry, or the time at which a delta arrived.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub at: Option<Timestamp>,
    /// The call that waits for approval.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approval: Option<ApprovalView>,
    /// The action that the client has to perform.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_action: Option<ClientActionView>,
    /// The child run that waits for an approval or a client.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub child_run: Option<ChildRunView>,
    /// The tokens of one model call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// The cost of one model call, in US dollars.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// The final status of the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<RunStatus>,
    /// The reason for the status, as a stable identifier.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// The kind of an event.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum StreamEventKind {
    /// The server called the model, or the model sent a part of its reasoning.
    Thinking,
    /// A part of the model's reply.
    TextDelta,
    /// The model restarts its reply.
    TextReset,
    /// A call started.
    ToolCallStart,
    /// A call ended or was denied.
    ToolCallEnd,
    /// A call requires approval.
    ApprovalRequired,
    /// A call requires an action of the client.
    ClientAction,
    /// A child run waits for an approval or a client.
    ChildWaiting,
    /// The model's reply is complete.
    Usage,
    /// The run ended with a status other than `ERROR`.
    Done,
    /// The run ended with the status `ERROR`.
    Error,
    /// A kind that this client does not know, because the server is newer.
    #[default]
    #[serde(other)]
    Unknown,
}

impl StreamEventKind {
    /// The kind as sent on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            StreamEventKind::Thinking => "THINKING",
            StreamEventKind::TextDelta => "TEXT_DELTA",
            StreamEventKind::TextReset => "TEXT_RESET",
            StreamEventKind::ToolCallStart => "TOOL_CALL_START",
            StreamEventKind::ToolCallEnd => "TOOL_CALL_END",
            StreamEventKind::ApprovalRequired => "APPROVAL_REQUIRED",
            StreamEventKind::ClientAction => "CLIENT_ACTION",
            StreamEventKind::ChildWaiting => "CHILD_WAITING",
            StreamEventKind::Usage => "USAGE",
            StreamEventKind::Done => "DONE",
            StreamEventKind::Error => "ERROR",
            StreamEventKind::Unknown => "UNKNOWN",
        }
    }
}

impl StreamEventView {
    /// Creates the event for a pending approval.
    pub(crate) fn approval(run: &str, agent: &str, request: ApprovalRequest) -> Self {
        Self {
            kind: StreamEventKind::ApprovalRequired,
            approval: Some(ApprovalView::new(run, agent, request)),
            ..Self::default()
        }
    }
}
