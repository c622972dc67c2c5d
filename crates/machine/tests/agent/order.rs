//! Which calls run at once, which wait for each other, and in which order results are told.

use serde_json::{Value, json};
use toolwright_machine::agent::{CallToPrepare, Decision, Prepared, Spec};
use toolwright_types::CallId;

use crate::bench::*;

fn inputs(bench: &Bench) -> Vec<Value> {
    bench.running().into_iter().map(|call| call.input).collect()
}

#[test]
fn results_are_told_in_call_order_however_they_come() {
    let mut bench = Bench::new(spec());
    bench.ask((0..4).map(|n| call(&format!("m{n}"), "search", json!(n))).collect());
    let running = bench.running();
    for at in [2, 0, 3, 1] {
        bench.end_call(&running[at], Ok(json!(format!("r{at}"))));
    }
    assert_eq!(bench.told(), [r#""r0""#, r#""r1""#, r#""r2""#, r#""r3""#]);
    let order: Vec<CallId> = running.iter().map(|call| call.call_id.clone()).collect();
    assert_eq!(bench.outputs().tool_order, order, "ties of the start are broken by emission");
}

#[test]
fn no_more_run_at_once_than_there_are_places() {
    let mut bench = Bench::new(Spec { max_parallel_calls: 2, ..spec() });
    bench.ask((0..4).map(|n| call("a", "search", json!(n))).collect());
    assert_eq!(inputs(&bench), [json!(0), json!(1)]);
    let second = bench.running().remove(1);
    bench.end_call(&second, Ok(json!(null)));
    assert_eq!(inputs(&bench), [json!(0), json!(2)]);
}

#[test]
fn a_model_that_may_ask_one_at_a_time_is_served_one_at_a_time() {
    let mut request = request();
    request.parallel_tool_calls = false;
    let mut bench = Bench::new(Spec { request, ..spec() });
    bench.ask((0..2).map(|n| call("a", "search", json!(n))).collect());
    assert_eq!(inputs(&bench), [json!(0)]);
}

#[test]
fn a_call_that_waits_for_a_person_takes_no_place() {
    let mut bench = Bench::new(Spec { max_parallel_calls: 1, ..spec() });
    bench.ask(vec![call("a", "pay", json!(0)), call("b", "search", json!(1))]);
    assert_eq!(inputs(&bench), [json!(1)]);
}

#[test]
fn calls_that_share_a_key_run_one_after_the_other() {
    let keyed = |call: &CallToPrepare| {
        let mut facts = facts(&call.tool);
        facts.order_keys = call.input["keys"].as_array().unwrap().iter().map(Value::to_string).collect();
        Prepared::Ready(Box::new(facts))
    };
    let mut bench = Bench::new(spec());
    let wish = |n: i64, tool: &str, keys: Value| call("a", tool, json!({ "n": n, "keys": keys }));
    bench.reply(calls(vec![
        wish(0, "pay", json!(["x"])),
        wish(1, "save", json!(["x", "y"])),
        wish(2, "save", json!(["y"])),
        wish(3, "save", json!(["z"])),
    ]));
    bench.prepare_as(keyed);
    let numbers = |bench: &Bench| -> Vec<i64> { inputs(bench).iter().map(|i| i["n"].as_i64().unwrap()).collect() };
    assert_eq!(numbers(&bench), [3], "one waits for a person, and those behind it wait for their turn");
    bench.end_all();
    assert!(bench.run.suspended());
    let id = bench.run.approvals()[0].call_id.clone();
    bench.decide(&id, Decision::Deny { reason: None }).unwrap();
    assert_eq!(numbers(&bench), [1]);
    bench.end_all();
    assert_eq!(numbers(&bench), [2]);
    bench.end_all();
    assert_eq!(bench.told().len(), 4);
}

#[test]
fn equal_calls_are_numbered_as_the_model_emitted_them() {
    let mut bench = Bench::new(spec());
    bench.ask(vec![call("a", "search", json!(1)), call("b", "save", json!(1)), call("c", "search", json!(1))]);
    let ids: Vec<CallId> = bench.running().into_iter().map(|call| call.call_id).collect();
    let id = |tool: &str, seq| CallId::derive(tool, "1.0.0", &json!(1), seq);
    assert_eq!(ids, [id("search", 0), id("save", 0), id("search", 1)]);
}
