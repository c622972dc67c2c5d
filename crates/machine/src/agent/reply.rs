//! Applies a model reply to the run.

use toolwright_types::{Message, ModelReply, RequestedCall, StopReason};

use super::depth::limit_arguments_depth;
use super::planned;
use super::run::{AgentRun, Phase};
use crate::{Ending, RunStatus};

/// The message to a model that sent an empty reply.
pub(super) const NUDGE: &str = "Your last reply was empty. Answer, or call a tool.";

/// The maximum number of rejected answers. An answer that does not match the schema is rejected; after the maximum,
/// such an answer fails the run.
pub(super) const MAX_REJECTED_ANSWERS: u32 = 2;

enum NextAction {
    CallTools,
    Nudge,
    RejectAnswer(String),
    End(Ending),
}

pub(super) fn apply_reply(run: &mut AgentRun, reply: ModelReply, schema_error: Option<String>, unchecked: bool) {
    add_usage(run, &reply);
    if run.is_planning() {
        return planned::apply_plan_reply(run, reply, schema_error);
    }
    let reply = if run.plan.is_some() { without_calls(reply) } else { reply };
    let next = match (classify(&reply, run.nudged), schema_error) {
        (NextAction::End(ending), Some(why)) if ending.reason.is_none() && unchecked => {
            NextAction::End(Ending::with_reason(RunStatus::Error, "answer_unchecked", why))
        }
        (NextAction::End(ending), Some(why)) if ending.reason.is_none() => reject_answer(run.rejected_answers, why),
        (next, _) => next,
    };
    let ModelReply { content, tool_calls, thinking, .. } = reply;
    let calls: Vec<RequestedCall> = tool_calls
        .into_iter()
        .map(|call| RequestedCall { arguments: limit_arguments_depth(call.arguments), ..call })
        .collect();
    // While the run continues, its response is the last text that is not empty. When the run ends, its response is the
    // final answer, even an empty one.
    if matches!(next, NextAction::End(_)) || !content.trim().is_empty() {
        run.response.clone_from(&content);
    }
    if !calls.is_empty() || !content.trim().is_empty() {
        run.push_messages([Message::Assistant { content, tool_calls: calls.clone(), thinking }]);
    }
    // The phase is set even if the run ends now: `end` reads it to give every requested call an envelope.
    run.phase = Phase::Preparing(calls);
    match next {
        NextAction::CallTools => {}
        NextAction::Nudge => {
            run.nudged = true;
            prompt_again(run, NUDGE.to_owned());
        }
        NextAction::RejectAnswer(why) => {
            run.rejected_answers += 1;
            prompt_again(
                run,
                format!("Your answer does not match the requested format: {why}. Answer again with JSON only."),
            );
        }
        NextAction::End(ending) => run.end(ending),
    }
}

/// Removes tool calls from a reply that formats the result of a plan. A plan has no calls outside of its sequence.
fn without_calls(reply: ModelReply) -> ModelReply {
    let stop = if reply.stop == StopReason::ToolUse { StopReason::EndTurn } else { reply.stop };
    ModelReply { tool_calls: Vec::new(), stop, ..reply }
}

fn classify(reply: &ModelReply, nudged: bool) -> NextAction {
    if reply.stop == StopReason::Refusal {
        return end("refusal", "the model declined to answer");
    }
    if !reply.tool_calls.is_empty() {
        return NextAction::CallTools;
    }
    match (reply.stop, reply.content.trim().is_empty()) {
        (StopReason::MaxTokens, _) => {
            end("max_tokens", "the answer was truncated because the model ran out of output tokens")
        }
        (_, false) => NextAction::End(Ending::completed()),
        (_, true) if nudged => end("empty_reply", "the model sent two empty replies"),
        (_, true) => NextAction::Nudge,
    }
}

fn end(reason: &str, message: &str) -> NextAction {
    NextAction::End(Ending::with_reason(RunStatus::Completed, reason, message))
}

fn reject_answer(times: u32, why: String) -> NextAction {
    if times < MAX_REJECTED_ANSWERS {
        return NextAction::RejectAnswer(why);
    }
    let message = format!("the answer did not match the requested format {} times: {why}", times.saturating_add(1));
    NextAction::End(Ending::with_reason(RunStatus::Error, "answer_schema", message))
}

fn prompt_again(run: &mut AgentRun, content: String) {
    run.push_messages([Message::User { content }]);
    run.call_model();
}

fn add_usage(run: &mut AgentRun, reply: &ModelReply) {
    run.resource_usage.usage += reply.usage;
    if !run.resource_usage.add_cost(reply.cost_usd) {
        let warning = format!("the price of model `{}` is not known; it counts as 0", run.spec.request.model);
        if !run.warnings.contains(&warning) {
            run.warnings.push(warning);
        }
    }
}
