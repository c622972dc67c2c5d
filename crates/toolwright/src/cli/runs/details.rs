//! Prints the journal of a run for `runs get -v`: the message of the user, the replies of the model, and the inputs and
//! outputs of the calls, with the numbers of the entries.

use serde_json::Value;
use toolwright_api::wire::JournalEntryView;

use super::journal::JournalPages;
use crate::cli::Context;
use crate::cli::failure::Failure;
use crate::cli::follow::format_duration;
use crate::cli::output::{Paint, sanitize, sanitize_line};

/// The page size of requests.
const PAGE: u32 = 100;

/// Prints the entries of a run, except those that only record progress. Each page is printed before the next one is
/// requested.
pub(super) async fn print(cx: &Context, run: &str) -> Result<(), Failure> {
    let mut pages = JournalPages::new(run, 1, None);
    let mut forkable = Vec::new();
    while let Some(page) = pages.next(cx, PAGE).await? {
        for entry in &page {
            cx.output.lines(entry_lines(entry, cx.output.out))?;
        }
        forkable.extend(page.iter().filter(|entry| entry.can_fork).map(|entry| entry.n));
    }
    let hint = match forkable.as_slice() {
        [] => "no entry of this run can be forked".to_owned(),
        entries => format!("`toolwright runs fork {run} --at ENTRY` works with {}", ranges(entries)),
    };
    cx.output.line(cx.output.out.dim(hint))?;
    Ok(())
}

/// Formats an entry. Returns no lines for an entry that only records progress.
fn entry_lines(entry: &JournalEntryView, paint: Paint) -> Vec<String> {
    let body = &entry.body;
    let took = entry.duration_ms.map(|millis| format!("  {}", format_duration(millis))).unwrap_or_default();
    let tool = sanitize_line(entry.tool_ref.as_deref().unwrap_or_default());
    let call = entry.call_id.as_deref().map(|id| format!("  {}", sanitize_line(id))).unwrap_or_default();
    let head = |what: &str| format!("{} {what}", paint.dim(format!("{:>5}", entry.n)));
    let string = |pointer: &str| body.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    match entry.kind.as_str() {
        "started" => text_block(head("user"), last_user_message(body)),
        "model_replied" => {
            let mut lines = text_block(head(&format!("model{took}")), string("/reply/content"));
            let calls = body.pointer("/reply/tool_calls").and_then(Value::as_array);
            lines.extend(calls.into_iter().flatten().map(|call| requested_call(call, paint)));
            lines
        }
        "call_ended" => {
            let envelope = body.get("envelope").unwrap_or(&Value::Null);
            let mut lines = vec![head(&format!("call  {tool}{took}{call}"))];
            lines.extend(value_lines("input", envelope.get("input"), paint));
            match envelope.get("error").filter(|error| !error.is_null()) {
                Some(error) => lines.extend(value_lines("error", Some(error), paint)),
                None => lines.extend(value_lines("output", envelope.get("output"), paint)),
            }
            lines
        }
        "approval_decided" => {
            let by = string("/decided_by");
            let decision = string("/decision/decision");
            vec![head(&format!("{}  {tool}{took}{call}", sanitize_line(&format!("{decision} by {by}"))))]
        }
        "client_returned" => {
            let mut lines = vec![head(&format!("client result  {tool}{took}{call}"))];
            lines.extend(value_lines("result", body.get("result"), paint));
            lines
        }
        "prepared" | "prepared_again" | "intended" | "timer_fired" => Vec::new(),
        "model_failed" | "failed" | "cancelled" => {
            let why = format!("{}  {} {}", entry.kind, string("/reason"), string("/message"));
            vec![head(sanitize_line(&why).trim_end())]
        }
        kind => vec![head(format!("{}  {tool}{call}", sanitize_line(kind)).trim_end())],
    }
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

fn value_lines(label: &str, value: Option<&Value>, paint: Paint) -> Vec<String> {
    let Some(value) = value.filter(|value| !value.is_null()) else { return Vec::new() };
    let text = serde_json::to_string_pretty(value).unwrap_or_default();
    let mut lines = vec![paint.dim(format!("      {label}"))];
    lines.extend(text.lines().map(|line| format!("        {}", sanitize_line(line).trim_end())));
    lines
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
