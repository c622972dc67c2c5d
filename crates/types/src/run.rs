//! The status of a run.

use std::str::FromStr;

use serde::de::IntoDeserializer as _;
use serde::{Deserialize, Serialize};

/// The status of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum RunStatus {
    /// The run is running.
    Running,
    /// The run ended normally. For a run with a model: the model answered or refused to answer.
    Completed,
    /// The maximum number of model calls, or of steps in a plan, is reached.
    MaxIterations,
    /// The time limit is exceeded.
    Timeout,
    /// A limit of tool calls, tokens or cost is exceeded.
    BudgetExceeded,
    /// The run failed.
    Error,
    /// The run was cancelled.
    Cancelled,
    /// The run is suspended until a person decides.
    AwaitingApproval,
    /// The run is suspended until a client acts.
    AwaitingClient,
    /// The run is suspended until a signal, a time or the end of a child run.
    Waiting,
    /// A person has paused the run.
    Paused,
}

impl RunStatus {
    /// All statuses.
    pub const ALL: [RunStatus; 11] = [
        RunStatus::Running,
        RunStatus::Completed,
        RunStatus::MaxIterations,
        RunStatus::Timeout,
        RunStatus::BudgetExceeded,
        RunStatus::Error,
        RunStatus::Cancelled,
        RunStatus::AwaitingApproval,
        RunStatus::AwaitingClient,
        RunStatus::Waiting,
        RunStatus::Paused,
    ];

    /// Whether the run has ended.
    pub fn is_terminal(self) -> bool {
        !matches!(
            self,
            RunStatus::Running
                | RunStatus::AwaitingApproval
                | RunStatus::AwaitingClient
                | RunStatus::Waiting
                | RunStatus::Paused
        )
    }

    /// The name on the wire.
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
            RunStatus::Waiting => "WAITING",
            RunStatus::Paused => "PAUSED",
        }
    }
}

impl std::fmt::Display for RunStatus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for RunStatus {
    /// The error message lists all statuses.
    type Err = serde::de::value::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::deserialize(text.into_deserializer())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_status_parses_from_its_text_and_the_error_for_other_text_lists_all_statuses() {
        for status in RunStatus::ALL {
            assert_eq!(status.to_string().parse::<RunStatus>().unwrap(), status);
        }
        let error = "running".parse::<RunStatus>().unwrap_err().to_string();
        assert!(error.contains("`running`"), "{error}");
        assert!(RunStatus::ALL.iter().all(|status| error.contains(status.as_str())), "{error}");
    }
}
