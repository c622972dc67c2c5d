//! Implements `agentic-tools history` and `logs`.

use serde_json::Value;
use toolwright_api::wire::{
    ExecutionStatus, ExecutionSummaryView, ExecutionView, LlmCallView, ToolCallView, merge_calls,
};
use toolwright_types::RunStatus;

use crate::cli::Context;
use crate::cli::client::{AGENTIC_TOOLS, parse_name, path};
use crate::cli::exit::Exit;
use crate::cli::failure::Failure;
use crate::cli::fields::{self, text, wire_name};
use crate::cli::follow::{format_duration, format_input, format_usd, group_thousands, json_lines, pluralize};
use crate::cli::output::{Output, sanitize, sanitize_line, wrap};
use crate::cli::pages::{List, PageArgs};
use crate::cli::table::{Table, truncate};
use crate::cli::time::format_minute;
use crate::cli::tools::error_lines;

use super::{execution_path, trace};

/// Arguments of `agentic-tools history`.
#[derive(clap::Args)]
pub(crate) struct HistoryArgs {
    /// refName or ID of the agentic tool
    #[arg(value_name = "REF", value_parser = parse_name)]
    reference: String,
    #[command(flatten)]
    page: PageArgs,
    /// Filter by status
    #[arg(long, value_parser = ["running", "success", "error", "timeout"])]
    status: Option<String>,
}

/// Arguments of `agentic-tools logs`.
#[derive(clap::Args)]
pub(crate) struct LogsArgs {
    /// refName or ID of the agentic tool
    #[arg(value_name = "REF", value_parser = parse_name)]
    reference: String,
    /// Execution ID, such as run_…
    #[arg(value_name = "EXECUTION", value_parser = parse_name)]
    execution: String,
    /// Also print the prompts and the replies of the model, and the complete inputs and outputs of tools
    #[arg(short, long)]
    verbose: bool,
}

/// Lists the executions of an agentic tool.
pub(super) async fn list(cx: &Context, args: HistoryArgs) -> Result<Exit, Failure> {
    let collection = format!("{}/executions", path(AGENTIC_TOOLS, &args.reference));
    let query = args.status.map(|status| ("status", status)).into_iter().collect();
    let list = List { collection: &collection, query, empty_message: "no executions found" };
    list.show(cx, &args.page, table).await?;
    Ok(Exit::Ok)
}

fn table(executions: &[ExecutionSummaryView]) -> Table {
    let header = ["EXECUTION", "STATUS", "STARTED", "TASK", "COST", "TOKENS", "DURATION", "REASON"];
    // The status and the time are short, so they are never truncated, like the id.
    let mut table = Table::new(header).with_ids(3);
    for execution in executions {
        table.row([
            &execution.id,
            &status(execution),
            &format_minute(execution.created_at),
            execution.task.as_deref().unwrap_or_default(),
            &usd(execution.total_cost),
            &group_thousands(execution.total_tokens),
            &format_duration(execution.duration_ms),
            execution.reason.as_deref().unwrap_or_default(),
        ]);
    }
    table
}

/// Returns the status of an execution. If the execution waits, the status says what it waits for.
fn status(execution: &ExecutionSummaryView) -> String {
    match (execution.status, execution.run_status) {
        (ExecutionStatus::Running, RunStatus::AwaitingApproval) => "awaiting_approval".to_owned(),
        (ExecutionStatus::Running, RunStatus::AwaitingClient) => "awaiting_client".to_owned(),
        (status, _) => wire_name(status),
    }
}

fn usd(cost: f64) -> String {
    if cost > 0.0 { format_usd(cost) } else { "-".to_owned() }
}

