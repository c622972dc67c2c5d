//! How a run ended, in two lines and a number.

use toolwright_types::RunStatus;

use super::timeline::duration;
use super::wire::Report;
use crate::cli::exit::Exit;
use crate::cli::output::{Output, plain};

/// How it ended and what it took; then what it is called. Warnings go to stderr.
pub fn ending(output: &Output, report: &Report) -> Vec<String> {
    for warning in &report.warnings {
        output.note(output.err.warn(format!("! {}", plain(warning))));
    }
    let paint = output.out;
    let status = report.status.as_str();
    let head = match report.status {
        RunStatus::Completed => paint.good(format!("✓ {status}")),
        RunStatus::Running | RunStatus::AwaitingApproval | RunStatus::AwaitingClient => {
            paint.warn(format!("… {status}"))
        }
        _ => paint.bad(format!("✗ {status}")),
    };
    let spent = paint.dim(spent(report));
    let mut lines = match why(report) {
        Some(why) => vec![format!("{head}  {why}"), format!("  {spent}")],
        None => vec![format!("{head}  {spent}")],
    };
    let conversation = report.conversation_id.as_deref().map(|id| format!("  {}", plain(id))).unwrap_or_default();
    lines.push(paint.dim(format!("  {}{conversation}", plain(&report.run_id))));
    lines
}

/// What it means for a script.
pub fn exit(report: &Report) -> Exit {
    match report.status {
        RunStatus::Completed | RunStatus::Running => Exit::Ok,
        RunStatus::AwaitingApproval | RunStatus::AwaitingClient => Exit::Waiting,
        _ => Exit::Failed,
    }
}

fn why(report: &Report) -> Option<String> {
    let word = report.reason.as_deref().map(plain);
    let message = report.message.as_deref().map(plain);
    match (word, message) {
        (Some(word), Some(message)) if !message.starts_with(&word) => Some(format!("{word}: {message}")),
        (Some(_), Some(message)) => Some(message),
        (word, message) => word.or(message),
    }
}

/// What it took.
pub fn spent(report: &Report) -> String {
    let mut parts = vec![counted(u64::from(report.iterations_used), "model call")];
    let calls = report.calls().count();
    if calls > 0 {
        parts.push(counted(calls as u64, "tool call"));
    }
    let usage = report.usage;
    let (read, written) = (thousands(usage.input_tokens), thousands(usage.output_tokens));
    parts.push(format!("{} ({read} in, {written} out)", counted(usage.total(), "token")));
    if report.cost_usd > 0.0 {
        parts.push(dollars(report.cost_usd));
    }
    if let (Some(began), Some(ended)) = (report.started_at, report.ended_at) {
        parts.push(duration(ended.millis_since(began)));
    }
    parts.join(" · ")
}

/// An amount of money; small ones are not rounded away.
pub fn dollars(amount: f64) -> String {
    match amount {
        amount if amount >= 1.0 => format!("${amount:.2}"),
        amount if amount >= 0.0001 => format!("${amount:.4}"),
        amount => format!("${amount:.6}"),
    }
}

/// A number of something.
pub fn counted(number: u64, one: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {one}{plural}", thousands(number))
}

/// A number with its thousands kept apart.
fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut apart = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            apart.push(',');
        }
        apart.push(digit);
    }
    apart
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn report(changes: serde_json::Value) -> Report {
        let mut whole = json!({
            "runId": "run_1", "conversationId": "cnv_1", "responseText": "done", "status": "COMPLETED",
            "iterationsUsed": 2, "usage": { "inputTokens": 1204, "outputTokens": 88 }, "costUsd": 0.00312,
            "outputs": { "tools_by_id": {}, "tool_order": [] },
            "startedAt": "2026-11-15T05:00:00Z", "endedAt": "2026-11-15T05:00:02.150Z",
        });
        for (key, value) in changes.as_object().unwrap() {
            whole[key] = value.clone();
        }
        serde_json::from_value(whole).unwrap()
    }

    #[test]
    fn an_ending_says_what_it_took() {
        let output = Output::plain();
        let lines = ending(&output, &report(json!({})));
        assert_eq!(
            lines,
            ["✓ COMPLETED  2 model calls · 1,292 tokens (1,204 in, 88 out) · $0.0031 · 2.1 s", "  run_1  cnv_1"]
        );
        let failed = report(
            json!({ "status": "BUDGET_EXCEEDED", "reason": "max_tool_calls", "message": "3 of 3", "costUsd": 0 }),
        );
        let lines = ending(&output, &failed);
        assert_eq!(lines[0], "✗ BUDGET_EXCEEDED  max_tool_calls: 3 of 3");
        assert_eq!(lines[1], "  2 model calls · 1,292 tokens (1,204 in, 88 out) · 2.1 s");
        assert_eq!(exit(&failed), Exit::Failed);
    }

    #[test]
    fn a_run_that_waits_is_neither_done_nor_failed() {
        assert_eq!(exit(&report(json!({ "status": "AWAITING_APPROVAL" }))), Exit::Waiting);
        assert_eq!(exit(&report(json!({ "status": "CANCELLED" }))), Exit::Failed);
    }

    #[test]
    fn numbers_are_readable() {
        assert_eq!(
            [thousands(0), thousands(999), thousands(1_000), thousands(1_234_567)],
            ["0", "999", "1,000", "1,234,567"]
        );
        assert_eq!([dollars(12.3), dollars(0.05), dollars(0.000_012)], ["$12.30", "$0.0500", "$0.000012"]);
    }
}
