//! Limits: a run that exceeds a limit ends and keeps the results of earlier calls.

use serde_json::json;
use toolwright_machine::agent::{EventKind, RunSpec};
use toolwright_machine::{Limits, RunStatus};
use toolwright_types::ErrorCode;

use crate::harness::*;

fn with_limits(limits: Limits) -> Harness {
    Harness::new(RunSpec { limits, ..spec() })
}

#[test]
fn run_ends_after_the_last_allowed_iteration() {
    let mut harness = with_limits(Limits::default());
    for step in 1..=10 {
        assert_eq!(harness.run.status(), RunStatus::Running, "{step}");
        harness.request_calls(vec![call("a", "search", json!(step))]);
        harness.end_all();
    }
    assert_eq!(harness.ending().status, RunStatus::MaxIterations);
    assert_eq!(harness.ending().reason.as_deref(), Some("MAX_STEPS_EXCEEDED"));
    assert_eq!(harness.outputs().tool_order.len(), 10);
}

#[test]
fn call_above_the_tool_call_limit_is_refused_and_running_calls_finish() {
    let mut harness = with_limits(Limits { max_tool_calls: 2, ..Limits::default() });
    harness.request_calls((0..4).map(|n| call("x", "save", json!(n))).collect());
    assert_eq!(harness.running().len(), 2);
    assert_eq!(harness.run.status(), RunStatus::Running);
    harness.end_all();
    assert_eq!(harness.ending().status, RunStatus::BudgetExceeded);
    assert_eq!(harness.ending().reason.as_deref(), Some("MAX_TOOL_CALLS_EXCEEDED"));
    let refused = denied("save", "MAX_TOOL_CALLS_EXCEEDED");
    assert_eq!(harness.results(), [succeeded("save"), succeeded("save"), refused.clone(), refused]);
    assert_eq!(harness.tool_contents().len(), 4);
}

#[test]
fn run_continues_after_the_last_allowed_tool_call() {
    let mut harness = with_limits(Limits { max_tool_calls: 1, ..Limits::default() });
    harness.request_calls(vec![call("a", "search", json!(1))]);
    harness.end_all();
    harness.reply(text("fine"));
    assert_eq!(harness.ending().status, RunStatus::Completed);
}

#[test]
fn refused_calls_do_not_count_toward_the_tool_call_limit() {
    let mut harness = with_limits(Limits { max_tool_calls: 1, ..Limits::default() });
    harness.request_calls(vec![call("a", "hidden", json!(1)), call("b", "search", json!(1))]);
    harness.end_all();
    assert_eq!(harness.run.status(), RunStatus::Running);
}

#[test]
fn call_awaiting_approval_is_refused_when_the_tool_call_limit_is_reached() {
    let mut harness = with_limits(Limits { max_tool_calls: 1, ..Limits::default() });
    harness.request_calls(vec![
        call("p", "pay", json!(1)),
        call("a", "search", json!(1)),
        call("b", "search", json!(2)),
    ]);
    assert!(harness.run.pending_approvals().is_empty());
    harness.end_all();
    let refused = |tool: &str| denied(tool, "MAX_TOOL_CALLS_EXCEEDED");
    assert_eq!(harness.results(), [succeeded("search"), refused("pay"), refused("search")]);
}

#[test]
fn call_is_refused_and_the_run_ends_when_the_token_limit_is_exceeded() {
    let mut harness = with_limits(Limits { max_tokens: Some(20), ..Limits::default() });
    harness.request_calls(vec![call("a", "search", json!(1))]);
    harness.end_all();
    harness.reply(calls(vec![call("b", "search", json!(2))]));
    harness.prepare();
    assert_eq!(harness.ending().status, RunStatus::BudgetExceeded);
    assert_eq!(harness.results(), [succeeded("search"), denied("search", "MAX_TOKENS_EXCEEDED")]);
}

