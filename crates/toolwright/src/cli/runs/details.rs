//! Prints the journal of a run for `runs get -v`: the message of the user, the replies of the model, and the inputs and
//! outputs of the calls, with the numbers of the entries.

use serde_json::Value;
use toolwright_api::wire::JournalEntryView;
use toolwright_machine::view::InvocationStatus;

use super::closed_calls::{ClosedCall, ClosedCalls};
use super::journal::JournalPages;
use crate::cli::Context;
use crate::cli::failure::Failure;
use crate::cli::follow::format_duration;
use crate::cli::output::{Paint, sanitize, sanitize_line};

/// The page size of requests.
const PAGE: u32 = 100;

/// Prints the entries of a run, except those that only record progress, and each call at the entry that closes it. Each
/// page is printed before the next one is requested.
pub(super) async fn print(cx: &Context, run: &str) -> Result<(), Failure> {
    let mut pages = JournalPages::new(run, 1, None);
    let (mut forkable, mut calls) = (Vec::new(), ClosedCalls::default());
    while let Some(page) = pages.next(cx, PAGE).await? {
        for entry in &page {
            let closed = calls.apply(entry);
            cx.output.lines(entry_lines(entry, &closed, cx.output.out))?;
        }
        forkable.extend(page.iter().filter(|entry| entry.can_fork).map(|entry| entry.n));
    }
    if !calls.is_complete() {
        cx.output.note(cx.output.err.warn("! another release wrote this journal; calls without a result are missing"));
    }
    let hints = fork_hints(run, &forkable, &calls).into_iter().map(|hint| cx.output.out.dim(hint));
    Ok(cx.output.lines(hints)?)
}

/// Returns where the run can be forked, and which of these forks need `--send-writes`.
fn fork_hints(run: &str, forkable: &[u64], calls: &ClosedCalls) -> Vec<String> {
    if forkable.is_empty() {
        return vec!["no entry of this run can be forked".to_owned()];
    }
    let mut hints = vec![format!("`toolwright runs fork {run} --at ENTRY` works with {}", ranges(forkable))];
    if !calls.is_complete() {
        hints.push("a fork before a write needs `--send-writes`".to_owned());
        return hints;
    }
    let before = |end: Option<u64>| forkable.partition_point(|n| end.is_some_and(|end| *n < end));
    let (sure, may) = forkable.split_at(before(calls.last_write));
    if !sure.is_empty() {
        let entries = ranges(sure);
        hints.push(format!("with {entries} it needs `--send-writes`, because the run made a write later"));
    }
    let may = may.get(..before(calls.last_child_run).saturating_sub(sure.len())).unwrap_or_default();
    if !may.is_empty() {
        hints.push(format!("with {} it needs `--send-writes` if a child run made a write later", ranges(may)));
    }
    hints
}

/// Formats an entry and the calls that it closes. Returns no lines for an entry that only records progress.
fn entry_lines(entry: &JournalEntryView, closed: &[ClosedCall], paint: Paint) -> Vec<String> {
    let body = &entry.body;
    let took = entry.duration_ms.map(|millis| format!("  {}", format_duration(millis))).unwrap_or_default();
    let tool = sanitize_line(entry.tool_ref.as_deref().unwrap_or_default());
    let call = entry.call_id.as_deref().map(|id| format!("  {}", sanitize_line(id))).unwrap_or_default();
    let head = |what: &str| format!("{} {what}", paint.dim(format!("{:>5}", entry.n)));
    let string = |pointer: &str| body.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let mut lines = match entry.kind.as_str() {
        "started" => match last_user_message(body) {
            "" => vec![head("started")],
            message => text_block(head("user"), message),
        },
        "model_replied" => {
            let mut lines = text_block(head(&format!("model{took}")), string("/reply/content"));
            let calls = body.pointer("/reply/tool_calls").and_then(Value::as_array);
            lines.extend(calls.into_iter().flatten().map(|call| requested_call(call, paint)));
            lines
        }
        "approval_decided" => {
            let decision = string("/decision/decision");
            let decision = match string("/decided_by") {
                "" => decision.to_owned(),
                by => format!("{decision} by {by}"),
            };
            let mut lines = vec![head(&format!("{}  {tool}{took}{call}", sanitize_line(&decision)))];
            let reason = [string("/decision/reason"), string("/reason")].into_iter().find(|reason| !reason.is_empty());
            lines.extend(reason.into_iter().flat_map(|reason| labeled("reason", reason, paint)));
            lines
        }
        "client_returned" => vec![head(&format!("client result  {tool}{took}{call}"))],
        "call_ended" | "prepared" | "prepared_again" | "intended" => Vec::new(),
        "timer_fired" if closed.is_empty() => Vec::new(),
        "timer_fired" => vec![head("time limit")],
        "model_failed" | "failed" | "cancelled" => {
            let why = format!("{}  {} {}", entry.kind, string("/reason"), string("/message"));
            vec![head(sanitize_line(&why).trim_end())]
        }
        kind => vec![head(format!("{}  {tool}{call}", sanitize_line(kind)).trim_end())],
    };
    for call in closed {
        let took = if entry.kind == "call_ended" { took.as_str() } else { "" };
        lines.extend(call_lines(call, took, paint, &head));
    }
    lines
}

