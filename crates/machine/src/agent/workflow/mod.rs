//! Runs that execute a workflow. The steps of the graph request calls instead of a model.
//!
//! ```text
//!  pending ─ dependencies ended ─▶ ready ─ condition true ─▶ running ─▶ completed, failed
//!                                    └───── otherwise ─▶ skipped
//! ```
//!
//! A run stays in the phase `Calling` until it ends. Its batch contains the calls in progress. Calls of several steps can
//! be prepared at the same time, each group under its own iteration. A step without a call is computed here, and needs no
//! journal entry. [`crate::workflow`] defines the graph and the states of the steps.

mod end;
mod evaluate;
mod items;
mod report;
mod steps;
mod timers;

use std::collections::VecDeque;

use serde_json::Value;

use super::call::{Batch, Call, CallState};
use super::depth::limit_depth;
use super::run::{AgentRun, Phase};
use super::scheduling::{refuse_unstarted_calls, start_ready_calls};
use super::{PreparedCall, preparation};
use crate::workflow::{ItemRef, StepCall, WorkflowSpec, WorkflowState};
use crate::{Breach, Ending};

pub(super) use end::record_end;
pub(super) use timers::fire_timers;

/// The maximum number of signals that no step has received.
pub const MAX_BUFFERED_SIGNALS: usize = 1000;

/// The reason of the error of an attempt that took longer than the time limit of its step.
pub const STEP_TIMEOUT: &str = "step_timeout";

/// The maximum number of calls that are prepared together.
const MAX_PREPARED_TOGETHER: usize = 50;

/// Starts a run that executes a workflow.
pub(super) fn start(run: &mut AgentRun, spec: &WorkflowSpec) {
    run.phase = Phase::Calling(Batch::new(Vec::new()));
    run.workflow = Some(Box::new(WorkflowState::new(&spec.graph)));
    advance(run);
}

/// Starts the steps that can run, and ends the run after its last step.
pub(super) fn advance(run: &mut AgentRun) {
    let ending = with_steps(run, |steps| steps.advance()).flatten();
    if let Some(ending) = ending {
        run.end(ending);
    }
}

/// Applies the preparation of the calls of an iteration.
pub(super) fn apply_preparation(run: &mut AgentRun, iteration: u32, results: Vec<PreparedCall>) {
    with_steps(run, |steps| steps.apply_preparation(iteration, results));
}

/// Gives a signal to the first step that waits for it, or keeps it for a later step.
pub(super) fn receive_signal(run: &mut AgentRun, name: String, payload: Value) {
    let payload = limit_depth(payload);
    with_steps(run, |steps| steps.receive_signal(name, payload));
}

/// Pauses the run: the calls in progress end, and no other call and no step starts.
pub(super) fn set_paused(run: &mut AgentRun, paused: bool) {
    if let Some(state) = &mut run.workflow {
        state.paused = paused;
    }
}

/// Applies `act` to the steps of a run. Returns `None` if the run executes no workflow.
fn with_steps<T>(run: &mut AgentRun, act: impl FnOnce(&mut Steps<'_>) -> T) -> Option<T> {
    let (spec, mut state) = (run.spec.workflow.clone()?, run.workflow.take()?);
    let result = act(&mut Steps { run, spec: &spec, state: &mut state });
    run.workflow = Some(state);
    Some(result)
}

/// The steps of a run in progress.
struct Steps<'a> {
    run: &'a mut AgentRun,
    spec: &'a WorkflowSpec,
    state: &'a mut WorkflowState,
}

impl Steps<'_> {
    fn batch(&mut self) -> Option<&mut Batch> {
        match &mut self.run.phase {
            Phase::Calling(batch) => Some(batch),
            _ => None,
        }
    }

    /// Whether the run ends as soon as the calls in progress have ended.
    fn is_ending(&self) -> bool {
        self.run.batch().is_none_or(|batch| batch.pending_ending.is_some())
    }

    /// Starts everything that can start. Returns the ending of the run after its last step.
    fn advance(&mut self) -> Option<Ending> {
        loop {
            self.take_results();
            if !self.state.paused {
                self.start_steps();
                self.request_calls();
                let (batch, mut closer) = self.run.split_batch();
                match batch.and_then(|batch| start_ready_calls(batch, &mut closer)) {
                    Some(breach @ Breach::Time { .. }) => return Some(breach.ending()),
                    Some(breach) => self.stop(breach.code(), breach.ending()),
                    None => {}
                }
            }
            if !self.batch().is_some_and(|batch| batch.calls.iter().any(|call| call.state == CallState::Done)) {
                break;
            }
        }
        if self.is_ending() {
            let batch = self.batch()?;
            return if batch.calls.is_empty() { batch.pending_ending.take() } else { None };
        }
        (self.state.unfinished == 0).then(|| self.complete())
    }

    /// Lets the calls in progress end, and starts nothing else. Then the run ends with this ending.
    fn stop(&mut self, reason: &str, ending: Ending) {
        self.state.preparing.clear();
        let (batch, mut closer) = self.run.split_batch();
        if let Some(batch) = batch.filter(|batch| batch.pending_ending.is_none()) {
            refuse_unstarted_calls(batch, &mut closer, reason, ending);
        }
    }

    /// Removes the calls that have ended from the batch, and applies their results to their items.
    fn take_results(&mut self) {
        let Some(batch) = self.batch() else { return };
        if batch.calls.iter().all(|call| call.state != CallState::Done) {
            return;
        }
        let (done, open) = std::mem::take(&mut batch.calls).into_iter().partition(|call| call.state == CallState::Done);
        batch.calls = open;
        let done: Vec<Call> = done;
        for call in done {
            self.apply_result(&call);
        }
    }

    fn apply_preparation(&mut self, iteration: u32, results: Vec<PreparedCall>) {
        let Some(calls) = self.state.preparing.remove(&iteration) else { return };
        let (items, requested): (Vec<ItemRef>, Vec<_>) =
            calls.into_iter().map(|StepCall { of, requested }| (of, requested)).unzip();
        let (_, mut closer) = self.run.split_batch();
        let mut calls = preparation::decide_calls(&mut closer, requested, results);
        for (position, (call, of)) in (0_u32..).zip(calls.iter_mut().zip(items)) {
            let first = self.state.unit(of).and_then(|unit| unit.first_call.clone());
            call.step = Some(super::call::StepOfCall { of, iteration, position, first });
            self.set_timeout(of);
            if let Some(unit) = self.state.unit_mut(of) {
                unit.first_call.get_or_insert_with(|| call.call_id.clone());
                unit.call_id = Some(call.call_id.clone());
            }
        }
        if let Some(batch) = self.batch() {
            batch.calls.extend(calls);
        }
    }

    /// Requests the preparation of calls.
    fn prepare(&mut self, calls: Vec<StepCall>) {
        let mut calls = calls.into_iter().peekable();
        while calls.peek().is_some() {
            self.run.resource_usage.iterations += 1;
            let group = calls.by_ref().take(MAX_PREPARED_TOGETHER).collect();
            self.state.preparing.insert(self.run.resource_usage.iterations, group);
        }
    }

    fn receive_signal(&mut self, name: String, payload: Value) {
        let waiting = self.state.awaiting.get_mut(&name);
        let Some(of) = waiting.and_then(VecDeque::pop_front) else {
            return self.state.signals.entry(name).or_default().push_back(payload);
        };
        if self.state.awaiting.get(&name).is_some_and(VecDeque::is_empty) {
            self.state.awaiting.remove(&name);
        }
        self.finish_item(of, Ok(payload));
    }
}
