//! What is said to a run from outside.

use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;
use toolwright_machine::agent::{ClientResult, ClientResultProblem, Decision, EventError};
use toolwright_types::CallId;

/// A wish, and where the answer goes.
pub(crate) struct Signal {
    pub wish: Wish,
    pub answer: oneshot::Sender<Result<(), SignalError>>,
}

/// What is wanted of a run.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Wish {
    /// A person has decided on a call.
    Decide { call_id: CallId, decision: Decision, by: String },
    /// A client returns results.
    Return(Vec<(CallId, ClientResult)>),
    /// Stop.
    Cancel { message: Option<String> },
    /// The run that a call of this one started has ended.
    ChildEnded { call_id: CallId },
    /// Look at the clock, and after the runs that this one has started.
    Wake,
}

/// Why a run did not do what was wanted. Nothing has changed then.
#[derive(Debug, thiserror::Error)]
pub enum SignalError {
    /// There is no such run, or not for this principal.
    #[error("there is no run `{0}`")]
    UnknownRun(String),
    /// The run was deleted.
    #[error(
        "run `{}` of `{}` ({}, {} entries) was deleted by `{}` at {}",
        .0.run, .0.subject, .0.status, .0.entries, .0.deleted_by, .0.deleted_at
    )]
    Deleted(Box<toolwright_store::Tombstone>),
    /// Its journal is not what was written.
    #[error("entry {n} of its journal is not what was written: {why}")]
    Broken {
        /// The entry.
        n: u64,
        /// Why not.
        why: String,
    },
    /// The run has not ended.
    #[error("run `{0}` has not ended; cancel it first")]
    UnderWay(String),
    /// The run has ended.
    #[error("the run has ended ({0}) and stays as it is")]
    Ended(String),
    /// The agent was switched off meanwhile.
    #[error("agent `{0}` is disabled; deny the call or cancel the run")]
    Disabled(String),
    /// Another server drives the run.
    #[error("run `{0}` is under way at another server; say it there, or once more when it waits")]
    Elsewhere(String),
    /// A conductor drives the run, and this server has none.
    #[error("run `{0}` waits for the conductor that it began with, which this server was started without")]
    NoConductor(String),
    /// The run does not wait for this.
    #[error(transparent)]
    Rejected(#[from] EventError),
    /// The results do not fit the calls that wait.
    #[error("the results do not fit the calls that wait for one")]
    Results(Vec<ClientResultProblem>),
    /// Not permitted.
    #[error(transparent)]
    Denied(#[from] crate::Denied),
    /// The journal could not be read or written.
    #[error(transparent)]
    Unavailable(#[from] crate::Unavailable),
}

impl SignalError {
    /// Not an error for whoever only wanted the run to be driven: somebody does, or nobody has to.
    pub(super) fn unless_elsewhere(self) -> Result<(), Self> {
        match self {
            SignalError::Elsewhere(_) | SignalError::Ended(_) | SignalError::UnknownRun(_) => Ok(()),
            other => Err(other),
        }
    }
}
