//! Prints the envelope of a call as text: the outcome, then the output.

use serde::Serialize;
use serde_json::Value;
use toolwright_api::wire::{AwaitingClientView, FieldError};
use toolwright_types::{Attachment, AttachmentKind, NestedCall, ToolEnvelope, ToolError};

use crate::cli::failure::{Failure, field_error_line};
use crate::cli::output::{Output, sanitize_line, wrap};

/// Prints an envelope to stdout, and its messages and warnings to stderr.
pub(super) fn show(output: &Output, envelope: &ToolEnvelope) -> Result<(), Failure> {
    let headline = headline(envelope);
    match &envelope.error {
        None => {
            output.line(output.out.good(headline))?;
            output.line(pretty(&envelope.output))?;
        }
        Some(error) => {
            output.line(wrap(&output.out.bad(headline), output.width, 2))?;
            output.lines(error_lines(error, envelope.metadata.http_status))?;
        }
    }
    output.lines(envelope.attachments.iter().map(attachment_line))?;
    output.lines(call_lines(&envelope.metadata.calls, 0))?;
    for message in &envelope.metadata.messages {
        output.note(output.err.dim(format!("· {}", sanitize_line(message))));
    }
    for warning in &envelope.metadata.warnings {
        output.note(output.err.warn(format!("! {}", sanitize_line(warning))));
    }
    if envelope.truncated {
        output.note(output.err.warn("! the output is truncated; the complete output is attached"));
    }
    Ok(())
}

/// Prints what a call waits for: approvals, or actions that the client must perform.
pub(super) fn show_waiting(output: &Output, tool: &str, waiting: &AwaitingClientView) -> Result<(), Failure> {
    let awaited = if waiting.approvals.is_empty() { "the client" } else { "an approval" };
    output.line(output.out.warn(format!("… {tool}  waiting for {awaited}  {}", waiting.run_id)))?;
    output.lines(waiting.approvals.iter().map(pretty))?;
    output.lines(waiting.client_actions.iter().map(pretty))?;
    Ok(())
}

fn headline(envelope: &ToolEnvelope) -> String {
    if let Some(error) = &envelope.error {
        return format!("✗ {}  {}  {}", sanitize_line(&envelope.name), error.code, sanitize_line(&error.message));
    }
    let (name, version) = (sanitize_line(&envelope.name), &envelope.version);
    let cached = if envelope.cached { "  cached" } else { "" };
    let millis = envelope.t_end.millis_since(envelope.t_start);
    format!("✓ {name}@{version}  {millis} ms  attempt {}{cached}", envelope.metadata.attempt)
}

/// Formats the details of an error: invalid fields, the reason, and what the external system answered.
pub(crate) fn error_lines(error: &ToolError, http_status: Option<u16>) -> Vec<String> {
    let detail = |name: &str| error.details.as_ref().and_then(|details| details.get(name));
    let fields = detail("errors").and_then(|errors| serde_json::from_value::<Vec<FieldError>>(errors.clone()).ok());
    // A field error that the message already contains is left out.
    let is_new = |field: &&FieldError| !(error.message.contains(&field.message) && error.message.contains(&field.path));
    let mut lines: Vec<String> = fields.unwrap_or_default().iter().filter(is_new).map(field_error_line).collect();
    lines.extend(detail("reason").and_then(Value::as_str).map(|reason| format!("reason: {reason}")));
    lines.extend(detail("line").and_then(Value::as_u64).map(|line| format!("line: {line}")));
    lines.extend(http_status.map(|status| format!("HTTP status: {status}")));
    lines.extend(detail("body").filter(|body| !body.is_null()).map(|body| format!("response: {}", text_of(body))));
    lines.extend(detail("stdout").map(|stdout| format!("printed: {}", text_of(stdout).trim_end())));
    lines.extend(error.retry_after_s.map(|seconds| format!("retry after {seconds} s")));
    lines.iter().map(|line| format!("  {}", sanitize_line(line))).collect()
}

