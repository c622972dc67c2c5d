//! The summary of a workflow run: status, what it waits for, and how to continue it.

use serde_json::Value;
use toolwright_api::wire::{ApprovalView, StepView, WorkflowInstanceView, WorkflowRunView};
use toolwright_machine::workflow::StepStatus;
use toolwright_types::{RunStatus, Timestamp};

use super::progress::{call_ids, status_counts, step_view};
use crate::cli::exit::Exit;
use crate::cli::follow::{format_duration, format_usd, group_thousands, json_lines};
use crate::cli::output::{Output, sanitize, sanitize_line, wrap};
use crate::cli::time::format_second;

/// The exit code for the status of a run.
pub(super) fn exit_code(status: RunStatus) -> Exit {
    match status {
        RunStatus::Completed | RunStatus::Running => Exit::Ok,
        status if is_waiting(status) => Exit::Waiting,
        _ => Exit::Failed,
    }
}

/// Whether a run has not ended and does nothing now.
pub(super) fn is_waiting(status: RunStatus) -> bool {
    matches!(status, RunStatus::AwaitingApproval | RunStatus::AwaitingClient | RunStatus::Waiting | RunStatus::Paused)
}

/// The time at which a waiting run continues without help. `None` if a person or a client must act: a decision, a result, a
/// signal, or to be resumed.
pub(super) fn continues_at(run: &WorkflowRunView) -> Option<Timestamp> {
    let needs_help = !run.approvals.is_empty() || !run.client_actions.is_empty() || !run.waiting_child_runs.is_empty();
    if run.status != RunStatus::Waiting || needs_help || waiting_steps(run).any(|(_, step)| step.signal.is_some()) {
        return None;
    }
    waiting_steps(run).filter_map(|(_, step)| step.wakes_at).min()
}

/// Formats a run: its status, its usage and its id, what it waits for, and its output. Prints the warnings of the run to
/// stderr.
pub(super) fn lines(output: &Output, instance: &WorkflowInstanceView) -> Vec<String> {
    let run = &instance.state;
    for warning in &run.warnings {
        output.note(output.err.warn(format!("! {}", sanitize_line(warning))));
    }
    let paint = output.out;
    let status = run.status.as_str();
    let head = match run.status {
        RunStatus::Completed => paint.good(format!("✓ {status}")),
        status_now if status_now.is_terminal() => paint.bad(format!("✗ {status}")),
        _ => paint.warn(format!("… {status}")),
    };
    let mut lines = vec![format!("{head}  {}", paint.dim(usage(instance)))];
    let reason = [run.reason.as_deref(), run.message.as_deref()];
    let reason: Vec<String> = reason.into_iter().flatten().map(sanitize_line).collect();
    if !reason.is_empty() && run.status != RunStatus::Completed {
        lines.push(wrap(&format!("  {}", reason.join(": ")), output.width, 0));
    }
    lines.push(paint.dim(format!("  {}", sanitize_line(&run.run_id))));
    lines.extend(next_commands(output, run));
    if !run.output.is_null() {
        let text = serde_json::to_string_pretty(&run.output).unwrap_or_default();
        lines.push(String::new());
        lines.push(sanitize(&text));
    }
    lines
}

fn usage(instance: &WorkflowInstanceView) -> String {
    let run = &instance.state;
    let mut parts = vec![status_counts(steps(run).map(|(_, step)| step.status))];
    if run.usage.total() > 0 {
        parts.push(format!("{} tokens", group_thousands(run.usage.total())));
    }
    if run.cost_usd > 0.0 {
        parts.push(format_usd(run.cost_usd));
    }
    if let Some(ended) = instance.origin.ended_at {
        parts.push(format_duration(ended.millis_since(instance.origin.started_at)));
    }
    parts.join(" · ")
}

fn steps(run: &WorkflowRunView) -> impl Iterator<Item = (&String, StepView)> {
    run.steps.keys().filter_map(|name| Some((name, step_view(&run.steps, name)?)))
}

fn waiting_steps(run: &WorkflowRunView) -> impl Iterator<Item = (&String, StepView)> {
    steps(run).filter(|(_, step)| step.status == StepStatus::Waiting)
}

