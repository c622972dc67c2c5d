//! What a model's reply means for the run.

use toolwright_types::{Message, ModelReply, RequestedCall, StopReason};

use super::depth::shallow_arguments;
use super::run::{AgentRun, Phase};
use crate::{Ending, RunStatus};

/// What a model is told that said nothing.
const NUDGE: &str = "Your last reply was empty. Answer, or call a tool.";

/// How often an answer that does not fit is sent back.
const MOST_SENT_BACK: u32 = 2;

enum Move {
    Call,
    Nudge,
    SendBack(String),
    End(Ending),
}

pub(super) fn replied(run: &mut AgentRun, reply: ModelReply, misfit: Option<String>) {
    account(run, &reply);
    let next = match (read(&reply, run.nudged), misfit) {
        (Move::End(ending), Some(why)) if ending.reason.is_none() => send_back(run.sent_back, why),
        (next, _) => next,
    };
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
        run.say([Message::Assistant { content, tool_calls: calls.clone(), thinking }]);
    }
    // Also when the run ends now: every call that was asked for gets its receipt.
    run.phase = Phase::Preparing(calls);
    match next {
        Move::Call => {}
        Move::Nudge => {
            run.nudged = true;
            say(run, NUDGE.to_owned());
        }
        Move::SendBack(why) => {
            run.sent_back += 1;
            say(run, format!("Your answer does not fit what was asked for: {why}. Answer again, with JSON alone."));
        }
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

fn send_back(times: u32, why: String) -> Move {
    if times < MOST_SENT_BACK {
        return Move::SendBack(why);
    }
    let message = format!("the answer did not fit {} times: {why}", times.saturating_add(1));
    Move::End(Ending::because(RunStatus::Error, "answer_schema", message))
}

fn say(run: &mut AgentRun, content: String) {
    run.say([Message::User { content }]);
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