/// Returns the text of a string, and any other value as JSON.
fn text_of(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn attachment_line(attachment: &Attachment) -> String {
    let kind = match attachment.kind {
        AttachmentKind::Blob => "blob",
        AttachmentKind::Image => "image",
        AttachmentKind::Table => "table",
    };
    let size = attachment.bytes.map(|bytes| format!("  {bytes} bytes")).unwrap_or_default();
    let media = attachment.content_type.as_deref().map(|media| format!("  {media}")).unwrap_or_default();
    sanitize_line(&format!("attached {kind}{media}{size}  {}", attachment.url))
}

/// Formats nested calls, indented by depth.
fn call_lines(calls: &[NestedCall], depth: usize) -> Vec<String> {
    let line = |call: &NestedCall| {
        let name = sanitize_line(&call.name);
        let ended = match (&call.error, call.t_end) {
            (Some(error), _) => format!("{name}  {}  {}", error.code, sanitize_line(&error.message)),
            (None, Some(end)) => format!("{name}@{}  {} ms", call.version, end.millis_since(call.t_start)),
            (None, None) => format!("{name}@{}  abandoned, outcome unknown", call.version),
        };
        format!("{}called {ended}", "  ".repeat(depth))
    };
    calls.iter().flat_map(|call| std::iter::once(line(call)).chain(call_lines(&call.calls, depth + 1))).collect()
}

fn pretty(value: &impl Serialize) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn envelope(changes: Value) -> ToolEnvelope {
        let mut whole = json!({
            "call_id": "call_abcdefghijklmnopqrstuvwxyz", "name": "hubspot/search-deals", "version": "1.0.0", "input": {},
            "output": [], "t_start": "2026-11-15T05:00:00Z", "t_end": "2026-11-15T05:00:00.023Z", "metadata": { "attempt": 1 },
        });
        for (key, value) in changes.as_object().unwrap() {
            whole[key] = value.clone();
        }
        serde_json::from_value(whole).unwrap()
    }

    #[test]
    fn headline_of_an_envelope_shows_success_caching_or_the_error() {
        assert_eq!(headline(&envelope(json!({}))), "✓ hubspot/search-deals@1.0.0  23 ms  attempt 1");
        assert_eq!(
            headline(&envelope(json!({ "cached": true }))),
            "✓ hubspot/search-deals@1.0.0  23 ms  attempt 1  cached"
        );
        let failed = envelope(json!({ "error": { "code": "VALIDATION_ERROR", "message": "no\nfit" } }));
        assert_eq!(headline(&failed), "✗ hubspot/search-deals  VALIDATION_ERROR  no fit");
    }

    #[test]
    fn printed_call_error_shows_invalid_fields_then_reason_status_and_retry_delay() {
        let error: ToolError = serde_json::from_value(json!({
            "code": "RATE_LIMIT", "message": "slow down", "retry_after_s": 2.5,
            "details": { "reason": "quota", "errors": [{ "path": "/a", "message": "is missing" }] },
        }))
        .unwrap();
        let expected = ["  /a: is missing", "  reason: quota", "  HTTP status: 429", "  retry after 2.5 s"];
        assert_eq!(error_lines(&error, Some(429)), expected);
        let error: ToolError = serde_json::from_value(json!({
            "code": "SANDBOX_ERROR", "message": "IndexError",
            "details": { "reason": "exception", "line": 4, "stdout": "1\n", "body": { "error": "no sku" } },
        }))
        .unwrap();
        let expected = ["  reason: exception", "  line: 4", "  response: {\"error\":\"no sku\"}", "  printed: 1"];
        assert_eq!(error_lines(&error, None), expected);
    }

    #[test]
    fn nested_calls_are_indented_below_their_caller() {
        let called = |extra: Value| {
            let mut call = json!({ "call_id": "call_abcdefghijklmnopqrstuvwxyz", "name": "a", "version": "1.0.0",
                "t_start": "2026-11-15T05:00:00Z", "t_end": "2026-11-15T05:00:00.004Z" });
            call.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
            call
        };
        let failed = called(json!({ "error": { "code": "TIMEOUT", "message": "late" } }));
        let calls = json!([called(json!({ "calls": [failed] })), called(json!({ "t_end": null }))]);
        let calls: Vec<NestedCall> = serde_json::from_value(calls).unwrap();
        let expected =
            ["called a@1.0.0  4 ms", "  called a  TIMEOUT  late", "called a@1.0.0  abandoned, outcome unknown"];
        assert_eq!(call_lines(&calls, 0), expected);
    }

    #[test]
    fn attachment_is_formatted_on_one_line() {
        let attachment: Attachment = serde_json::from_value(
            json!({ "kind": "blob", "url": "/api/v1/ai/blobs/x", "content_type": "text/csv", "bytes": 12 }),
        )
        .unwrap();
        assert_eq!(attachment_line(&attachment), "attached blob  text/csv  12 bytes  /api/v1/ai/blobs/x");
    }
}
