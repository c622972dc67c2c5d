//! Runs with predefined calls. Each predefined call replaces a model reply that requests this call. Policy checks,
//! approvals, intents and envelopes are the same as in any other run.

use toolwright_types::{Arguments, Message, RequestedCall, ToolError};

use super::PredefinedCall;
use super::run::{AgentRun, Phase};
use crate::{Ending, RunStatus};

/// Requests the next predefined call, or ends the run after the last call. No journal entry is needed, because the
/// start entry contains the calls.
pub(super) fn request_next_call(run: &mut AgentRun) {
    if run.spec.predefined_calls.is_empty() {
        return;
    }
    let iteration = run.resource_usage.iterations;
    let position = usize::try_from(iteration.saturating_sub(1)).ok();
    let next = position.and_then(|position| run.spec.predefined_calls.get(position));
    let Some(PredefinedCall { tool, input }) = next.cloned() else { return finish_run(run) };
    let call = RequestedCall { id: format!("call_{iteration}"), name: tool, arguments: Arguments::Json(input) };
    run.push_messages([Message::Assistant {
        content: String::new(),
        tool_calls: vec![call.clone()],
        thinking: Vec::new(),
    }]);
    run.phase = Phase::Preparing(vec![call]);
}

fn finish_run(run: &mut AgentRun) {
    let count = run.spec.predefined_calls.len();
    let errors: Vec<&ToolError> = run.ledger.in_start_order().filter_map(|envelope| envelope.error.as_ref()).collect();
    run.response = format!("{} of {count} calls succeeded", count.saturating_sub(errors.len()));
    let ending = match errors.as_slice() {
        [] => Ending::completed(),
        // A run with a single call ends with the error of that call.
        [error] if count == 1 => Ending::with_reason(RunStatus::Error, error.code.as_str(), error.message.clone()),
        failed => {
            let message = format!("{} of {count} calls failed", failed.len());
            Ending::with_reason(RunStatus::Error, "calls_failed", message)
        }
    };
    run.end(ending);
}
