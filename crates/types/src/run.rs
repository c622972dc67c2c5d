//! Where a run stands.

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
