//! Runs that know what to do before they begin. Each planned call stands where a model's reply would; guards, approvals,
//! intents and receipts are the same.

use toolwright_types::{Arguments, Message, RequestedCall};

use super::run::{AgentRun, Phase};
use crate::{Ending, RunStatus};

/// Puts the next planned call in the place of a reply, or ends the run behind the last. Nothing of it is journaled: it
/// follows from the beginning.
pub(super) fn follow(run: &mut AgentRun) {
    if run.spec.plan.is_empty() {
        return;
    }
    let step = run.spent.iterations;
    let planned = usize::try_from(step.saturating_sub(1)).ok().and_then(|step| run.spec.plan.get(step));
    let Some(planned) = planned.cloned() else { return finish(run) };
    let call =
        RequestedCall { id: format!("plan_{step}"), name: planned.tool, arguments: Arguments::Json(planned.input) };
    run.say([Message::Assistant { content: String::new(), tool_calls: vec![call.clone()], thinking: Vec::new() }]);
    run.phase = Phase::Preparing(vec![call]);
}

fn finish(run: &mut AgentRun) {
    let planned = run.spec.plan.len();
    let failed = run.ledger.in_order().filter(|receipt| receipt.error.is_some()).count();
    run.response = format!("{} of {planned} calls were made", planned.saturating_sub(failed));
    let ending = match failed {
        0 => Ending::answered(),
        _ => Ending::because(RunStatus::Error, "plan_incomplete", format!("{failed} of {planned} calls failed")),
    };
    run.end(ending);
}
