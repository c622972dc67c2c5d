//! How a run ended.

use serde::{Deserialize, Serialize};
use toolwright_types::RunStatus;

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ending {
    /// The final status.
    pub status: RunStatus,
    /// Why, as a word to branch on; none for a plain answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Why, for a person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

impl Ending {
    pub(crate) fn answered() -> Self {
        Self { status: RunStatus::Completed, reason: None, message: None }
    }

    pub(crate) fn because(status: RunStatus, reason: &str, message: impl Into<String>) -> Self {
        Self { status, reason: Some(reason.to_owned()), message: Some(message.into()) }
    }
}
