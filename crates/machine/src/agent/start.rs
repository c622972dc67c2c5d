//! Which of the calls that may run begin now: as many as there are places, in order where order matters, within limits.

use std::collections::BTreeSet;

use toolwright_types::{CallId, RunId, RunStatus, ToolEnvelope};

use super::call::{Batch, Call, CallState};
use super::desk::{Desk, denied};
use super::run::{AgentRun, Phase};
use super::{plan, show};
use crate::Breach;

pub(super) fn ended(run: &mut AgentRun, envelope: ToolEnvelope) {
    let id = envelope.call_id.clone();
    run.with_call(&id, |call, desk| desk.close(call, envelope));
}

/// A call whose run waits for somebody is no longer under way.
pub(super) fn paused(run: &mut AgentRun, id: &CallId, child: RunId, status: RunStatus) {
    run.with_call(id, |call, _| call.state = CallState::Paused { run: child, status });
}

/// It is under way again, in the place it has: it was started once.
pub(super) fn went_on(run: &mut AgentRun, id: &CallId) {
    run.with_call(id, |call, _| {
        call.attempt += 1;
        call.state = CallState::Running;
    });
}

impl AgentRun {
    /// Begins what can begin, and goes on when a reply's calls are all done.
    pub(super) fn advance(&mut self) {
        let (Some(batch), mut desk) = self.counter() else {
            return;
        };
        match begin(batch, &mut desk) {
            Some(breach @ Breach::Time { .. }) => return self.end(breach.ending()),
            Some(breach) => stop(batch, &mut desk, breach),
            None => {}
        }
        if batch.done() {
            self.close_batch();
        }
    }

    /// Asks the model, if it may be asked once more.
    pub(super) fn ask_model(&mut self) {
        match self.spec.limits.before_model(&self.spent) {
            Some(breach) => self.end(breach.ending()),
            None => {
                self.spent.iterations += 1;
                self.phase = Phase::Model;
                plan::follow(self);
            }
        }
    }

    fn close_batch(&mut self) {
        let Phase::Calling(batch) = std::mem::replace(&mut self.phase, Phase::Model) else {
            return;
        };
        let results = show::tool_messages(&batch.calls, &self.ledger);
        self.say(results);
        match batch.stopping {
            Some(ending) => self.end(ending),
            None => self.ask_model(),
        }
    }
}

fn begin(batch: &mut Batch, desk: &mut Desk<'_>) -> Option<Breach> {
    let under_way = |call: &&Call| matches!(call.state, CallState::Running | CallState::InDoubt);
    let mut running = batch.calls.iter().filter(under_way).count();
    // Keys of earlier calls that are not done. They hold also while such a call waits for a person or the client.
    let mut taken: BTreeSet<String> = BTreeSet::new();
    for call in &mut batch.calls {
        if call.state == CallState::Queued && running < desk.spec.places() && free(call, &taken) {
            if let Some(breach) = desk.spec.limits.before_tool(desk.spent) {
                return Some(breach);
            }
            desk.spent.tool_calls += 1;
            desk.ledger.start(&call.call_id);
            call.state = CallState::Running;
            running += 1;
        }
        if call.state != CallState::Done {
            taken.extend(call.facts.iter().flat_map(|facts| facts.order_keys.iter().cloned()));
        }
    }
    None
}

fn free(call: &Call, taken: &BTreeSet<String>) -> bool {
    call.facts.as_ref().is_none_or(|facts| facts.order_keys.is_disjoint(taken))
}

/// Refuses all that has not begun or only waits; what is under way may finish, since it may have changed something.
fn stop(batch: &mut Batch, desk: &mut Desk<'_>, breach: Breach) {
    let ending = breach.ending();
    for call in &mut batch.calls {
        if !matches!(call.state, CallState::Running | CallState::InDoubt | CallState::Done) {
            let message = ending.message.clone().unwrap_or_default();
            let error = denied(breach.code(), message).detail("started", call.started());
            desk.refuse(call, error);
        }
    }
    batch.stopping = Some(ending);
}
