use serde_json::{Value, json};

use super::*;

const RUN: &str = "run_1";

/// A timeline and the text that it has rendered so far.
struct Reader {
    timeline: TimelineRenderer,
    output: String,
}

impl Reader {
    fn new(width: Option<usize>) -> Self {
        Self { timeline: TimelineRenderer::new(Paint::none(), width), output: String::new() }
    }

    fn event(&mut self, mut event: Value) -> &mut Self {
        (event["runId"], event["iteration"]) = (json!(RUN), json!(1));
        let event: StreamEventView = serde_json::from_value(event).unwrap();
        self.output.push_str(&self.timeline.render(&event));
        self
    }

    fn text(&mut self, text: &str) -> &mut Self {
        self.event(json!({ "type": "TEXT_DELTA", "content": text }))
    }
}

fn thinking() -> Value {
    json!({ "type": "THINKING" })
}

fn usage() -> Value {
    json!({ "type": "USAGE" })
}

fn done() -> Value {
    json!({ "type": "DONE" })
}

fn call(kind: &str, changes: Value) -> Value {
    let mut call = json!({
        "callId": "call_1", "toolRef": "crm/get", "input": { "dealId": "101" }, "output": null, "durationMs": 27,
        "isServerTool": true, "wasExecuted": false, "requiresClientExecution": false,
    });
    for (key, value) in changes.as_object().unwrap() {
        call[key] = value.clone();
    }
    json!({ "type": kind, "toolInvocation": call })
}

fn approval() -> Value {
    json!({ "type": "APPROVAL_REQUIRED", "approval": {
        "runId": RUN, "agentRef": "a", "callId": "call_2", "toolRef": "crm/update", "version": "1.0.0", "sideEffects": "writes", "triggers": ["tool"],
        "input": { "dealId": "101", "stage": "won" }, "requestedAt": "2026-11-15T05:00:00Z", "expiresAt": null } })
}