#[test]
fn cost_of_model_and_tool_calls_counts_toward_the_cost_limit() {
    let mut harness = with_limits(Limits { max_cost_usd: Some(0.10), ..Limits::default() });
    harness.request_calls(vec![call("a", "search", json!(1))]);
    let search = harness.running().remove(0);
    let mut paid = envelope_of(&search, Ok(json!(1)));
    paid.metadata.cost_usd = Some(0.095);
    harness.apply(EventKind::call_ended(paid));
    assert_eq!(harness.ending().reason.as_deref(), Some("MAX_COST_EXCEEDED"));
    assert_eq!(harness.ending().status, RunStatus::BudgetExceeded);
    assert!(harness.run.warnings().is_empty());
}

#[test]
fn answer_completes_the_run_even_above_the_cost_limit() {
    let mut harness = with_limits(Limits { max_cost_usd: Some(0.001), ..Limits::default() });
    harness.reply(text("forty-two"));
    assert_eq!(harness.ending().status, RunStatus::Completed);
}

#[test]
fn unknown_model_price_counts_as_zero_and_warns_once() {
    let mut harness = with_limits(Limits { max_cost_usd: Some(0.0), ..Limits::default() });
    for n in 0..2 {
        let mut reply = calls(vec![call("a", "search", json!(n))]);
        reply.cost_usd = None;
        harness.reply(reply);
        harness.prepare();
        harness.end_all();
    }
    assert_eq!(harness.run.status(), RunStatus::Running);
    assert_eq!(harness.run.warnings(), ["the price of model `scripted` is not known; it counts as 0"]);
}

#[test]
fn timeout_ends_running_and_waiting_calls() {
    let mut harness = with_limits(Limits { timeout_ms: Some(1000), ..Limits::default() });
    harness.request_calls(vec![call("a", "save", json!(1)), call("b", "pay", json!(2))]);
    assert_eq!(harness.run.wake_at(), Some(at(1000)));
    harness.millis = 999;
    harness.apply(EventKind::TimerFired);
    assert_eq!(harness.run.status(), RunStatus::Running);
    harness.millis = 1000;
    harness.apply(EventKind::TimerFired);
    assert_eq!(harness.ending().status, RunStatus::Timeout);
    let timeout = ("save".to_owned(), Some(ErrorCode::Timeout), Some("TIMEOUT".to_owned()));
    assert_eq!(harness.results(), [timeout, denied("pay", "TIMEOUT")]);
}

#[test]
fn timeout_is_checked_before_each_model_and_tool_call() {
    let timeout = || Limits { timeout_ms: Some(1000), ..Limits::default() };
    let mut tool = with_limits(timeout());
    tool.reply(calls(vec![call("a", "save", json!(1))]));
    tool.millis = 1500;
    tool.prepare();
    assert_eq!(tool.results(), [denied("save", "TIMEOUT")]);
    let mut model = with_limits(timeout());
    model.request_calls(vec![call("a", "save", json!(1))]);
    model.millis = 1500;
    model.end_all();
    assert_eq!(model.results(), [succeeded("save")]);
    assert_eq!((model.ending().status, model.ending().reason.as_deref()), (RunStatus::Timeout, Some("TIMEOUT")));
}

#[test]
fn time_awaiting_approval_is_not_active_time() {
    let mut harness = with_limits(Limits { timeout_ms: Some(1000), ..Limits::default() });
    harness.millis = 400;
    harness.request_calls(vec![call("a", "pay", json!(1))]);
    assert!(harness.run.suspended());
    assert_eq!(harness.run.wake_at(), None);
    harness.millis = 86_400_000;
    harness.apply(EventKind::TimerFired);
    let id = harness.run.pending_approvals()[0].call_id.clone();
    harness.decide(&id, toolwright_machine::agent::Decision::Approve).unwrap();
    assert_eq!(harness.run.wake_at(), Some(at(86_400_600)));
    harness.prepare_again();
    harness.end_all();
    harness.reply(text("paid"));
    assert_eq!(harness.ending().status, RunStatus::Completed);
}

#[test]
fn clock_that_goes_back_does_not_change_active_time() {
    let mut harness = with_limits(Limits { timeout_ms: Some(1000), ..Limits::default() });
    harness.millis = 900;
    harness.request_calls(vec![call("a", "search", json!(1))]);
    harness.millis = -5000;
    harness.end_all();
    harness.millis = 950;
    harness.apply(EventKind::TimerFired);
    assert_eq!(harness.run.resource_usage().active_us, 950_000);
}