/// Formats what a run waits for, each with the command that continues it.
fn next_commands(output: &Output, run: &WorkflowRunView) -> Vec<String> {
    let (paint, id) = (output.out, sanitize_line(&run.run_id));
    let mut lines = Vec::new();
    let mut wait = |what: String, data: Option<&Value>, commands: &[String]| {
        lines.push(paint.warn(format!("? {what}")));
        lines.extend(data.into_iter().flat_map(json_lines));
        lines.extend(commands.iter().map(|command| format!("  → {command}")));
    };
    for approval in &run.approvals {
        wait(approval_text(run, approval), Some(&approval.input), &approval_commands(approval));
    }
    for action in &run.client_actions {
        let call = sanitize_line(&action.call_id);
        let step = step_of_call(run, &action.call_id);
        let what = format!("{step}waits for the client: {}", sanitize_line(&action.tool_ref));
        let command = format!("toolwright runs results {id} {call} --output JSON");
        wait(what, Some(&action.prepared_payload), &[command]);
    }
    for child in run.waiting_child_runs.iter().filter(|child| child.status != RunStatus::AwaitingApproval) {
        let (child_id, step) = (sanitize_line(&child.run_id), step_of_call(run, &child.call_id));
        let what = format!("{step}waits for the child run {child_id}, which is {}", child.status);
        let command = match child.status {
            RunStatus::AwaitingClient => format!("toolwright runs get {child_id}"),
            _ => format!("toolwright workflow-instances get {child_id}"),
        };
        wait(what, None, &[command]);
    }
    for (name, step) in waiting_steps(run) {
        if let Some(signal) = &step.signal {
            let signal = sanitize_line(signal);
            let command = format!("toolwright workflow-instances signal {id} {} --data JSON", shell_word(&signal));
            wait(format!("{} waits for the signal {signal}", sanitize_line(name)), None, &[command]);
        } else if let (Some(at), true) = (step.wakes_at, call_ids(&step).all(|call| !is_open(run, call))) {
            let what = format!("{} continues at {}", sanitize_line(name), format_second(at));
            wait(what, None, &[format!("toolwright workflow-instances watch {id}")]);
        }
    }
    if run.paused && !run.status.is_terminal() {
        wait("the run is paused".to_owned(), None, &[format!("toolwright workflow-instances resume {id}")]);
    }
    if run.status == RunStatus::Error {
        lines.push(format!("  → toolwright workflow-instances retry {id}"));
    }
    lines
}

fn approval_text(run: &WorkflowRunView, approval: &ApprovalView) -> String {
    if approval.run_id == run.run_id {
        let step = step_of_call(run, &approval.call_id);
        return format!("{step}waits for approval: {}", sanitize_line(&approval.tool_ref));
    }
    let (agent, tool) = (sanitize_line(&approval.agent_ref), sanitize_line(&approval.tool_ref));
    format!("{agent} waits for approval in {}: {tool}", sanitize_line(&approval.run_id))
}

fn approval_commands(approval: &ApprovalView) -> [String; 2] {
    let (run, call) = (sanitize_line(&approval.run_id), sanitize_line(&approval.call_id));
    [format!("toolwright runs approve {run} {call}"), format!("toolwright runs deny {run} {call} --reason TEXT")]
}

/// The name of the step that made a call, and a space.
fn step_of_call(run: &WorkflowRunView, call: &str) -> String {
    let step = steps(run).find(|(_, step)| call_ids(step).any(|one| one == call));
    step.map(|(name, _)| format!("{} ", sanitize_line(name))).unwrap_or_default()
}

/// Whether a call waits for a person, a client or a child run.
fn is_open(run: &WorkflowRunView, call: &str) -> bool {
    run.approvals.iter().any(|approval| approval.call_id == call)
        || run.client_actions.iter().any(|action| action.call_id == call)
        || run.waiting_child_runs.iter().any(|child| child.call_id == call)
}

/// Quotes a word for a shell, if it has characters with a meaning.
fn shell_word(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:@".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}
