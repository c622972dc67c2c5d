//! The loop itself: from question to answer, and every way it can end.

use serde_json::json;
use toolwright_machine::RunStatus;
use toolwright_machine::agent::{Applied, Effect, EventError, Happened};
use toolwright_types::{CallId, ErrorCode, Message, SideEffects, StopReason};

use crate::bench::*;

#[test]
fn a_text_is_the_answer() {
    let mut bench = Bench::new(spec());
    let [Effect::CallModel { step: 1, request }] = &bench.run.next()[..] else { panic!() };
    assert_eq!(request.messages.len(), 1);
    bench.reply(text("hello"));
    let [Effect::Finish { ending, response }] = &bench.run.next()[..] else { panic!() };
    assert_eq!((ending.status, &ending.reason), (RunStatus::Completed, &None));
    assert_eq!(response, "hello");
    assert!(bench.run.next().is_empty());
    assert_eq!(bench.run.pending().len(), 1, "after a restart the end is announced once more");
}

#[test]
fn a_call_is_prepared_run_and_shown_to_the_model() {
    let mut bench = Bench::new(spec());
    bench.run.next();
    bench.reply(calls(vec![call("m1", "search", json!({ "q": 1 }))]));
    let [Effect::PrepareCalls { step: 1, calls }] = &bench.run.next()[..] else { panic!() };
    assert_eq!((calls[0].tool.as_str(), &calls[0].input), ("search", &json!({ "q": 1 })));
    bench.prepare();
    let [Effect::RunCall(run)] = &bench.run.next()[..] else { panic!() };
    assert_eq!(run.call_id, CallId::derive("search", "1.0.0", &json!({ "q": 1 }), 0));
    bench.end_all();
    let [Effect::CallModel { step: 2, request }] = &bench.run.next()[..] else { panic!() };
    let Some(Message::Tool { id, name, content, is_error, .. }) = request.messages.last() else { panic!() };
    assert_eq!(
        (id.as_str(), name.as_str(), content.as_str(), *is_error),
        ("m1", "search", r#"{"ok":"search"}"#, false)
    );
    bench.reply(text("done"));
    assert_eq!(bench.outputs().last_tool.unwrap().name, "search");
}

#[test]
fn effects_are_handed_out_once_and_again_only_on_request() {
    let mut bench = Bench::new(spec());
    assert_eq!(bench.run.next().len(), 1);
    assert!(bench.run.next().is_empty());
    assert_eq!(bench.run.pending().len(), 1);
    bench.run.reissue();
    assert_eq!(bench.run.next()[0].id().to_string(), "model/1");
    bench.ask(vec![call("a", "search", json!(1)), call("b", "pay", json!(2))]);
    let ids: Vec<String> = bench.run.next().iter().map(|effect| effect.id().to_string()).collect();
    assert!(ids[0].starts_with("call/call_") && ids[1].starts_with("approval/call_"), "{ids:?}");
    bench.end_all();
    assert!(bench.run.next().is_empty(), "the approval was asked for already");
}

#[test]
fn a_model_that_fails_ends_the_run_with_what_there_is() {
    let mut bench = Bench::new(spec());
    let mut first = calls(vec![call("a", "search", json!({}))]);
    first.content = "let me look".into();
    bench.reply(first);
    bench.prepare();
    bench.end_all();
    bench.tell(Happened::ModelFailed { step: 2, reason: "model_error".into(), message: "529 four times".into() });
    assert_eq!(bench.ending().status, RunStatus::Error);
    assert_eq!(bench.ending().reason.as_deref(), Some("model_error"));
    assert_eq!(bench.outputs().response, "let me look");
    assert_eq!(bench.receipts(), [fine("search")]);
}

#[test]
fn a_cancelled_run_leaves_receipts_for_all_it_was_asked() {
    let stop = || Happened::Cancelled { message: None };
    let batch = || vec![call("a", "save", json!(1)), call("b", "search", json!(2)), call("c", "pay", json!(3))];
    let unknown = |tool: &str| (tool.to_owned(), Some(ErrorCode::Unknown), Some("cancelled".to_owned()));

    let mut early = Bench::new(spec());
    early.reply(calls(batch()));
    early.tell(stop());
    assert_eq!(early.receipts(), [unknown("save"), unknown("search"), unknown("pay")]);
    assert!(early.outputs().in_order().all(|envelope| envelope.version.is_empty()));
    assert_eq!(early.told().len(), 3);

    let mut later = Bench::new(spec());
    later.ask(batch());
    let search = later.running().remove(1);
    later.end_call(&search, Ok(json!("found")));
    later.tell(stop());
    assert_eq!(later.ending().status, RunStatus::Cancelled);
    assert_eq!(later.receipts(), [unknown("save"), fine("search"), unknown("pay")]);
    let details = |at: usize| later.outputs().in_order().nth(at).unwrap().error.clone().unwrap().details.unwrap();
    assert_eq!(details(0), json!({ "reason": "cancelled", "started": true, "outcome": "unknown" }));
    assert_eq!(details(2), json!({ "reason": "cancelled", "started": false }));
}

#[test]
fn what_comes_after_the_end_changes_nothing() {
    let mut bench = Bench::new(spec());
    bench.ask(vec![call("a", "save", json!(1))]);
    let save = bench.running().remove(0);
    bench.tell(Happened::Cancelled { message: Some("enough".into()) });
    let before = bench.run.clone();
    bench.millis = 9_999_999;
    for late in [
        Happened::ended(receipt(&save, Ok(json!(1)))),
        Happened::Cancelled { message: None },
        Happened::TimePassed,
        Happened::Expired { call_id: save.call_id.clone() },
        Happened::replied(9, text("x")),
        Happened::Failed { reason: "interrupted".into(), message: String::new() },
    ] {
        assert_eq!(bench.send(late).unwrap(), Applied::Late);
    }
    assert_eq!(bench.run, before);
    assert_eq!(bench.ending().message.as_deref(), Some("enough"));
}

#[test]
fn a_driver_that_cannot_go_on_ends_the_run() {
    let mut bench = Bench::new(spec());
    bench.tell(Happened::Failed { reason: "interrupted".into(), message: "the server stopped".into() });
    assert_eq!((bench.ending().status, bench.ending().reason.as_deref()), (RunStatus::Error, Some("interrupted")));
}

#[test]
fn an_event_that_answers_nothing_open_is_an_error_and_changes_nothing() {
    let mut bench = Bench::new(spec());
    let stranger = CallId::derive("x", "", &json!(0), 0);
    let reply = |step| Happened::replied(step, text("x"));
    let before = bench.run.clone();
    assert_eq!(bench.send(reply(2)), Err(EventError::NoModelCall(2)));
    assert_eq!(bench.send(Happened::Prepared { step: 1, calls: vec![] }), Err(EventError::NotPreparing(1)));
    assert_eq!(bench.run, before);

    bench.reply(calls(vec![call("a", "search", json!(1))]));
    let before = bench.run.clone();
    assert_eq!(bench.send(reply(1)), Err(EventError::NoModelCall(1)), "answered already");
    let error = EventError::PreparedCount { expected: 1, found: 0 };
    assert_eq!(bench.send(Happened::Prepared { step: 1, calls: vec![] }), Err(error));
    assert_eq!(bench.run, before);

    bench.prepare();
    let search = bench.running().remove(0);
    let ended = |call| Happened::ended(receipt(call, Ok(json!(1))));
    let mut other = search.clone();
    other.call_id = stranger.clone();
    assert_eq!(bench.send(ended(&other)), Err(EventError::UnknownCall(stranger.clone())));
    bench.tell(ended(&search));
    let before = bench.run.clone();
    bench.millis = 1000;
    assert_eq!(bench.send(ended(&search)), Err(EventError::NotRunning(search.call_id.clone())));
    assert_eq!(bench.send(Happened::Expired { call_id: stranger.clone() }), Err(EventError::UnknownCall(stranger)));
    assert_eq!(bench.run, before, "time does not pass either");
}

#[test]
fn cut_text_refusal_and_silence_complete_with_their_reason() {
    let end = |reply| {
        let mut bench = Bench::new(spec());
        bench.reply(reply);
        (bench.ending().status, bench.ending().reason.clone(), bench.outputs().response)
    };
    let mut cut = text("half an ans");
    cut.stop = StopReason::MaxTokens;
    assert_eq!(end(cut), (RunStatus::Completed, Some("max_tokens".into()), "half an ans".into()));
    let mut refusal = text("I will not");
    refusal.stop = StopReason::Refusal;
    assert_eq!(end(refusal), (RunStatus::Completed, Some("refusal".into()), "I will not".into()));
}

#[test]
fn a_refusal_that_asks_for_calls_runs_none_of_them() {
    let mut bench = Bench::new(spec());
    let mut refusal = calls(vec![call("a", "save", json!(1))]);
    refusal.stop = StopReason::Refusal;
    bench.reply(refusal);
    assert_eq!(bench.ending().status, RunStatus::Completed);
    assert_eq!(bench.receipts(), [denied("save", "refusal")]);
}

#[test]
fn an_empty_reply_gets_one_nudge() {
    let mut bench = Bench::new(spec());
    bench.reply(text("  "));
    let [Effect::CallModel { step: 2, request }] = &bench.run.pending()[..] else { panic!() };
    assert!(matches!(&request.messages[..], [_, Message::User { content }] if content.contains("empty")));
    let mut other = Bench { run: bench.run.clone(), millis: 0 };
    bench.reply(text(""));
    assert_eq!(bench.ending().reason.as_deref(), Some("empty_reply"));
    assert_eq!(bench.ending().status, RunStatus::Completed);
    other.reply(text("now I know"));
    assert_eq!((other.ending().reason.as_deref(), other.outputs().response.as_str()), (None, "now I know"));
}

#[test]
fn calls_in_a_reply_that_ran_out_of_tokens_still_run() {
    let mut bench = Bench::new(spec());
    let mut reply = calls(vec![call("a", "search", json!(1))]);
    reply.stop = StopReason::MaxTokens;
    bench.reply(reply);
    bench.prepare();
    assert_eq!(bench.running()[0].facts.effects, SideEffects::Reads);
}