#[test]
fn text_and_calls_are_separated_by_blank_lines() {
    let mut reader = Reader::new(None);
    reader.event(thinking()).text("Let me ").text("look.").event(usage());
    reader.event(call("TOOL_CALL_START", json!({}))).event(call("TOOL_CALL_END", json!({ "status": "SUCCESS" })));
    let other = json!({ "callId": "call_2", "toolRef": "crm/stages", "input": {}, "durationMs": 0, "status": "SUCCESS", "cached": true });
    reader.event(call("TOOL_CALL_START", other.clone())).event(call("TOOL_CALL_END", other));
    reader.event(thinking()).text("It is\nwon.").event(usage()).event(done());
    insta::assert_snapshot!(reader.output, @r#"
    Let me look.

    ✓ crm/get  27 ms  dealId="101"
    ✓ crm/stages  0 ms  cached

    It is
    won.
    "#);
}

#[test]
fn failed_and_skipped_calls_show_their_error() {
    let mut reader = Reader::new(None);
    let failed = json!({ "status": "ERROR", "durationMs": 1_250, "errorMessage": "the upstream\nanswered 500" });
    reader.event(call("TOOL_CALL_END", failed));
    reader.event(call("TOOL_CALL_END", json!({ "status": "SKIPPED", "errorMessage": "denied: not today" })));
    reader.event(call("TOOL_CALL_END", json!({ "status": "PERMISSION_DENIED", "errorMessage": "not permitted" })));
    insta::assert_snapshot!(reader.output, @r#"
    ✗ crm/get  1.2 s  dealId="101"
      the upstream answered 500
    – crm/get  not called  dealId="101"
      denied: not today
    ✗ crm/get  27 ms  dealId="101"
      not permitted
    "#);
}

#[test]
fn approvals_and_client_actions_are_shown_in_full() {
    let mut reader = Reader::new(Some(40));
    reader.text("I will change it.").event(usage()).event(approval());
    assert_eq!(reader.timeline.activity().as_deref(), Some("waiting for approval"));
    reader.event(json!({ "type": "CLIENT_ACTION", "clientAction": {
        "callId": "call_3", "toolRef": "browser/open", "preparedPayload": { "url": "https://h" }, "schema": {}, "token": "t" } }));
    insta::assert_snapshot!(reader.output, @r#"
    I will change it.

    ? crm/update  writes  requires approval
      {
        "dealId": "101",
        "stage": "won"
      }
    ! browser/open  requires a client action
      {
        "url": "https://h"
      }
      then: toolwright runs results run_1 call_3 --output JSON
    "#);
}

#[test]
fn call_input_is_truncated_to_terminal_width() {
    let mut reader = Reader::new(Some(30));
    let long = json!({ "status": "SUCCESS", "input": { "text": "a long text that does not fit", "n": 1 } });
    reader.event(call("TOOL_CALL_END", long));
    assert_eq!(reader.output, "✓ crm/get  27 ms  text=\"a lon…\n");
    assert!(unicode_width::UnicodeWidthStr::width(reader.output.trim_end()) <= 30);
}

#[test]
fn replies_and_errors_are_wrapped_at_words_in_a_terminal() {
    let mut reader = Reader::new(Some(30));
    reader.text("The first deal is in negotiation,").text(" the others are closed.").event(usage());
    let message = "the limit of 2 tool calls is reached";
    reader.event(call("TOOL_CALL_END", json!({ "status": "SKIPPED", "errorMessage": message })));
    insta::assert_snapshot!(reader.output, @r#"
    The first deal is in
    negotiation, the others are
    closed.

    – crm/get  not called  dealId…
      the limit of 2 tool calls is
      reached
    "#);
}

#[test]
fn activity_is_hidden_while_text_is_printed() {
    let mut reader = Reader::new(None);
    assert_eq!(reader.timeline.activity(), None);
    assert_eq!(reader.event(thinking()).timeline.activity().as_deref(), Some("thinking"));
    assert_eq!(reader.text("An answer").timeline.activity(), None);
    reader.event(usage()).event(call("TOOL_CALL_START", json!({})));
    reader.event(call("TOOL_CALL_START", json!({ "callId": "call_2", "toolRef": "crm/other" })));
    assert_eq!(reader.timeline.activity().as_deref(), Some("crm/get, crm/other"));
    reader.event(call("TOOL_CALL_END", json!({ "status": "SUCCESS" })));
    assert_eq!(reader.timeline.activity().as_deref(), Some("crm/other"));
    assert_eq!(reader.event(done()).timeline.activity(), None);
}

#[test]
fn reconnect_does_not_repeat_or_lose_text_of_the_reply() {
    for pieces in [&["The answer", " is 42."][..], &["The answer is 42."], &["The", " answer", " is", " 42."]] {
        let mut reader = Reader::new(None);
        reader.text("The ans").text("wer i");
        reader.timeline.on_disconnect();
        reader.timeline.on_reconnect();
        for piece in pieces {
            reader.text(piece);
        }
        reader.event(usage()).event(done());
        assert_eq!(reader.output, "The answer is 42.\n", "{pieces:?}");
    }
}

#[test]
fn restart_of_a_model_reply_is_shown() {
    let mut reader = Reader::new(None);
    reader.text("The first").event(json!({ "type": "TEXT_RESET" })).text("The second.").event(usage());
    insta::assert_snapshot!(reader.output, @"
    The first
    ↺ reply restarted
    The second.
    ");
    let mut reader = Reader::new(None);
    reader.text("The first");
    reader.timeline.on_disconnect();
    reader.text("The sec").text("ond.").event(usage());
    assert_eq!(reader.output, "The first\n↺ reply restarted\nThe second.\n");
    let mut silent = Reader::new(None);
    silent.event(json!({ "type": "TEXT_RESET" }));
    assert_eq!(silent.output, "");
}

#[test]
fn control_characters_are_replaced_in_output() {
    let mut reader = Reader::new(None);
    reader.text("\u{1b}[2Jgone\r\n").event(call("TOOL_CALL_END", json!({ "toolRef": "\u{1b}[31m", "input": "\u{7}" })));
    assert!(!reader.output.contains(['\u{1b}', '\u{7}', '\r']), "{:?}", reader.output);
}

#[test]
fn durations_are_shown_in_milliseconds_seconds_or_minutes() {
    assert_eq!(
        [
            format_duration(0),
            format_duration(999),
            format_duration(1_000),
            format_duration(59_999),
            format_duration(61_000)
        ],
        ["0 ms", "999 ms", "1.0 s", "59.9 s", "1 min 1 s"]
    );
}
