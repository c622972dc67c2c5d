//! Limits: what is allowed is allowed, one more ends the run, and what there is stays.

use serde_json::json;
use toolwright_machine::agent::{Happened, Spec};
use toolwright_machine::{Limits, RunStatus};
use toolwright_types::ErrorCode;

use crate::bench::*;

fn limited(limits: Limits) -> Bench {
    Bench::new(Spec { limits, ..spec() })
}

#[test]
fn step_ten_of_ten_is_allowed_and_step_eleven_is_not() {
    let mut bench = limited(Limits::default());
    for step in 1..=10 {
        assert_eq!(bench.run.status(), RunStatus::Running, "{step}");
        bench.ask(vec![call("a", "search", json!(step))]);
        bench.end_all();
    }
    assert_eq!(bench.ending().status, RunStatus::MaxIterations);
    assert_eq!(bench.ending().reason.as_deref(), Some("MAX_STEPS_EXCEEDED"));
    assert_eq!(bench.outputs().tool_order.len(), 10);
}

#[test]
fn a_call_beyond_the_limit_is_refused_and_those_under_way_finish() {
    let mut bench = limited(Limits { max_tool_calls: 2, ..Limits::default() });
    bench.ask((0..4).map(|n| call("x", "save", json!(n))).collect());
    assert_eq!(bench.running().len(), 2);
    assert_eq!(bench.run.status(), RunStatus::Running);
    bench.end_all();
    assert_eq!(bench.ending().status, RunStatus::BudgetExceeded);
    assert_eq!(bench.ending().reason.as_deref(), Some("MAX_TOOL_CALLS_EXCEEDED"));
    let refused = denied("save", "MAX_TOOL_CALLS_EXCEEDED");
    assert_eq!(bench.receipts(), [fine("save"), fine("save"), refused.clone(), refused]);
    assert_eq!(bench.told().len(), 4);
}

#[test]
fn the_last_allowed_call_does_not_end_the_run() {
    let mut bench = limited(Limits { max_tool_calls: 1, ..Limits::default() });
    bench.ask(vec![call("a", "search", json!(1))]);
    bench.end_all();
    bench.reply(text("fine"));
    assert_eq!(bench.ending().status, RunStatus::Completed);
}

#[test]
fn refused_calls_do_not_use_up_the_limit() {
    let mut bench = limited(Limits { max_tool_calls: 1, ..Limits::default() });
    bench.ask(vec![call("a", "hidden", json!(1)), call("b", "search", json!(1))]);
    bench.end_all();
    assert_eq!(bench.run.status(), RunStatus::Running);
}

#[test]
fn a_call_that_waits_for_a_person_is_given_up_when_the_limit_is_met() {
    let mut bench = limited(Limits { max_tool_calls: 1, ..Limits::default() });
    bench.ask(vec![call("p", "pay", json!(1)), call("a", "search", json!(1)), call("b", "search", json!(2))]);
    assert!(bench.run.approvals().is_empty());
    bench.end_all();
    let refused = |tool: &str| denied(tool, "MAX_TOOL_CALLS_EXCEEDED");
    assert_eq!(bench.receipts(), [fine("search"), refused("pay"), refused("search")]);
}

#[test]
fn tokens_are_counted_live() {
    let mut bench = limited(Limits { max_tokens: Some(20), ..Limits::default() });
    bench.ask(vec![call("a", "search", json!(1))]);
    bench.end_all();
    bench.reply(calls(vec![call("b", "search", json!(2))]));
    bench.prepare();
    assert_eq!(bench.ending().status, RunStatus::BudgetExceeded);
    assert_eq!(bench.receipts(), [fine("search"), denied("search", "MAX_TOKENS_EXCEEDED")]);
}

#[test]
fn money_is_counted_from_models_and_tools() {
    let mut bench = limited(Limits { max_cost_usd: Some(0.10), ..Limits::default() });
    bench.ask(vec![call("a", "search", json!(1))]);
    let search = bench.running().remove(0);
    let mut paid = receipt(&search, Ok(json!(1)));
    paid.metadata.cost_usd = Some(0.095);
    bench.tell(Happened::ended(paid));
    assert_eq!(bench.ending().reason.as_deref(), Some("MAX_COST_EXCEEDED"));
    assert_eq!(bench.ending().status, RunStatus::BudgetExceeded);
    assert!(bench.run.warnings().is_empty());
}

