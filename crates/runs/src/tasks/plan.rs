//! The types that the external scheduler and the servers exchange: events, tasks and plans.

use serde::{Deserialize, Serialize};
use toolwright_machine::agent::EffectId;
use toolwright_tools::Allowance;
use toolwright_types::RunId;

/// An event that the scheduler delivers to a run.
#[derive(Debug, Clone)]
pub enum TaskEvent {
    /// The run must check its timers, its child runs and its outstanding tasks.
    Wake,
    /// A task has ended, or was lost.
    Ended(Task),
    /// A command arrived in the inbox, under this id.
    Command(String),
}

/// An effect of a run that a server must execute.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Task {
    /// The run.
    pub run: RunId,
    pub(super) effect: EffectId,
    /// The number of the attempt at the effect.
    pub(super) attempt: u32,
    /// A name that the scheduler's user interface shows.
    pub name: String,
    /// The budget of the child run that the task starts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) allowance: Option<Allowance>,
}

impl Task {
    /// An id that is unique within the run.
    pub fn id(&self) -> String {
        format!("{}/{}", self.effect, self.attempt)
    }
}

/// What the scheduler does next for a run.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct TaskPlan {
    /// The tasks to execute, in parallel. A task may have been scheduled before.
    pub tasks: Vec<Task>,
    /// When to wake the run.
    pub timer: Option<Timer>,
    /// The parent run, which the scheduler must wake because this run has ended.
    pub parent: Option<RunId>,
}

/// When to wake a run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Timer {
    /// Identifies the timer within the run. Setting a timer with the same key again has no effect.
    pub key: String,
    /// The delay in milliseconds.
    pub in_ms: u64,
}
