//! Starts queued calls, up to the concurrency limit and the limits of the run. Calls with a common order key (the same
//! sequential tool, or the same written resource) run one at a time, in call order.

use std::collections::BTreeSet;

use toolwright_types::{CallId, RunId, RunStatus, ToolEnvelope};

use super::call::{Batch, Call, CallState};
use super::closer::{CallCloser, denied};
use super::run::{AgentRun, Phase};
use super::{planned, predefined, tool_messages, workflow};
use crate::{Breach, Ending};

pub(super) fn finish_call(run: &mut AgentRun, envelope: ToolEnvelope) {
    let id = envelope.call_id.clone();
    run.with_call(&id, |call, closer| closer.close(call, envelope));
}

/// Suspends a call whose child run is suspended.
pub(super) fn pause_call(run: &mut AgentRun, id: &CallId, child: RunId, status: RunStatus) {
    run.with_call(id, |call, _| call.state = CallState::ChildSuspended { run: child, status });
}

/// Resumes a call. The call keeps its position in the start order and is not counted a second time.
pub(super) fn resume_call(run: &mut AgentRun, id: &CallId) {
    run.with_call(id, |call, _| {
        call.attempt += 1;
        call.state = CallState::Running;
    });
}

impl AgentRun {
    /// Starts queued calls, and continues the run when all calls of the reply are done.
    pub(super) fn advance(&mut self) {
        if self.workflow.is_some() {
            return workflow::advance(self);
        }
        let (Some(batch), mut closer) = self.split_batch() else {
            return;
        };
        match start_ready_calls(batch, &mut closer) {
            Some(breach @ Breach::Time { .. }) => return self.end(breach.ending()),
            Some(breach) => refuse_unstarted_calls(batch, &mut closer, breach.code(), breach.ending()),
            None => {}
        }
        if batch.is_done() {
            self.finish_batch();
        }
    }

    /// Calls the model, unless a limit is reached.
    pub(super) fn call_model(&mut self) {
        let limits = &self.spec.limits;
        // A plan has its own limit for steps, and its model calls are bounded by the number of corrections.
        let breach = match self.plan {
            Some(_) => limits.budget_breach(&self.resource_usage),
            None => limits.before_model(&self.resource_usage),
        };
        match breach {
            Some(breach) => self.end(breach.ending()),
            None => {
                self.resource_usage.iterations += 1;
                self.phase = Phase::Model;
                predefined::request_next_call(self);
            }
        }
    }

    fn finish_batch(&mut self) {
        let Phase::Calling(batch) = std::mem::replace(&mut self.phase, Phase::Model) else {
            return;
        };
        if self.plan.is_some() {
            return planned::finish_batch(self, batch);
        }
        let results = tool_messages::tool_messages(&batch.calls, &self.ledger);
        self.push_messages(results);
        match batch.pending_ending {
            Some(ending) => self.end(ending),
            None => self.call_model(),
        }
    }
}

pub(super) fn start_ready_calls(batch: &mut Batch, closer: &mut CallCloser<'_>) -> Option<Breach> {
    let under_way = |call: &&Call| matches!(call.state, CallState::Running | CallState::Interrupted);
    let mut running = batch.calls.iter().filter(under_way).count();
    // The prices of the calls in progress.
    let mut reserved_usd: f64 = batch.calls.iter().filter(|call| is_in_progress(call)).map(Call::price_usd).sum();
    // The order keys of earlier unfinished calls. A call that awaits a person or the client is unfinished too.
    let mut held_keys: BTreeSet<String> = BTreeSet::new();
    for call in &mut batch.calls {
        if call.state == CallState::Queued
            && running < closer.spec.max_concurrent_calls()
            && keys_are_free(call, &held_keys)
        {
            let price = call.price_usd();
            let breach = closer.spec.breach_before_call(closer.resource_usage, price);
            if breach.is_some() {
                return breach;
            }
            // A call in progress may cost less than its price. So this call waits until the costs of those calls are
            // known.
            if closer.spec.limits.price_breach(closer.resource_usage, reserved_usd + price).is_none() {
                reserved_usd += price;
                closer.resource_usage.tool_calls += 1;
                closer.ledger.mark_started(&call.call_id);
                call.state = CallState::Running;
                running += 1;
            }
        }
        if call.state != CallState::Done {
            held_keys.extend(call.facts.iter().flat_map(|facts| facts.order_keys.iter().cloned()));
        }
    }
    None
}

/// Whether a call was started and has not ended.
fn is_in_progress(call: &Call) -> bool {
    call.started() && call.state != CallState::Done
}

fn keys_are_free(call: &Call, held_keys: &BTreeSet<String>) -> bool {
    call.facts.as_ref().is_none_or(|facts| facts.order_keys.is_disjoint(held_keys))
}

/// Refuses all calls that are not running. Running calls may finish, because they may already have changed something.
/// Then the run ends with `ending`.
pub(super) fn refuse_unstarted_calls(batch: &mut Batch, closer: &mut CallCloser<'_>, reason: &str, ending: Ending) {
    for call in &mut batch.calls {
        if !matches!(call.state, CallState::Running | CallState::Interrupted | CallState::Done) {
            let message = ending.message.clone().unwrap_or_default();
            let error = denied(reason, message).detail("started", call.started());
            closer.fail(call, error);
        }
    }
    batch.pending_ending = Some(ending);
}
