//! The summary of a run in text form, and its exit code.

use toolwright_api::wire::{AgentResponseView, RunOriginView};
use toolwright_machine::AgentOutputs;
use toolwright_machine::view::{InvocationStatus, ToolCallEntry, ToolInvocation};
use toolwright_types::{ErrorCode, RunStatus};

use super::timeline::format_duration;
use crate::cli::exit::Exit;
use crate::cli::output::{Output, sanitize_line};

/// Formats the status, the usage and the ids of a run as lines. Prints the warnings of the run to stderr.
pub(crate) fn summary_lines(output: &Output, state: &AgentResponseView, origin: Option<&RunOriginView>) -> Vec<String> {
    for warning in &state.warnings {
        output.note(output.err.warn(format!("! {}", sanitize_line(warning))));
    }
    let paint = output.out;
    let status = state.response.status.as_str();
    let head = match state.response.status {
        RunStatus::Completed => paint.good(format!("✓ {status}")),
        status_now if status_now.is_terminal() => paint.bad(format!("✗ {status}")),
        _ => paint.warn(format!("… {status}")),
    };
    let usage_summary = paint.dim(usage_summary(state, origin));
    let mut lines = match reason_text(state) {
        Some(reason_text) => vec![format!("{head}  {reason_text}"), format!("  {usage_summary}")],
        None => vec![format!("{head}  {usage_summary}")],
    };
    let conversation =
        state.conversation_id.as_deref().map(|id| format!("  {}", sanitize_line(id))).unwrap_or_default();
    lines.push(paint.dim(format!("  {}{conversation}", sanitize_line(&state.run_id))));
    lines
}

/// Returns the exit code for the status of a run.
pub(crate) fn exit_code(state: &AgentResponseView) -> Exit {
    match state.response.status {
        RunStatus::Completed | RunStatus::Running => Exit::Ok,
        status if status.is_terminal() => Exit::Failed,
        _ => Exit::Waiting,
    }
}

/// Returns whether a run waits for an approval or a client.
pub(crate) fn is_waiting(state: &AgentResponseView) -> bool {
    matches!(state.response.status, RunStatus::AwaitingApproval | RunStatus::AwaitingClient)
}

/// Returns those calls of a run that have ended.
pub(crate) fn ended_calls(state: &AgentResponseView) -> impl Iterator<Item = &ToolInvocation> {
    state.response.tool_calls.iter().map(|entry| &entry.invocation).filter(|call| call.status.is_some())
}

/// Returns whether a tool was called. A call that the schema, a limit, a policy or a person refused does not count
/// towards the limit of tool calls.
fn was_called(entry: &ToolCallEntry, outputs: &AgentOutputs) -> bool {
    let envelope = outputs.tools_by_id.get(&entry.call.call_id);
    let invalid_input = envelope.is_some_and(|envelope| {
        let error = envelope.error.as_ref();
        error.is_some_and(|error| error.code == ErrorCode::ValidationError) && envelope.metadata.attempt == 0
    });
    let skipped = [Some(InvocationStatus::Skipped), Some(InvocationStatus::PermissionDenied)];
    !invalid_input && !skipped.contains(&entry.invocation.status)
}

fn reason_text(state: &AgentResponseView) -> Option<String> {
    let reason = state.response.reason.as_deref().map(sanitize_line);
    let message = state.message.as_deref().map(sanitize_line);
    match (reason, message) {
        (Some(reason), Some(message)) if !message.starts_with(&reason) => Some(format!("{reason}: {message}")),
        (Some(_), Some(message)) => Some(message),
        (reason, message) => reason.or(message),
    }
}

/// Formats calls, tokens, cost and duration of a run.
pub(crate) fn usage_summary(state: &AgentResponseView, origin: Option<&RunOriginView>) -> String {
    let mut parts = vec![pluralize(u64::from(state.response.iterations_used), "model call")];
    let ended = state.response.tool_calls.iter().filter(|entry| entry.invocation.status.is_some());
    let (calls, refused): (Vec<_>, Vec<_>) = ended.partition(|entry| was_called(entry, &state.outputs));
    if !calls.is_empty() {
        parts.push(pluralize(calls.len() as u64, "tool call"));
    }
    if !refused.is_empty() {
        parts.push(format!("{} not called", group_thousands(refused.len() as u64)));
    }
    let usage = state.usage;
    let (input, output) = (group_thousands(usage.input_tokens), group_thousands(usage.output_tokens));
    parts.push(format!("{} ({input} in, {output} out)", pluralize(usage.total(), "token")));
    if state.cost_usd > 0.0 {
        parts.push(format_usd(state.cost_usd));
    }
    if let Some((origin, ended)) = origin.and_then(|origin| Some((origin, origin.ended_at?))) {
        parts.push(format_duration(ended.millis_since(origin.started_at)));
    }
    parts.join(" · ")
}

