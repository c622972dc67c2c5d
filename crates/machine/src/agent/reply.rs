//! What a model's reply means for the run.

use toolwright_types::{Message, ModelReply, RequestedCall, StopReason};

use super::depth::shallow_arguments;
use super::run::{AgentRun, Phase};
use crate::{Ending, RunStatus};

/// What a model is told that said nothing.
const NUDGE: &str = "Your last reply was empty. Answer, or call a tool.";

enum Move {
    Call,
    Nudge,
    End(Ending),
}

pub(super) fn replied(run: &mut AgentRun, reply: ModelReply) {
    account(run, &reply);
    let next = read(&reply, run.nudged);
    let ModelReply { content, tool_calls, thinking, .. } = reply;
    let calls: Vec<RequestedCall> = tool_calls
        .into_iter()
        .map(|call| RequestedCall { arguments: shallow_arguments(call.arguments), ..call })
        .collect();
    // An answer is the response as it is, also when it is empty; on the way there the last text stands in for it.
    if matches!(next, Move::End(_)) || !content.trim().is_empty() {
        run.response.clone_from(&content);
    }
    if !calls.is_empty() || !content.trim().is_empty() {
        run.messages.push(Message::Assistant { content, tool_calls: calls.clone(), thinking });
    }
    // Also when the run ends now: every call that was asked for gets its receipt.
    run.phase = Phase::Preparing(calls);
    match next {
        Move::Call => {}
        Move::Nudge => nudge(run),
        Move::End(ending) => run.end(ending),
    }
}

fn read(reply: &ModelReply, nudged: bool) -> Move {
    if reply.stop == StopReason::Refusal {
        return end("refusal", "the model declined to answer");
    }
    if !reply.tool_calls.is_empty() {
        return Move::Call;
    }
    match (reply.stop, reply.content.trim().is_empty()) {
        (StopReason::MaxTokens, _) => end("max_tokens", "the answer was cut: the model ran out of output tokens"),
        (_, false) => Move::End(Ending::answered()),
        (_, true) if nudged => end("empty_reply", "the model said nothing, twice"),
        (_, true) => Move::Nudge,
    }
}

fn end(reason: &str, message: &str) -> Move {
    Move::End(Ending::because(RunStatus::Completed, reason, message))
}

fn nudge(run: &mut AgentRun) {
    run.nudged = true;
    run.messages.push(Message::User { content: NUDGE.to_owned() });
    run.ask_model();
}

fn account(run: &mut AgentRun, reply: &ModelReply) {
    run.spent.usage += reply.usage;
    if !run.spent.pay(reply.cost_usd) {
        let warning = format!("the price of model `{}` is not known; it counts as 0", run.spec.request.model);
        if !run.warnings.contains(&warning) {
            run.warnings.push(warning);
        }
    }
}
