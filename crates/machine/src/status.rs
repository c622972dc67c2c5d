//! The ending of a run.

use serde::{Deserialize, Serialize};
use toolwright_types::RunStatus;

/// The ending of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ending {
    /// The final status.
    pub status: RunStatus,
    /// A stable reason code. Absent if the run ended normally with an answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// A message for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

impl Ending {
    pub(crate) fn completed() -> Self {
        Self { status: RunStatus::Completed, reason: None, message: None }
    }

    pub(crate) fn with_reason(status: RunStatus, reason: &str, message: impl Into<String>) -> Self {
        Self { status, reason: Some(reason.to_owned()), message: Some(message.into()) }
    }
}
