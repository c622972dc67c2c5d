//! Whether a run can be forked in its current state. A fork must not repeat a write, and must not use a decision twice.

use std::fmt;
use std::str::FromStr;

use toolwright_types::Timestamp;

use super::call::{Call, CallState};
use super::run::AgentRun;

/// The part of a run's state that decides whether the run can be forked. It is stored as a short text with each journal
/// entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ForkState {
    /// The run has predefined calls, or a plan that was given when it started. A fork of it would have no model to
    /// call.
    NoModel,
    /// The run has ended.
    Ended,
    /// A call waits for a suspended child run.
    ChildSuspended,
    /// A write has an intent and no outcome.
    WriteInProgress,
    /// A person approved a call that has not ended.
    ApprovedCall,
    /// The run can be forked until the first approval request or client request expires.
    Open {
        /// The first expiry; `None` if nothing expires.
        expires_at: Option<Timestamp>,
    },
}

impl ForkState {
    /// The reason why a run without a model can be neither forked nor replayed with changes.
    pub const NO_MODEL: &str = "the run uses no model; repeat its calls, or retry its workflow, instead";

    /// Returns the fork state of a run.
    pub fn of(run: &AgentRun) -> Self {
        if !run.spec.uses_model() {
            return ForkState::NoModel;
        }
        if run.ending().is_some() {
            return ForkState::Ended;
        }
        let open = |call: &&Call| call.state != CallState::Done;
        let open_calls = || run.batch().into_iter().flat_map(|batch| &batch.calls).filter(open);
        let in_doubt = |call: &Call| match call.state {
            CallState::Running => call.intended_at.is_some(),
            CallState::Interrupted => true,
            _ => false,
        };
        let approved = |call: &Call| run.decisions().iter().any(|record| record.approves(&call.call_id));
        if open_calls().any(|call| matches!(call.state, CallState::ChildSuspended { .. })) {
            ForkState::ChildSuspended
        } else if open_calls().any(in_doubt) {
            ForkState::WriteInProgress
        } else if open_calls().any(approved) {
            ForkState::ApprovedCall
        } else {
            ForkState::Open { expires_at: open_calls().filter_map(|call| call.state.expires_at()).min() }
        }
    }

    /// Returns the reason why the run cannot be forked in this state; `None` if it can.
    pub fn obstacle(self, now: Timestamp) -> Option<&'static str> {
        match self {
            ForkState::NoModel => Some(Self::NO_MODEL),
            ForkState::Ended => Some("the run ends with this entry; fork at an earlier one"),
            ForkState::ChildSuspended => {
                Some("the run waits for a child run here; fork at an earlier entry, or fork the child run")
            }
            ForkState::WriteInProgress => Some("a write was in progress; fork before its intent, or after it ended"),
            ForkState::ApprovedCall => Some(
                "an approved call was not executed yet; fork where the approval was requested, or after the call ended",
            ),
            ForkState::Open { expires_at: Some(expires_at) } if expires_at <= now => {
                Some("the approval or client result that the run waits for has expired; fork at an earlier entry")
            }
            ForkState::Open { .. } => None,
        }
    }
}

impl fmt::Display for ForkState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ForkState::NoModel => f.write_str("no_model"),
            ForkState::Ended => f.write_str("ended"),
            ForkState::ChildSuspended => f.write_str("child_suspended"),
            ForkState::WriteInProgress => f.write_str("write_in_progress"),
            ForkState::ApprovedCall => f.write_str("approved_call"),
            ForkState::Open { expires_at: None } => f.write_str("open"),
            ForkState::Open { expires_at: Some(at) } => write!(f, "open:{}", at.as_micros()),
        }
    }
}

/// The text is not a fork state of this release.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a fork state")]
pub struct UnknownForkState(String);

impl FromStr for ForkState {
    type Err = UnknownForkState;

    fn from_str(text: &str) -> Result<Self, UnknownForkState> {
        match text {
            "no_model" => Ok(ForkState::NoModel),
            "ended" => Ok(ForkState::Ended),
            "child_suspended" => Ok(ForkState::ChildSuspended),
            "write_in_progress" => Ok(ForkState::WriteInProgress),
            "approved_call" => Ok(ForkState::ApprovedCall),
            "open" => Ok(ForkState::Open { expires_at: None }),
            _ => {
                let micros = text.strip_prefix("open:").and_then(|micros| micros.parse().ok());
                let expires_at = micros.map(Timestamp::from_micros).ok_or_else(|| UnknownForkState(text.to_owned()))?;
                Ok(ForkState::Open { expires_at: Some(expires_at) })
            }
        }
    }
}