/// Formats a closed call: the tool, the input, and the output or the error.
fn call_lines(call: &ClosedCall, took: &str, paint: Paint, head: &impl Fn(&str) -> String) -> Vec<String> {
    let ClosedCall { envelope, original_input } = call;
    let state = match InvocationStatus::from(envelope) {
        InvocationStatus::Skipped | InvocationStatus::PermissionDenied => "  not called",
        InvocationStatus::Success | InvocationStatus::Error => took,
    };
    let (tool, call) = (sanitize_line(&envelope.name), sanitize_line(envelope.call_id.as_str()));
    let mut lines = vec![head(&format!("call  {tool}{state}  {call}"))];
    match original_input {
        Some(original) => {
            lines.extend(value_lines("original input", original, paint));
            lines.extend(value_lines("edited input", &envelope.input, paint));
        }
        None => lines.extend(value_lines("input", &envelope.input, paint)),
    }
    match &envelope.error {
        Some(error) => {
            let error = serde_json::to_value(error).unwrap_or_default();
            lines.extend(value_lines("error", &error, paint));
        }
        None => lines.extend(value_lines("output", &envelope.output, paint)),
    }
    lines
}

/// Returns the last message of the user in the first entry.
fn last_user_message(body: &Value) -> &str {
    let messages = body.pointer("/spec/request/messages").and_then(Value::as_array);
    let is_user = |message: &&Value| message.get("role").and_then(Value::as_str) == Some("user");
    messages
        .into_iter()
        .flatten()
        .rfind(is_user)
        .and_then(|message| message.get("content"))
        .and_then(Value::as_str)
        .unwrap_or_default()
}

fn requested_call(call: &Value, paint: Paint) -> String {
    let name = call.get("name").and_then(Value::as_str).unwrap_or_default();
    paint.dim(format!("      requests {}", sanitize_line(name)))
}

fn text_block(head: String, text: &str) -> Vec<String> {
    let text = sanitize(text);
    let lines = text.trim_end().lines().map(|line| format!("      {line}"));
    std::iter::once(head).chain(lines).collect()
}

fn value_lines(label: &str, value: &Value, paint: Paint) -> Vec<String> {
    if value.is_null() {
        return Vec::new();
    }
    labeled(label, &serde_json::to_string_pretty(value).unwrap_or_default(), paint)
}

fn labeled(label: &str, text: &str, paint: Paint) -> Vec<String> {
    let lines = text.lines().map(|line| format!("        {}", sanitize_line(line).trim_end()));
    std::iter::once(paint.dim(format!("      {label}"))).chain(lines).collect()
}

/// Formats ascending numbers, with consecutive ones as ranges: `1-3, 7`.
fn ranges(numbers: &[u64]) -> String {
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    for &number in numbers {
        match ranges.last_mut() {
            Some((_, end)) if *end + 1 == number => *end = number,
            _ => ranges.push((number, number)),
        }
    }
    let text = |(start, end): &(u64, u64)| if start == end { start.to_string() } else { format!("{start}-{end}") };
    ranges.iter().map(text).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn consecutive_entry_numbers_are_formatted_as_a_range() {
        assert_eq!(ranges(&[1, 2, 3, 7, 9, 10]), "1-3, 7, 9-10");
        assert_eq!(ranges(&[]), "");
    }
}
