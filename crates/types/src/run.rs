//! Where a run stands.

use std::str::FromStr;

use serde::de::IntoDeserializer as _;
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
    /// Every status: under way, the ends, and what a run can wait for.
    pub const ALL: [RunStatus; 9] = [
        RunStatus::Running,
        RunStatus::Completed,
        RunStatus::MaxIterations,
        RunStatus::Timeout,
        RunStatus::BudgetExceeded,
        RunStatus::Error,
        RunStatus::Cancelled,
        RunStatus::AwaitingApproval,
        RunStatus::AwaitingClient,
    ];

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

impl FromStr for RunStatus {
    /// Names every status there is.
    type Err = serde::de::value::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::deserialize(text.into_deserializer())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_reads_back_and_an_unknown_one_is_told_the_others() {
        for status in RunStatus::ALL {
            assert_eq!(status.to_string().parse::<RunStatus>().unwrap(), status);
        }
        let error = "running".parse::<RunStatus>().unwrap_err().to_string();
        assert!(error.contains("`running`"), "{error}");
        assert!(RunStatus::ALL.iter().all(|status| error.contains(status.as_str())), "{error}");
    }
}
