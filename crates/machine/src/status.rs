//! Where a run stands, and how it ended.

use serde::{Deserialize, Serialize};

/// Where a run stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum RunStatus {
    /// Something is under way.
    Running,
    /// The model has answered, or declined to.
    Completed,
    /// The model was asked as often as allowed and still wants more.
    MaxIterations,
    /// The time is up.
    Timeout,
    /// Tool calls, tokens or money are used up.
    BudgetExceeded,
    /// The run could not go on.
    Error,
    /// Someone stopped it.
    Cancelled,
    /// Nothing is under way; a person has to decide.
    AwaitingApproval,
    /// Nothing is under way; a client has to act.
    AwaitingClient,
}

impl RunStatus {
    /// Whether nothing more will happen.
    pub fn is_end(self) -> bool {
        !matches!(self, RunStatus::Running | RunStatus::AwaitingApproval | RunStatus::AwaitingClient)
    }

    /// The status as it is written on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            RunStatus::Running => "RUNNING",
            RunStatus::Completed => "COMPLETED",
            RunStatus::MaxIterations => "MAX_ITERATIONS",
            RunStatus::Timeout => "TIMEOUT",
            RunStatus::BudgetExceeded => "BUDGET_EXCEEDED",
            RunStatus::Error => "ERROR",
            RunStatus::Cancelled => "CANCELLED",
            RunStatus::AwaitingApproval => "AWAITING_APPROVAL",
            RunStatus::AwaitingClient => "AWAITING_CLIENT",
        }
    }
}

impl std::fmt::Display for RunStatus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

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
