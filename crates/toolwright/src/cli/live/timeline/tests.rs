use serde_json::{Value, json};

use super::*;

const RUN: &str = "run_1";

/// A reader of events, and everything that was written for it.
struct Reader {
    timeline: Timeline,
    page: String,
}

impl Reader {
    fn new(width: Option<usize>) -> Self {
        Self { timeline: Timeline::new(Paint::none(), width), page: String::new() }
    }

    fn hears(&mut self, event: Value) -> &mut Self {
        let what: Happening = serde_json::from_value(event).unwrap();
        self.page.push_str(&self.timeline.tell(RUN, &what));
        self
    }

    fn says(&mut self, text: &str) -> &mut Self {
        self.hears(json!({ "type": "TEXT_DELTA", "content": text }))
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
    let mut call = json!({ "callId": "call_1", "toolRef": "crm/get", "input": { "dealId": "101" }, "durationMs": 27 });
    for (key, value) in changes.as_object().unwrap() {
        call[key] = value.clone();
    }
    json!({ "type": kind, "toolInvocation": call })
}

fn approval() -> Value {
    json!({ "type": "APPROVAL_REQUIRED", "approval": {
        "runId": RUN, "agentRef": "a", "callId": "call_2", "toolRef": "crm/update", "sideEffects": "writes",
        "input": { "dealId": "101", "stage": "won" }, "askedAt": "2026-11-15T05:00:00Z", "expiresAt": null } })
}

#[test]
fn text_and_calls_are_kept_apart() {
    let mut reader = Reader::new(None);
    reader.hears(thinking()).says("Let me ").says("look.").hears(usage());
    reader.hears(call("TOOL_CALL_START", json!({}))).hears(call("TOOL_CALL_END", json!({ "status": "SUCCESS" })));
    let other = json!({ "callId": "call_2", "toolRef": "crm/stages", "input": {}, "durationMs": 0, "status": "SUCCESS", "cached": true });
    reader.hears(call("TOOL_CALL_START", other.clone())).hears(call("TOOL_CALL_END", other));
    reader.hears(thinking()).says("It is\nwon.").hears(usage()).hears(done());
    insta::assert_snapshot!(reader.page, @r#"
    Let me look.

    ✓ crm/get  27 ms  dealId="101"
    ✓ crm/stages  0 ms  cached

    It is
    won.
    "#);
}

#[test]
fn what_failed_says_why_and_what_was_refused_was_not_called() {
    let mut reader = Reader::new(None);
    let failed = json!({ "status": "ERROR", "durationMs": 1_250, "errorMessage": "the upstream\nanswered 500" });
    reader.hears(call("TOOL_CALL_END", failed));
    reader.hears(call("TOOL_CALL_END", json!({ "status": "SKIPPED", "errorMessage": "denied: not today" })));
    reader.hears(call("TOOL_CALL_END", json!({ "status": "PERMISSION_DENIED", "errorMessage": "not permitted" })));
    insta::assert_snapshot!(reader.page, @r#"
    ✗ crm/get  1.2 s  dealId="101"
      the upstream answered 500
    – crm/get  not called  dealId="101"
      denied: not today
    ✗ crm/get  27 ms  dealId="101"
      not permitted
    "#);
}

#[test]
fn what_others_have_to_do_is_shown_whole() {
    let mut reader = Reader::new(Some(40));
    reader.says("I will change it.").hears(usage()).hears(approval());
    assert_eq!(reader.timeline.under_way().as_deref(), Some("waiting for a decision"));
    reader.hears(json!({ "type": "CLIENT_ACTION", "clientAction": {
        "callId": "call_3", "toolRef": "browser/open", "preparedPayload": { "url": "https://h" }, "schema": {}, "token": "t" } }));
    insta::assert_snapshot!(reader.page, @r#"
    I will change it.

    ? crm/update  writes  needs a decision
      {
        "dealId": "101",
        "stage": "won"
      }
    ! browser/open  is for you to do
      {
        "url": "https://h"
      }
      then: toolwright runs results run_1 call_3 --output JSON
    "#);
}

#[test]
fn an_input_gives_way_to_the_width_of_the_terminal() {
    let mut reader = Reader::new(Some(30));
    let long = json!({ "status": "SUCCESS", "input": { "text": "a long text that does not fit", "n": 1 } });
    reader.hears(call("TOOL_CALL_END", long));
    assert_eq!(reader.page, "✓ crm/get  27 ms  text=\"a lon…\n");
    assert!(unicode_width::UnicodeWidthStr::width(reader.page.trim_end()) <= 30);
}

#[test]
fn what_is_under_way_is_named_only_while_nothing_else_shows_it() {
    let mut reader = Reader::new(None);
    assert_eq!(reader.timeline.under_way(), None);
    assert_eq!(reader.hears(thinking()).timeline.under_way().as_deref(), Some("thinking"));
    assert_eq!(reader.says("An answer").timeline.under_way(), None);
    reader.hears(usage()).hears(call("TOOL_CALL_START", json!({})));
    reader.hears(call("TOOL_CALL_START", json!({ "callId": "call_2", "toolRef": "crm/other" })));
    assert_eq!(reader.timeline.under_way().as_deref(), Some("crm/get, crm/other"));
    reader.hears(call("TOOL_CALL_END", json!({ "status": "SUCCESS" })));
    assert_eq!(reader.timeline.under_way().as_deref(), Some("crm/other"));
    assert_eq!(reader.hears(done()).timeline.under_way(), None);
}

#[test]
fn a_lost_connection_leaves_no_gap_and_no_repetition() {
    for pieces in [&["The answer", " is 42."][..], &["The answer is 42."], &["The", " answer", " is", " 42."]] {
        let mut reader = Reader::new(None);
        reader.says("The ans").says("wer i");
        reader.timeline.lost();
        reader.timeline.found();
        for piece in pieces {
            reader.says(piece);
        }
        reader.hears(usage()).hears(done());
        assert_eq!(reader.page, "The answer is 42.\n", "{pieces:?}");
    }
}

#[test]
fn a_reply_that_begins_anew_says_so() {
    let mut reader = Reader::new(None);
    reader.says("The first").hears(json!({ "type": "TEXT_RESET" })).says("The second.").hears(usage());
    insta::assert_snapshot!(reader.page, @"
    The first
    ↺ the reply begins anew
    The second.
    ");
    let mut reader = Reader::new(None);
    reader.says("The first");
    reader.timeline.lost();
    reader.says("The sec").says("ond.").hears(usage());
    assert_eq!(reader.page, "The first\n↺ the reply begins anew\nThe second.\n");
    let mut silent = Reader::new(None);
    silent.hears(json!({ "type": "TEXT_RESET" }));
    assert_eq!(silent.page, "");
}

#[test]
fn an_answer_cannot_steer_the_terminal() {
    let mut reader = Reader::new(None);
    reader.says("\u{1b}[2Jgone\r\n").hears(call("TOOL_CALL_END", json!({ "toolRef": "\u{1b}[31m", "input": "\u{7}" })));
    assert!(!reader.page.contains(['\u{1b}', '\u{7}', '\r']), "{:?}", reader.page);
}

#[test]
fn durations_are_as_exact_as_they_need_to_be() {
    assert_eq!(
        [duration(0), duration(999), duration(1_000), duration(59_999), duration(61_000)],
        ["0 ms", "999 ms", "1.0 s", "59.9 s", "1 min 1 s"]
    );
}