/// Shows an execution.
pub(super) async fn show(cx: &Context, args: &LogsArgs) -> Result<Exit, Failure> {
    let response = cx.client.get(&execution_path(&args.reference, &args.execution), &[]).await?;
    if cx.output.json {
        cx.output.document(response.text.trim_end())?;
        return Ok(Exit::Ok);
    }
    let execution: ExecutionView = response.read()?;
    let out = &cx.output;
    show_head(out, &execution)?;
    section(out, "request", json_lines(&execution.parent_request))?;
    if let Some(plan) = &execution.execution_plan {
        section(out, "plan", plan_lines(out, plan, &execution, args.verbose))?;
    }
    section(out, "calls", call_lines(out, &execution, args.verbose))?;
    match &execution.error {
        Some(error) => {
            let message = out.out.bad(format!("  {}  {}", error.code, sanitize_line(&error.message)));
            let details = error_lines(error, None).into_iter().map(|line| format!("  {line}"));
            section(out, "error", std::iter::once(wrap(&message, out.width, 2)).chain(details).collect())?;
        }
        None if execution.summary.status == ExecutionStatus::Success => {
            section(out, "result", json_lines(&execution.result))?;
        }
        None => {}
    }
    if !execution.cost_breakdown.llm_calls.is_empty() || !execution.cost_breakdown.action_calls.is_empty() {
        out.line(out.out.dim("\ncost"))?;
        out.lines(cost_table(&execution).lines(out.out, out.width).into_iter().map(|line| format!("  {line}")))?;
    }
    for warning in &execution.warnings {
        out.note(out.err.warn(format!("! {}", sanitize_line(warning))));
    }
    if execution.summary.run_status == RunStatus::AwaitingApproval {
        let id = sanitize_line(&execution.summary.id);
        out.note(out.err.dim(format!("`toolwright runs get {id}` shows the calls that wait for approval")));
    }
    Ok(Exit::Ok)
}

fn show_head(out: &Output, execution: &ExecutionView) -> Result<(), Failure> {
    let summary = &execution.summary;
    let reason = summary.reason.as_deref().map(|reason| format!("  {reason}")).unwrap_or_default();
    let status = sanitize_line(&format!("{}{reason}", status(summary)));
    let status = match summary.status {
        ExecutionStatus::Success => out.out.good(format!("✓ {status}")),
        ExecutionStatus::Running => out.out.warn(format!("… {status}")),
        ExecutionStatus::Error | ExecutionStatus::Timeout => out.out.bad(format!("✗ {status}")),
    };
    let cost =
        trace::usage_summary(&trace::steps(execution), summary.total_tokens, summary.total_cost, summary.duration_ms);
    out.line(format!("{}  {status}", sanitize_line(&summary.agentic_tool)))?;
    fields::print_labeled(
        out,
        &[
            ("execution", sanitize_line(&summary.id)),
            ("called by", sanitize_line(summary.parent_run_id.as_deref().unwrap_or_default())),
            ("mode", execution.mode.as_str().to_owned()),
            ("model", sanitize_line(&execution.model)),
            ("started", format_minute(summary.created_at)),
            ("usage", cost),
        ],
    )
}

fn section(out: &Output, title: &str, lines: Vec<String>) -> Result<(), Failure> {
    if !lines.is_empty() {
        out.line(out.out.dim(format!("\n{title}")))?;
        out.lines(lines)?;
    }
    Ok(())
}

/// Formats the steps of a plan, with their outcomes.
fn plan_lines(out: &Output, plan: &Value, execution: &ExecutionView, verbose: bool) -> Vec<String> {
    let mut lines = Vec::new();
    let reasoning = text(plan, "reasoning");
    if !reasoning.is_empty() {
        lines.push(wrap(&format!("  {reasoning}"), out.width, 0));
    }
    for step in plan.get("steps").and_then(Value::as_array).into_iter().flatten() {
        let number = text(step, "step");
        let report = execution.steps.iter().find(|report| report.step.to_string() == number);
        let outcome = report.map(|report| {
            let failed = if report.failed > 0 { format!(", {} failed", report.failed) } else { String::new() };
            let calls = pluralize(report.calls as u64, "call");
            format!("  {}  {}, {calls}{failed}", sanitize_line(&report.tool), report.status.as_str())
        });
        lines.push(format!("  {number}.{}", outcome.unwrap_or_default()));
        for (name, label) in [("when", "when"), ("forEach", "for each")] {
            let value = text(step, name);
            if !value.is_empty() {
                lines.push(labeled(out, label, &value, verbose));
            }
        }
        for name in ["parameters", "paging"] {
            if let Some(value) = step.get(name).filter(|value| !value.is_null()) {
                lines.extend(value_lines(out, name, value, verbose));
            }
        }
    }
    lines
}

/// Formats the calls to the model and to tools in the order of their start.
fn call_lines(out: &Output, execution: &ExecutionView, verbose: bool) -> Vec<String> {
    let model = execution.llm_calls.iter().map(|call| (call.created_at, model_call_lines(out, call, verbose)));
    let tools = execution.tool_calls.iter().map(|call| (call.created_at, tool_call_lines(out, call, verbose)));
    let numbered = |(index, mut lines): (usize, Vec<String>)| {
        if let Some(head) = lines.first_mut() {
            *head = format!("[{}] {head}", index + 1);
        }
        lines
    };
    merge_calls(model, tools).into_iter().enumerate().flat_map(numbered).collect()
}

