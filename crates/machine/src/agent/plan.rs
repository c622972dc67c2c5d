//! Runs that know what to do before they begin. Each planned call stands where a model's reply would; guards, approvals,
//! intents and receipts are the same.

use toolwright_types::{Arguments, Message, RequestedCall, ToolError};

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
    let errors: Vec<&ToolError> = run.ledger.in_order().filter_map(|receipt| receipt.error.as_ref()).collect();
    run.response = format!("{} of {planned} calls were made", planned.saturating_sub(errors.len()));
    let ending = match errors.as_slice() {
        [] => Ending::answered(),
        // There is nothing else to tell about a run that is one call.
        [error] if planned == 1 => Ending::because(RunStatus::Error, error.code.as_str(), error.message.clone()),
        failed => {
            let message = format!("{} of {planned} calls failed", failed.len());
            Ending::because(RunStatus::Error, "plan_incomplete", message)
        }
    };
    run.end(ending);
}
