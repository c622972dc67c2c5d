//! Scheduling: which calls run concurrently, which run one after the other, and the order of their tool messages.

use serde_json::{Value, json};
use toolwright_machine::agent::{CallToPrepare, Decision, PreparedCall, RunSpec};
use toolwright_types::CallId;

use crate::harness::*;

fn inputs(harness: &Harness) -> Vec<Value> {
    harness.running().into_iter().map(|call| call.input).collect()
}

#[test]
fn tool_messages_follow_call_order_regardless_of_completion_order() {
    let mut harness = Harness::new(spec());
    harness.request_calls((0..4).map(|n| call(&format!("m{n}"), "search", json!(n))).collect());
    let running = harness.running();
    for at in [2, 0, 3, 1] {
        harness.end_call(&running[at], Ok(json!(format!("r{at}"))));
    }
    assert_eq!(harness.tool_contents(), [r#""r0""#, r#""r1""#, r#""r2""#, r#""r3""#]);
    let started: Vec<CallId> = running.iter().map(|call| call.call_id.clone()).collect();
    assert_eq!(harness.outputs().tool_order, started, "calls that start together are ordered by emission");
}

#[test]
fn concurrent_calls_are_limited_by_max_parallel_calls() {
    let mut harness = Harness::new(RunSpec { max_parallel_calls: 2, ..spec() });
    harness.request_calls((0..4).map(|n| call("a", "search", json!(n))).collect());
    assert_eq!(inputs(&harness), [json!(0), json!(1)]);
    let second = harness.running().remove(1);
    harness.end_call(&second, Ok(json!(null)));
    assert_eq!(inputs(&harness), [json!(0), json!(2)]);
}

#[test]
fn calls_run_one_at_a_time_if_parallel_tool_calls_is_false() {
    let mut request = request();
    request.parallel_tool_calls = false;
    let mut harness = Harness::new(RunSpec { request, ..spec() });
    harness.request_calls((0..2).map(|n| call("a", "search", json!(n))).collect());
    assert_eq!(inputs(&harness), [json!(0)]);
}

#[test]
fn call_awaiting_approval_does_not_count_toward_max_parallel_calls() {
    let mut harness = Harness::new(RunSpec { max_parallel_calls: 1, ..spec() });
    harness.request_calls(vec![call("a", "pay", json!(0)), call("b", "search", json!(1))]);
    assert_eq!(inputs(&harness), [json!(1)]);
}

#[test]
fn calls_that_share_an_order_key_run_in_sequence() {
    let with_order_keys = |call: &CallToPrepare| {
        let mut facts = facts(&call.tool);
        facts.order_keys = call.input["keys"].as_array().unwrap().iter().map(Value::to_string).collect();
        PreparedCall::Ready(Box::new(facts))
    };
    let mut harness = Harness::new(spec());
    let request = |n: i64, tool: &str, keys: Value| call("a", tool, json!({ "n": n, "keys": keys }));
    harness.reply(calls(vec![
        request(0, "pay", json!(["x"])),
        request(1, "save", json!(["x", "y"])),
        request(2, "save", json!(["y"])),
        request(3, "save", json!(["z"])),
    ]));
    harness.prepare_as(with_order_keys);
    let numbers =
        |harness: &Harness| -> Vec<i64> { inputs(harness).iter().map(|i| i["n"].as_i64().unwrap()).collect() };
    assert_eq!(numbers(&harness), [3], "one call awaits approval, and later calls wait for its key");
    harness.end_all();
    assert!(harness.run.suspended());
    let id = harness.run.pending_approvals()[0].call_id.clone();
    harness.decide(&id, Decision::Deny { reason: None }).unwrap();
    assert_eq!(numbers(&harness), [1]);
    harness.end_all();
    assert_eq!(numbers(&harness), [2]);
    harness.end_all();
    assert_eq!(harness.tool_contents().len(), 4);
}

#[test]
fn ids_of_equal_calls_in_one_reply_are_numbered_in_call_order() {
    let mut harness = Harness::new(spec());
    harness.request_calls(vec![
        call("a", "search", json!(1)),
        call("b", "save", json!(1)),
        call("c", "search", json!(1)),
    ]);
    let ids: Vec<CallId> = harness.running().into_iter().map(|call| call.call_id).collect();
    let id = |tool: &str, seq| CallId::derive(tool, "1.0.0", &json!(1), seq);
    assert_eq!(ids, [id("search", 0), id("save", 0), id("search", 1)]);
}
