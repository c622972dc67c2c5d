//! The states of the steps of a workflow run.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolwright_types::{CallId, RequestedCall, StepName, Timestamp, ToolError};

use super::{GraphStep, WorkflowGraph};

/// The status of a step, or of an item of a step.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum StepStatus {
    /// The step has not started.
    #[default]
    Pending,
    /// The step is running.
    Running,
    /// The step waits for a person, a client, a child run, a signal or a time.
    Waiting,
    /// The step has completed.
    Completed,
    /// The step has failed.
    Failed,
    /// The step was skipped.
    Skipped,
}

impl StepStatus {
    /// Whether the step has ended.
    pub fn has_ended(self) -> bool {
        matches!(self, StepStatus::Completed | StepStatus::Failed | StepStatus::Skipped)
    }

    /// The name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            StepStatus::Pending => "PENDING",
            StepStatus::Running => "RUNNING",
            StepStatus::Waiting => "WAITING",
            StepStatus::Completed => "COMPLETED",
            StepStatus::Failed => "FAILED",
            StepStatus::Skipped => "SKIPPED",
        }
    }
}

/// The state of a step and of its items, for people who inspect a run.
#[derive(Debug, Clone, PartialEq)]
pub struct StepReport {
    /// The name of the step.
    pub name: StepName,
    /// The status.
    pub status: StepStatus,
    /// The output; null until the step has ended.
    pub output: Value,
    /// The error of a failed step.
    pub error: Option<ToolError>,
    /// The number of attempts.
    pub attempts: u32,
    /// The last call of the step.
    pub call_id: Option<CallId>,
    /// The time when the step started.
    pub started_at: Option<Timestamp>,
    /// The time when the step ended.
    pub ended_at: Option<Timestamp>,
    /// The time at which a waiting step continues at the latest.
    pub wakes_at: Option<Timestamp>,
    /// The signal for which the step waits.
    pub signal: Option<String>,
    /// Whether the result comes from an earlier run.
    pub reused: bool,
    /// The items of a `forEach`.
    pub items: Option<Vec<ItemReport>>,
}

/// The state of one item of a `forEach`.
#[derive(Debug, Clone, PartialEq)]
pub struct ItemReport {
    /// The position in the list.
    pub index: u32,
    /// The status.
    pub status: StepStatus,
    /// The output; null until the item has completed.
    pub output: Value,
    /// The error of a failed item.
    pub error: Option<ToolError>,
    /// The number of attempts.
    pub attempts: u32,
    /// The last call of the item.
    pub call_id: Option<CallId>,
}

/// The state of a workflow run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct WorkflowState {
    /// The states of the steps, in the order of the graph.
    pub steps: Vec<StepRun>,
    /// The number of steps that have not ended.
    pub unfinished: u32,
    /// The steps whose dependencies have ended and that have not started, in order.
    #[serde(default, skip_serializing_if = "VecDeque::is_empty")]
    pub ready: VecDeque<u32>,
    /// The steps with items whose calls can be requested, as far as the limit for concurrent calls allows.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub startable: BTreeSet<u32>,
    /// The steps without calls with items that can be started.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub startable_local: BTreeSet<u32>,
    /// The items whose next attempt is due.
    #[serde(default, skip_serializing_if = "VecDeque::is_empty")]
    pub due_retries: VecDeque<ItemRef>,
    /// The calls that are being prepared, by iteration.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub preparing: BTreeMap<u32, Vec<StepCall>>,
    /// The times at which items continue or time out.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub timers: BTreeSet<Timer>,
    /// The items that wait for a signal, by the name of the signal.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub awaiting: BTreeMap<String, VecDeque<ItemRef>>,
    /// Signals that no step has received yet, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub signals: BTreeMap<String, VecDeque<Value>>,
    /// Whether the run is paused: no step starts.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub paused: bool,
    /// The output, after the run has completed.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub output: Value,
}

/// The position of an item: a step, and the index of the item. A step without a `forEach` has one item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) struct ItemRef {
    pub step: u32,
    pub item: u32,
}

/// The time at which an item continues or times out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Timer {
    pub at: Timestamp,
    pub of: ItemRef,
}

/// A call of an item that is being prepared.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct StepCall {
    pub of: ItemRef,
    pub requested: RequestedCall,
}

/// The state of a step.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct StepRun {
    pub status: StepStatus,
    /// The number of edges to this step whose source has not ended.
    pub waits_for: u32,
    /// Whether the end of another step lets this step run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub activated: bool,
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub output: Value,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Box<ToolError>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reused: bool,
    /// The items. Empty until the step starts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub units: Vec<Unit>,
    /// Whether the step has a `forEach`, so that its items are a list.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_list: bool,
    /// The values of the items of a `forEach`. Empty after the step has ended.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub list: Vec<Value>,
    /// The index of the next item to start.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub next: u32,
    /// The number of items in progress.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub in_progress: u32,
    /// The number of items that have ended.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub ended: u32,
}

