//! The types that the external scheduler and the servers exchange: events, tasks and plans.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use toolwright_machine::agent::{EffectId, EventKind};
use toolwright_tools::Allowance;
use toolwright_types::RunId;

/// An event of a run, as the external scheduler reports it.
#[derive(Debug, Clone)]
pub enum TaskEvent {
    /// The run must check its timers, its child runs and its outstanding tasks.
    Wake,
    /// A command arrived in the inbox, under this id.
    Command(String),
}

/// An event that [`super::Stepper::advance`] applies.
pub(crate) enum StepEvent<'a> {
    Wake,
    Command(&'a str),
    /// The executions of these tasks have ended.
    Ended(&'a [EndedTask]),
}

impl StepEvent<'_> {
    /// Whether the event contains the outcomes of all its tasks, so that none has to be read from the store.
    pub(super) fn has_outcomes(&self) -> bool {
        matches!(self, StepEvent::Ended(tasks) if tasks.iter().all(|ended| ended.outcome.is_some()))
    }
}

impl<'a> From<&'a TaskEvent> for StepEvent<'a> {
    fn from(event: &'a TaskEvent) -> Self {
        match event {
            TaskEvent::Wake => StepEvent::Wake,
            TaskEvent::Command(id) => StepEvent::Command(id),
        }
    }
}

/// A task whose execution has ended.
pub(crate) struct EndedTask {
    pub task: Task,
    /// The outcome. `None` if the store has the outcome, if the execution was interrupted, or if the run no longer
    /// waits for the task.
    pub outcome: Option<Arc<EventKind>>,
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
    /// The budget of the child run that the task starts; `None` if it starts none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) allowance: Option<Allowance>,
    /// Whether the task may have been scheduled before. Then another invocation may be executing it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) scheduled_before: bool,
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
    /// When to wake the run. A server that executes tasks of the run also wakes the run, so the scheduler needs this
    /// timer only if there are no tasks.
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