#[test]
fn an_answer_is_an_answer_even_if_it_was_the_last_money() {
    let mut bench = limited(Limits { max_cost_usd: Some(0.001), ..Limits::default() });
    bench.reply(text("forty-two"));
    assert_eq!(bench.ending().status, RunStatus::Completed);
}

#[test]
fn an_unknown_price_counts_nothing_and_warns_once() {
    let mut bench = limited(Limits { max_cost_usd: Some(0.0), ..Limits::default() });
    for n in 0..2 {
        let mut reply = calls(vec![call("a", "search", json!(n))]);
        reply.cost_usd = None;
        bench.reply(reply);
        bench.prepare();
        bench.end_all();
    }
    assert_eq!(bench.run.status(), RunStatus::Running);
    assert_eq!(bench.run.warnings(), ["the price of model `scripted` is not known; it counts as 0"]);
}

#[test]
fn time_is_up_for_what_runs_and_for_what_has_not_begun() {
    let mut bench = limited(Limits { timeout_ms: Some(1000), ..Limits::default() });
    bench.ask(vec![call("a", "save", json!(1)), call("b", "pay", json!(2))]);
    assert_eq!(bench.run.wake_at(), Some(at(1000)));
    bench.millis = 999;
    bench.tell(Happened::TimePassed);
    assert_eq!(bench.run.status(), RunStatus::Running);
    bench.millis = 1000;
    bench.tell(Happened::TimePassed);
    assert_eq!(bench.ending().status, RunStatus::Timeout);
    let timeout = ("save".to_owned(), Some(ErrorCode::Timeout), Some("TIMEOUT".to_owned()));
    assert_eq!(bench.receipts(), [timeout, denied("pay", "TIMEOUT")]);
}

#[test]
fn time_is_checked_before_each_model_call_and_each_tool_call() {
    let timeout = || Limits { timeout_ms: Some(1000), ..Limits::default() };
    let mut tool = limited(timeout());
    tool.reply(calls(vec![call("a", "save", json!(1))]));
    tool.millis = 1500;
    tool.prepare();
    assert_eq!(tool.receipts(), [denied("save", "TIMEOUT")]);
    let mut model = limited(timeout());
    model.ask(vec![call("a", "save", json!(1))]);
    model.millis = 1500;
    model.end_all();
    assert_eq!(model.receipts(), [fine("save")]);
    assert_eq!((model.ending().status, model.ending().reason.as_deref()), (RunStatus::Timeout, Some("TIMEOUT")));
}

#[test]
fn time_spent_waiting_for_a_person_is_not_the_runs() {
    let mut bench = limited(Limits { timeout_ms: Some(1000), ..Limits::default() });
    bench.millis = 400;
    bench.ask(vec![call("a", "pay", json!(1))]);
    assert!(bench.run.suspended());
    assert_eq!(bench.run.wake_at(), None);
    bench.millis = 86_400_000;
    bench.tell(Happened::TimePassed);
    let id = bench.run.approvals()[0].call_id.clone();
    bench.decide(&id, toolwright_machine::agent::Decision::Approve).unwrap();
    assert_eq!(bench.run.wake_at(), Some(at(86_400_600)));
    bench.prepare_again();
    bench.end_all();
    bench.reply(text("paid"));
    assert_eq!(bench.ending().status, RunStatus::Completed);
}

#[test]
fn a_clock_that_runs_backwards_is_not_believed() {
    let mut bench = limited(Limits { timeout_ms: Some(1000), ..Limits::default() });
    bench.millis = 900;
    bench.ask(vec![call("a", "search", json!(1))]);
    bench.millis = -5000;
    bench.end_all();
    bench.millis = 950;
    bench.tell(Happened::TimePassed);
    assert_eq!(bench.run.spent().active_us, 950_000);
}
