//! The agent loop from the first model call to the answer, and every way in which the loop can end.

use serde_json::json;
use toolwright_machine::RunStatus;
use toolwright_machine::agent::{ApplyOutcome, Effect, EventError, EventKind};
use toolwright_types::{CallId, ErrorCode, Message, SideEffects, StopReason};

use crate::harness::*;

#[test]
fn text_reply_completes_the_run() {
    let mut harness = Harness::new(spec());
    let [Effect::CallModel { iteration: 1, request }] = &harness.run.next()[..] else { panic!() };
    assert_eq!(request.messages.len(), 1);
    harness.reply(text("hello"));
    let [Effect::Finish { ending, response }] = &harness.run.next()[..] else { panic!() };
    assert_eq!((ending.status, &ending.reason), (RunStatus::Completed, &None));
    assert_eq!(response, "hello");
    assert!(harness.run.next().is_empty());
    assert_eq!(harness.run.pending().len(), 1, "after a restart the end is requested again");
}

#[test]
fn call_is_prepared_and_executed_and_its_result_is_shown_to_the_model() {
    let mut harness = Harness::new(spec());
    harness.run.next();
    harness.reply(calls(vec![call("m1", "search", json!({ "q": 1 }))]));
    let [Effect::PrepareCalls { iteration: 1, calls }] = &harness.run.next()[..] else { panic!() };
    assert_eq!((calls[0].tool.as_str(), &calls[0].input), ("search", &json!({ "q": 1 })));
    harness.prepare();
    let [Effect::RunCall(run)] = &harness.run.next()[..] else { panic!() };
    assert_eq!(run.call_id, CallId::derive("search", "1.0.0", &json!({ "q": 1 }), 0));
    harness.end_all();
    let [Effect::CallModel { iteration: 2, request }] = &harness.run.next()[..] else { panic!() };
    let Some(Message::Tool { id, name, content, is_error, .. }) = request.messages.last() else { panic!() };
    assert_eq!(
        (id.as_str(), name.as_str(), content.as_str(), *is_error),
        ("m1", "search", r#"{"ok":"search"}"#, false)
    );
    harness.reply(text("done"));
    assert_eq!(harness.outputs().last_tool.unwrap().name, "search");
}

#[test]
fn effect_is_issued_a_second_time_only_on_request() {
    let mut harness = Harness::new(spec());
    assert_eq!(harness.run.next().len(), 1);
    assert!(harness.run.next().is_empty());
    assert_eq!(harness.run.pending().len(), 1);
    harness.run.reissue_effects();
    assert_eq!(harness.run.next()[0].id().to_string(), "model/1");
    harness.request_calls(vec![call("a", "search", json!(1)), call("b", "pay", json!(2))]);
    let ids: Vec<String> = harness.run.next().iter().map(|effect| effect.id().to_string()).collect();
    assert!(ids[0].starts_with("call/call_") && ids[1].starts_with("approval/call_"), "{ids:?}");
    harness.end_all();
    assert!(harness.run.next().is_empty(), "the approval was already requested");
}

#[test]
fn model_failure_ends_the_run_and_keeps_earlier_call_results() {
    let mut harness = Harness::new(spec());
    let mut first = calls(vec![call("a", "search", json!({}))]);
    first.content = "let me look".into();
    harness.reply(first);
    harness.prepare();
    harness.end_all();
    harness.apply(EventKind::ModelFailed {
        iteration: 2,
        reason: "model_error".into(),
        message: "529 four times".into(),
    });
    assert_eq!(harness.ending().status, RunStatus::Error);
    assert_eq!(harness.ending().reason.as_deref(), Some("model_error"));
    assert_eq!(harness.outputs().response, "let me look");
    assert_eq!(harness.results(), [succeeded("search")]);
}

#[test]
fn cancelled_run_has_an_envelope_for_every_requested_call() {
    let stop = || EventKind::Cancelled { message: None };
    let batch = || vec![call("a", "save", json!(1)), call("b", "search", json!(2)), call("c", "pay", json!(3))];
    let unknown = |tool: &str| (tool.to_owned(), Some(ErrorCode::Unknown), Some("cancelled".to_owned()));

    let mut early = Harness::new(spec());
    early.reply(calls(batch()));
    early.apply(stop());
    assert_eq!(early.results(), [unknown("save"), unknown("search"), unknown("pay")]);
    assert!(early.outputs().in_order().all(|envelope| envelope.version.is_empty()));
    assert_eq!(early.tool_contents().len(), 3);

    let mut later = Harness::new(spec());
    later.request_calls(batch());
    let search = later.running().remove(1);
    later.end_call(&search, Ok(json!("found")));
    later.apply(stop());
    assert_eq!(later.ending().status, RunStatus::Cancelled);
    assert_eq!(later.results(), [unknown("save"), succeeded("search"), unknown("pay")]);
    let details = |at: usize| later.outputs().in_order().nth(at).unwrap().error.clone().unwrap().details.unwrap();
    assert_eq!(details(0), json!({ "reason": "cancelled", "started": true, "outcome": "unknown" }));
    assert_eq!(details(2), json!({ "reason": "cancelled", "started": false }));
}

#[test]
fn event_after_the_end_of_the_run_changes_nothing() {
    let mut harness = Harness::new(spec());
    harness.request_calls(vec![call("a", "save", json!(1))]);
    let save = harness.running().remove(0);
    harness.apply(EventKind::Cancelled { message: Some("enough".into()) });
    let before = harness.run.clone();
    harness.millis = 9_999_999;
    for late in [
        EventKind::call_ended(envelope_of(&save, Ok(json!(1)))),
        EventKind::Cancelled { message: None },
        EventKind::TimerFired,
        EventKind::Expired { call_id: save.call_id.clone() },
        EventKind::model_replied(9, text("x")),
        EventKind::Failed { reason: "interrupted".into(), message: String::new() },
    ] {
        assert_eq!(harness.send(late).unwrap(), ApplyOutcome::AlreadyEnded);
    }
    assert_eq!(harness.run, before);
    assert_eq!(harness.ending().message.as_deref(), Some("enough"));
}

#[test]
fn driver_failure_ends_the_run_with_status_error() {
    let mut harness = Harness::new(spec());
    harness.apply(EventKind::Failed { reason: "interrupted".into(), message: "the server stopped".into() });
    assert_eq!((harness.ending().status, harness.ending().reason.as_deref()), (RunStatus::Error, Some("interrupted")));
}

#[test]
fn event_that_answers_no_open_effect_is_rejected_and_changes_nothing() {
    let mut harness = Harness::new(spec());
    let stranger = CallId::derive("x", "", &json!(0), 0);
    let reply = |iteration| EventKind::model_replied(iteration, text("x"));
    let before = harness.run.clone();
    assert_eq!(harness.send(reply(2)), Err(EventError::NoModelCall(2)));
    assert_eq!(harness.send(EventKind::Prepared { iteration: 1, calls: vec![] }), Err(EventError::NotPreparing(1)));
    assert_eq!(harness.run, before);

    harness.reply(calls(vec![call("a", "search", json!(1))]));
    let before = harness.run.clone();
    assert_eq!(harness.send(reply(1)), Err(EventError::NoModelCall(1)), "already answered");
    let error = EventError::PreparedCount { expected: 1, found: 0 };
    assert_eq!(harness.send(EventKind::Prepared { iteration: 1, calls: vec![] }), Err(error));
    assert_eq!(harness.run, before);

    harness.prepare();
    let search = harness.running().remove(0);
    let ended = |call| EventKind::call_ended(envelope_of(call, Ok(json!(1))));
    let mut other = search.clone();
    other.call_id = stranger.clone();
    assert_eq!(harness.send(ended(&other)), Err(EventError::UnknownCall(stranger.clone())));
    harness.apply(ended(&search));
    let before = harness.run.clone();
    harness.millis = 1000;
    assert_eq!(harness.send(ended(&search)), Err(EventError::NotRunning(search.call_id.clone())));
    assert_eq!(harness.send(EventKind::Expired { call_id: stranger.clone() }), Err(EventError::UnknownCall(stranger)));
    assert_eq!(harness.run, before, "the clock does not advance either");
}

#[test]
fn truncated_reply_and_model_refusal_complete_the_run_with_a_reason() {
    let end = |reply| {
        let mut harness = Harness::new(spec());
        harness.reply(reply);
        (harness.ending().status, harness.ending().reason.clone(), harness.outputs().response)
    };
    let mut cut = text("half an ans");
    cut.stop = StopReason::MaxTokens;
    assert_eq!(end(cut), (RunStatus::Completed, Some("max_tokens".into()), "half an ans".into()));
    let mut refusal = text("I will not");
    refusal.stop = StopReason::Refusal;
    assert_eq!(end(refusal), (RunStatus::Completed, Some("refusal".into()), "I will not".into()));
}

#[test]
fn calls_in_a_reply_with_stop_reason_refusal_are_not_run() {
    let mut harness = Harness::new(spec());
    let mut refusal = calls(vec![call("a", "save", json!(1))]);
    refusal.stop = StopReason::Refusal;
    harness.reply(refusal);
    assert_eq!(harness.ending().status, RunStatus::Completed);
    assert_eq!(harness.results(), [denied("save", "refusal")]);
}

#[test]
fn second_empty_reply_ends_the_run_after_one_reminder() {
    let mut harness = Harness::new(spec());
    harness.reply(text("  "));
    let [Effect::CallModel { iteration: 2, request }] = &harness.run.pending()[..] else { panic!() };
    assert!(matches!(&request.messages[..], [_, Message::User { content }] if content.contains("empty")));
    let mut other = Harness { run: harness.run.clone(), millis: 0 };
    harness.reply(text(""));
    assert_eq!(harness.ending().reason.as_deref(), Some("empty_reply"));
    assert_eq!(harness.ending().status, RunStatus::Completed);
    other.reply(text("now I know"));
    assert_eq!((other.ending().reason.as_deref(), other.outputs().response.as_str()), (None, "now I know"));
}

#[test]
fn tool_calls_of_a_reply_truncated_by_max_tokens_are_executed() {
    let mut harness = Harness::new(spec());
    let mut reply = calls(vec![call("a", "search", json!(1))]);
    reply.stop = StopReason::MaxTokens;
    harness.reply(reply);
    harness.prepare();
    assert_eq!(harness.running()[0].facts.effects, SideEffects::Reads);
}
