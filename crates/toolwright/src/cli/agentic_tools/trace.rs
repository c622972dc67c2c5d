//! Formats the calls of an execution: to the model and to tools. Does no IO.

use toolwright_api::wire::{ExecutionView, TraceStep, merge_calls};

use crate::cli::follow::{format_duration, format_usd, group_thousands, pluralize};
use crate::cli::output::{Paint, sanitize_line};

/// Formats each call on one line.
pub(super) fn lines(steps: &[TraceStep], paint: Paint) -> Vec<String> {
    let labels: Vec<String> = steps.iter().map(label).collect();
    let width = labels.iter().map(|label| label.chars().count()).max().unwrap_or_default();
    let digits = steps.len().to_string().len() + 2;
    let line = |(index, (step, label)): (usize, (&TraceStep, &String))| {
        let number = format!("{:>digits$}", format!("[{}]", index + 1));
        let failed = step.status.as_deref() == Some("error");
        let (mark, label) = (if failed { paint.bad("  ✗") } else { String::new() }, format!("{label:<width$}"));
        format!("{number} {label}  {}{mark}", paint.dim(amounts(step.tokens, step.cost, step.latency_ms)))
    };
    steps.iter().zip(&labels).enumerate().map(line).collect()
}

/// The calls of an execution, in the order of their start.
pub(super) fn steps(execution: &ExecutionView) -> Vec<TraceStep> {
    let model = execution.llm_calls.iter().map(|call| {
        let step = TraceStep {
            kind: "llm_call".to_owned(),
            purpose: Some(call.purpose.clone()),
            action: None,
            tokens: Some(call.tokens_input + call.tokens_output),
            cost: call.cost,
            latency_ms: call.latency_ms,
            status: None,
        };
        (call.created_at, step)
    });
    let tools = execution.tool_calls.iter().map(|call| {
        let step = TraceStep {
            kind: "tool_call".to_owned(),
            purpose: None,
            action: Some(call.action_slug.clone()),
            tokens: None,
            cost: call.cost,
            latency_ms: call.latency_ms,
            status: Some(call.status.clone()),
        };
        (call.created_at, step)
    });
    merge_calls(model, tools)
}

/// Formats the number of calls, the tokens, the cost and the duration of an execution.
pub(super) fn usage_summary(steps: &[TraceStep], tokens: u64, cost: f64, millis: u64) -> String {
    let tools = steps.iter().filter(|step| step.action.is_some()).count();
    let counts = [(steps.len() - tools, "model call"), (tools, "tool call")];
    let counts = counts.into_iter().filter(|(count, _)| *count > 0);
    let counts = counts.map(|(count, noun)| pluralize(count as u64, noun));
    counts.chain([amounts(Some(tokens), cost, millis)]).collect::<Vec<_>>().join(" · ")
}

/// Formats tokens, cost and duration. A cost of 0 is omitted, because the price may be unknown.
pub(super) fn amounts(tokens: Option<u64>, cost: f64, millis: u64) -> String {
    let tokens = tokens.map(|tokens| pluralize(tokens, "token"));
    let cost = (cost > 0.0).then(|| format_usd(cost));
    tokens.into_iter().chain(cost).chain([format_duration(millis)]).collect::<Vec<_>>().join(" · ")
}

/// Formats the tokens of a model call: the total, the input and the output.
pub(super) fn tokens(input: u64, output: u64) -> String {
    let (sent, received) = (group_thousands(input), group_thousands(output));
    format!("{} ({sent} in, {received} out)", pluralize(input + output, "token"))
}

fn label(step: &TraceStep) -> String {
    match (&step.action, &step.purpose) {
        (Some(tool), _) => tool_label(tool),
        (None, purpose) => model_label(purpose.as_deref().unwrap_or_default()),
    }
}

/// The label of a call to a tool.
pub(super) fn tool_label(tool: &str) -> String {
    format!("Tool call: {}", sanitize_line(tool))
}

/// The label of a call to the model.
pub(super) fn model_label(purpose: &str) -> String {
    format!("LLM {}", sanitize_line(&purpose.replace('_', " ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model(purpose: &str, tokens: u64, cost: f64) -> TraceStep {
        let purpose = Some(purpose.to_owned());
        let kind = "llm_call".to_owned();
        TraceStep { kind, purpose, action: None, tokens: Some(tokens), cost, latency_ms: 1_234, status: None }
    }

    fn tool(name: &str, status: &str) -> TraceStep {
        let (kind, action, status) = ("tool_call".to_owned(), Some(name.to_owned()), Some(status.to_owned()));
        TraceStep { kind, purpose: None, action, tokens: None, cost: 0.0, latency_ms: 456, status }
    }

    #[test]
    fn calls_are_numbered_and_aligned_and_failed_calls_are_marked() {
        let steps = [
            model("planning", 1_234, 0.002),
            tool("crm/search", "success"),
            model("error_recovery", 9, 0.0),
            tool("crm/update", "error"),
        ];
        let expected = [
            "[1] LLM planning           1,234 tokens · $0.0020 · 1.2 s",
            "[2] Tool call: crm/search  456 ms",
            "[3] LLM error recovery     9 tokens · 1.2 s",
            "[4] Tool call: crm/update  456 ms  ✗",
        ];
        assert_eq!(lines(&steps, Paint::none()), expected);
        assert_eq!(
            usage_summary(&steps, 1_243, 0.002, 3_200),
            "2 model calls · 2 tool calls · 1,243 tokens · $0.0020 · 3.2 s"
        );
        assert_eq!(usage_summary(&[], 0, 0.0, 4), "0 tokens · 4 ms");
    }
}