/// Formats an amount in US dollars; small amounts keep more decimals.
pub(crate) fn format_usd(amount: f64) -> String {
    match amount {
        amount if amount >= 1.0 => format!("${amount:.2}"),
        amount if amount >= 0.0001 => format!("${amount:.4}"),
        amount => format!("${amount:.6}"),
    }
}

/// Formats a count with its noun in singular or plural.
pub(crate) fn pluralize(number: u64, one: &str) -> String {
    let number_text = group_thousands(number);
    match one.strip_suffix('y') {
        _ if number == 1 => format!("{number_text} {one}"),
        Some(stem) => format!("{number_text} {stem}ies"),
        None => format!("{number_text} {one}s"),
    }
}

/// Formats a number with thousands separators.
pub(crate) fn group_thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use toolwright_api::wire::RunView;

    use super::*;

    fn run(changes: serde_json::Value) -> RunView {
        let mut whole = json!({
            "id": "run_1", "kind": "agent", "subject": "a", "durable": false, "runId": "run_1", "conversationId": "cnv_1", "responseText": "done", "status": "COMPLETED",
            "iterationsUsed": 2, "usage": { "inputTokens": 1204, "outputTokens": 88 }, "costUsd": 0.00312,
            "outputs": { "response": "done", "tools_by_id": {}, "tool_order": [] }, "toolCalls": [], "tokensUsed": 1292,
            "pins": {}, "clientActions": [], "approvals": [], "owner": "admin", "principal": "admin",
            "startedAt": "2026-11-15T05:00:00Z", "endedAt": "2026-11-15T05:00:02.150Z",
        });
        for (key, value) in changes.as_object().unwrap() {
            whole[key] = value.clone();
        }
        serde_json::from_value(whole).unwrap()
    }

    #[test]
    fn run_summary_shows_status_usage_cost_and_ids() {
        let (output, done) = (Output::for_tests(), run(json!({})));
        let lines = summary_lines(&output, &done.state, Some(&done.origin));
        assert_eq!(
            lines,
            ["✓ COMPLETED  2 model calls · 1,292 tokens (1,204 in, 88 out) · $0.0031 · 2.1 s", "  run_1  cnv_1"]
        );
        let failed =
            run(json!({ "status": "BUDGET_EXCEEDED", "reason": "max_tool_calls", "message": "3 of 3", "costUsd": 0 }));
        let lines = summary_lines(&output, &failed.state, Some(&failed.origin));
        assert_eq!(lines[0], "✗ BUDGET_EXCEEDED  max_tool_calls: 3 of 3");
        assert_eq!(lines[1], "  2 model calls · 1,292 tokens (1,204 in, 88 out) · 2.1 s");
        assert_eq!(exit_code(&failed.state), Exit::Failed);
    }

    #[test]
    fn exit_codes_of_waiting_and_failed_runs_differ() {
        assert_eq!(exit_code(&run(json!({ "status": "AWAITING_APPROVAL" })).state), Exit::Waiting);
        assert_eq!(exit_code(&run(json!({ "status": "WAITING" })).state), Exit::Waiting);
        assert_eq!(exit_code(&run(json!({ "status": "CANCELLED" })).state), Exit::Failed);
    }

    #[test]
    fn counts_have_thousands_separators_and_small_costs_have_more_decimals() {
        assert_eq!(
            [group_thousands(0), group_thousands(999), group_thousands(1_000), group_thousands(1_234_567)],
            ["0", "999", "1,000", "1,234,567"]
        );
        assert_eq!([format_usd(12.3), format_usd(0.05), format_usd(0.000_012)], ["$12.30", "$0.0500", "$0.000012"]);
    }
}
