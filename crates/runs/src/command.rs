//! Commands to runs, and the errors with which a run rejects a command.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::oneshot;
use toolwright_machine::agent::{ClientResult, ClientResultError, Decision, EventError};
use toolwright_tools::Violation;
use toolwright_types::{CallId, RunId, RunStatus};

/// A command and the channel for its reply.
pub struct CommandRequest {
    /// The command.
    pub command: RunCommand,
    /// Receives the reply.
    pub reply: oneshot::Sender<Result<(), CommandError>>,
}

/// A request to a run from outside.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunCommand {
    /// A person's decision on a call that waits for an approval.
    Decide {
        call_id: CallId,
        decision: Decision,
        decided_by: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// The results of calls that wait for a client.
    Return(Vec<(CallId, ClientResult)>),
    /// Cancels the run.
    Cancel { message: Option<String> },
    /// Sends a signal to a workflow.
    Signal { name: String, payload: Value, sent_by: String },
    /// Pauses a workflow.
    Pause { by: String },
    /// Resumes a paused workflow.
    Resume { by: String },
    /// The child run that a call started was resumed and is suspended again.
    ChildSuspended { call_id: CallId, run: RunId, status: RunStatus },
    /// The child run that a call started has ended.
    ChildEnded { call_id: CallId },
    /// Makes the run check its timers and its child runs.
    Wake,
}

/// Why a run rejected a command. A rejected command does not change the run.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// The run does not exist, or the principal may not see it.
    #[error("there is no run `{0}`")]
    UnknownRun(String),
    /// The run was deleted.
    #[error(
        "run `{}` of `{}` ({}, {} entries) was deleted by `{}` at {}",
        .0.run, .0.subject, .0.status, .0.entries, .0.deleted_by, .0.deleted_at
    )]
    Deleted(Box<toolwright_store::Tombstone>),
    /// The stored journal does not match its hashes.
    #[error("entry {n} of the journal does not match its hash: {why}")]
    Broken {
        /// The number of the entry.
        n: u64,
        /// The difference between the entry and its hash.
        why: String,
    },
    /// The run has not ended.
    #[error("run `{0}` has not ended; cancel it first")]
    NotEnded(String),
    /// The run has ended.
    #[error("the run has ended with status {0} and accepts no more commands")]
    Ended(String),
    /// The agent was disabled after the run had started.
    #[error("agent `{0}` is disabled; deny the call or cancel the run")]
    Disabled(String),
    /// Another server drives the run.
    #[error("run `{0}` is driven by another server; send the command there, or retry when the run waits")]
    DrivenElsewhere(String),
    /// An external scheduler drives the run, and this server is configured without one.
    #[error("run `{0}` is scheduled by Restate; start this server with TOOLWRIGHT_RESTATE_URL")]
    NoScheduler(String),
    /// The current state of the run does not allow this command. For example, the call was already decided.
    #[error(transparent)]
    Rejected(#[from] EventError),
    /// The input with which a person wants to replace the input of a call is not valid.
    #[error("the edited input of call `{call_id}` is not valid; the call still awaits approval")]
    InvalidInput {
        /// The call.
        call_id: CallId,
        /// The violations of the schema of the input.
        violations: Vec<Violation>,
    },
    /// The results do not match the calls that wait for a client.
    #[error("the results do not match the calls that wait for a client")]
    Results(Vec<ClientResultError>),
    /// The principal lacks the permission.
    #[error(transparent)]
    Denied(#[from] toolwright_catalog::Denied),
    /// The journal could not be read or written.
    #[error(transparent)]
    Unavailable(#[from] toolwright_catalog::Unavailable),
}

impl CommandError {
    /// Ignores the error if another server drives the run, the run has ended or the run does not exist. In these cases,
    /// this server has nothing to do for the run.
    pub(super) fn ignore_not_ours(self) -> Result<(), Self> {
        match self {
            CommandError::DrivenElsewhere(_) | CommandError::Ended(_) | CommandError::UnknownRun(_) => Ok(()),
            other => Err(other),
        }
    }
}