/// The state of one item of a step.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Unit {
    pub state: UnitState,
    /// The output of an item of a `forEach`, until the step ends.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub output: Value,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Box<ToolError>>,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub attempts: u32,
    /// The call of the first attempt. All attempts of a write use its idempotency key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_call: Option<CallId>,
    /// The call of the last attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call_id: Option<CallId>,
    /// The time at which the item continues or times out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timer: Option<Timestamp>,
}

/// What an item does.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum UnitState {
    /// The item has not started.
    #[default]
    Pending,
    /// The call of the item is being prepared, or is in the batch of the run.
    Calling,
    /// The item waits for its timer.
    Sleeping,
    /// The item waits for a signal.
    AwaitingSignal(String),
    /// The item waits for its next attempt.
    Retrying,
    Completed,
    Failed,
}

impl Unit {
    pub(crate) fn has_ended(&self) -> bool {
        matches!(self.state, UnitState::Completed | UnitState::Failed)
    }

    /// The status, if a running call counts as `Running`.
    pub(crate) fn status(&self) -> StepStatus {
        match self.state {
            UnitState::Pending => StepStatus::Pending,
            UnitState::Calling => StepStatus::Running,
            UnitState::Sleeping | UnitState::AwaitingSignal(_) | UnitState::Retrying => StepStatus::Waiting,
            UnitState::Completed => StepStatus::Completed,
            UnitState::Failed => StepStatus::Failed,
        }
    }
}

impl StepRun {
    /// Takes the next item that has not ended, if fewer than `concurrency` items are in progress.
    pub(crate) fn take_next(&mut self, concurrency: u32) -> Option<u32> {
        while self.in_progress < concurrency {
            let item = self.next;
            let unit = self.units.get(usize::try_from(item).ok()?)?;
            let has_ended = unit.has_ended();
            self.next += 1;
            if !has_ended {
                self.in_progress += 1;
                return Some(item);
            }
        }
        None
    }

    /// Whether some items have not been started.
    pub(crate) fn has_more(&self) -> bool {
        usize::try_from(self.next).is_ok_and(|next| next < self.units.len())
    }

    /// Whether all items have ended.
    pub(crate) fn is_complete(&self) -> bool {
        usize::try_from(self.ended).is_ok_and(|ended| ended >= self.units.len())
    }
}

impl WorkflowState {
    /// The state of a run of which no step has started.
    pub(crate) fn new(graph: &WorkflowGraph) -> Self {
        let waiting = |step: &GraphStep| StepRun { waits_for: step.dependencies, ..StepRun::default() };
        let steps: Vec<StepRun> = graph.steps().iter().map(waiting).collect();
        let ready = (0_u32..).zip(&steps).filter(|(_, step)| step.waits_for == 0).map(|(at, _)| at).collect();
        Self {
            unfinished: u32::try_from(steps.len()).unwrap_or(u32::MAX),
            steps,
            ready,
            startable: BTreeSet::new(),
            startable_local: BTreeSet::new(),
            due_retries: VecDeque::new(),
            preparing: BTreeMap::new(),
            timers: BTreeSet::new(),
            awaiting: BTreeMap::new(),
            signals: BTreeMap::new(),
            paused: false,
            output: Value::Null,
        }
    }

    pub(crate) fn step_mut(&mut self, step: u32) -> Option<&mut StepRun> {
        self.steps.get_mut(usize::try_from(step).ok()?)
    }

    pub(crate) fn step(&self, step: u32) -> Option<&StepRun> {
        self.steps.get(usize::try_from(step).ok()?)
    }

    pub(crate) fn unit(&self, of: ItemRef) -> Option<&Unit> {
        self.step(of.step)?.units.get(usize::try_from(of.item).ok()?)
    }

    pub(crate) fn unit_mut(&mut self, of: ItemRef) -> Option<&mut Unit> {
        self.step_mut(of.step)?.units.get_mut(usize::try_from(of.item).ok()?)
    }

    /// Sets or removes the timer of an item.
    pub(crate) fn set_timer(&mut self, of: ItemRef, at: Option<Timestamp>) {
        let Some(unit) = self.unit_mut(of) else { return };
        let before = std::mem::replace(&mut unit.timer, at);
        if let Some(before) = before {
            self.timers.remove(&Timer { at: before, of });
        }
        self.timers.extend(at.map(|at| Timer { at, of }));
    }

    /// The number of signals that no step has received.
    pub(crate) fn buffered_signals(&self) -> usize {
        self.signals.values().map(VecDeque::len).sum()
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(count: &u32) -> bool {
    *count == 0
}