fn model_call_lines(out: &Output, call: &LlmCallView, verbose: bool) -> Vec<String> {
    let amounts = trace::amounts(None, call.cost, call.latency_ms);
    let usage = out.out.dim(format!("{} · {amounts}", trace::tokens(call.tokens_input, call.tokens_output)));
    let decision = sanitize_line(&call.decision);
    let mut lines = vec![format!("{}  {decision}  {usage}", trace::model_label(&call.purpose))];
    if verbose {
        lines.extend(text_lines(out, "prompt", &call.prompt));
        lines.extend(text_lines(out, "reply", &call.response));
    }
    if let Some(reasoning) = &call.reasoning {
        lines.push(labeled(out, "reasoning", reasoning, verbose));
    }
    lines
}

fn tool_call_lines(out: &Output, call: &ToolCallView, verbose: bool) -> Vec<String> {
    let paint = out.out;
    let failed = call.status != "success";
    let status = sanitize_line(&call.status);
    let status = if failed { paint.bad(status) } else { paint.good(status) };
    let version = sanitize_line(&call.version);
    let head = format!("{}@{version}", trace::tool_label(&call.action_slug));
    let mut lines = vec![format!("{head}  {status}  {}", paint.dim(trace::amounts(None, call.cost, call.latency_ms)))];
    lines.extend(value_lines(out, "parameters", &call.parameters, verbose));
    if let Some(error) = &call.error {
        lines.push(labeled(out, "error", &format!("{}  {}", error.code, error.message), verbose));
        lines.extend(error_lines(error, None).into_iter().map(|line| format!("  {line}")));
    }
    if verbose {
        lines.extend(value_lines(out, "response", &call.response, true));
        lines.push(labeled(out, "call", &call.call_id, true));
    }
    lines
}

/// Formats a value. Unless `complete` is set, the value is shortened to one line of the terminal.
fn value_lines(out: &Output, label: &str, value: &Value, complete: bool) -> Vec<String> {
    if complete && (value.is_object() || value.is_array()) {
        let lines = json_lines(value).into_iter().map(|line| format!("    {line}"));
        return std::iter::once(out.out.dim(format!("    {label}"))).chain(lines).collect();
    }
    vec![labeled(out, label, &format_input(value), complete)]
}

/// Formats a text with a label on one line. Unless `complete` is set, the line is shortened to the width of the
/// terminal.
fn labeled(out: &Output, label: &str, value: &str, complete: bool) -> String {
    let value = sanitize_line(value);
    let used = label.len() + 6;
    let value = match out.width.filter(|_| !complete) {
        Some(width) => truncate(&value, width.saturating_sub(used)),
        None => value,
    };
    wrap(&format!("    {}  {value}", out.out.dim(label)), out.width, 2)
}

/// Formats a text of several lines below its label.
fn text_lines(out: &Output, label: &str, value: &str) -> Vec<String> {
    let text = sanitize(value);
    let lines = text.trim_end().lines().map(|line| wrap(&format!("      {line}"), out.width, 0));
    std::iter::once(out.out.dim(format!("    {label}"))).chain(lines).collect()
}

/// Tabulates the cost of an execution: of model calls by purpose, and of tool calls by tool.
fn cost_table(execution: &ExecutionView) -> Table {
    let costs = &execution.cost_breakdown;
    let mut rows: Vec<(String, usize, u64, f64)> = Vec::new();
    let mut add = |label: String, tokens: u64, cost: f64| match rows.iter_mut().find(|row| row.0 == label) {
        Some(row) => (row.1, row.2, row.3) = (row.1 + 1, row.2 + tokens, row.3 + cost),
        None => rows.push((label, 1, tokens, cost)),
    };
    for call in &costs.llm_calls {
        add(trace::model_label(&call.purpose), call.tokens_input + call.tokens_output, call.cost);
    }
    for call in &costs.action_calls {
        add(trace::tool_label(&call.action_slug), call.tokens.unwrap_or_default(), call.cost);
    }
    let calls = costs.llm_calls.len() + costs.action_calls.len();
    rows.push(("total".to_owned(), calls, costs.total_tokens, costs.total_cost));
    let mut table = Table::new(["CALL", "COUNT", "TOKENS", "COST"]);
    for (label, count, tokens, cost) in rows {
        let tokens = if tokens > 0 { group_thousands(tokens) } else { "-".to_owned() };
        table.row([&label, &count.to_string(), &tokens, &usd(cost)]);
    }
    table
}
