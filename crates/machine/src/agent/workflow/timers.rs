//! The timers of steps: sleeps, delays before retries, and time limits.

use toolwright_types::SideEffects;

use super::evaluate::slept;
use super::items::timeout_error;
use super::{Steps, with_steps};
use crate::agent::run::AgentRun;
use crate::workflow::{ItemRef, UnitState};

/// Continues the items whose timers are due.
pub(in crate::agent) fn fire_timers(run: &mut AgentRun) {
    with_steps(run, |steps| steps.fire_timers());
}

impl Steps<'_> {
    fn fire_timers(&mut self) {
        while let Some(timer) = self.state.timers.first().copied().filter(|timer| timer.at <= self.run.now) {
            self.state.set_timer(timer.of, None);
            let Some(state) = self.state.unit(timer.of).map(|unit| unit.state.clone()) else { continue };
            match state {
                UnitState::Sleeping => self.finish_item(timer.of, Ok(slept(timer.at))),
                UnitState::Retrying => {
                    if let Some(unit) = self.state.unit_mut(timer.of) {
                        unit.state = UnitState::Pending;
                    }
                    self.state.due_retries.push_back(timer.of);
                }
                UnitState::AwaitingSignal(name) => {
                    if let Some(waiting) = self.state.awaiting.get_mut(&name) {
                        waiting.retain(|of| *of != timer.of);
                    }
                    self.state.awaiting.retain(|_, waiting| !waiting.is_empty());
                    let error = timeout_error(self.timeout_ms(timer.of)).detail("signal", name);
                    self.finish_item(timer.of, Err(error));
                }
                UnitState::Calling => self.time_out(timer.of),
                UnitState::Pending | UnitState::Completed | UnitState::Failed => {}
            }
        }
    }

    /// Closes the call of an item. The result that the call may still return is not accepted.
    fn time_out(&mut self, of: ItemRef) {
        let error = timeout_error(self.timeout_ms(of));
        let (batch, mut closer) = self.run.split_batch();
        let calls = batch.into_iter().flat_map(|batch| &mut batch.calls);
        let call = calls.into_iter().find(|call| call.step.as_ref().is_some_and(|step| step.of == of));
        if let Some(call) = call {
            let started = call.started();
            let error = error.detail("started", started);
            let writes = call.facts.as_ref().is_some_and(|facts| facts.effects == SideEffects::Writes);
            // A started write may have taken effect, and the envelope must say so.
            let error = if started && writes { error.detail("outcome", "unknown") } else { error };
            closer.fail(call, error);
        }
    }

    fn timeout_ms(&self, of: ItemRef) -> u64 {
        self.spec.graph.step(of.step).and_then(|(step, _)| step.timeout_ms).unwrap_or_default()
    }
}
