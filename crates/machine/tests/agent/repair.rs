//! What a model gets wrong, and how it is helped.

use serde_json::json;
use toolwright_machine::agent::Spec;
use toolwright_types::{Arguments, CallId, ErrorCode, OfferedTool, RequestedCall};

use crate::bench::*;

#[test]
fn an_unknown_tool_is_denied_and_the_known_ones_are_named() {
    let mut request = request();
    let search = OfferedTool { name: "search".into(), description: String::new(), input_schema: json!({}) };
    request.tools = vec![search].into();
    let mut bench = Bench::new(Spec { request, ..spec() });
    bench.ask(vec![call("a", "serach", json!({ "q": 1 }))]);
    let outputs = bench.outputs();
    let envelope = outputs.in_order().next().unwrap();
    assert_eq!(bench.receipts(), [denied("serach", "unknown_tool")]);
    assert_eq!((envelope.version.as_str(), &envelope.input), ("", &json!({ "q": 1 })));
    assert_eq!(envelope.call_id, CallId::derive("serach", "", &json!({ "q": 1 }), 0));
    assert!(bench.told()[0].contains("there are `search`"), "{:?}", bench.told());
}

#[test]
fn malformed_arguments_are_a_validation_error_over_the_raw_text() {
    let mut bench = Bench::new(spec());
    let arguments = Arguments::Malformed("{\"q\": ".into());
    bench.ask(vec![RequestedCall { id: "a".into(), name: "search".into(), arguments }]);
    let outputs = bench.outputs();
    let envelope = outputs.in_order().next().unwrap();
    assert_eq!(envelope.error.as_ref().unwrap().code, ErrorCode::ValidationError);
    assert_eq!(reason(envelope).as_deref(), Some("malformed_json"));
    assert_eq!((&envelope.input, envelope.version.as_str()), (&json!("{\"q\": "), "1.0.0"));
    assert_eq!(envelope.call_id, CallId::derive("search", "1.0.0", &json!("{\"q\": "), 0));
}

#[test]
fn arguments_that_are_nested_too_deep_are_refused_and_kept_as_text() {
    let mut deep = json!(1);
    for _ in 0..120 {
        deep = json!([deep]);
    }
    let mut bench = Bench::new(spec());
    bench.ask(vec![call("a", "search", deep.clone()), call("b", "search", json!(1))]);
    bench.end_call(&bench.running()[0].clone(), Ok(deep.clone()));
    let outputs = bench.outputs();
    let [refused, kept] = outputs.in_order().collect::<Vec<_>>().try_into().unwrap();
    assert_eq!(refused.input, json!(deep.to_string()));
    assert_eq!(kept.output, json!(deep.to_string()));
    assert!(kept.metadata.warnings[0].contains("nested deeper"));
    assert_eq!(toolwright_machine::AgentRun::restore(&bench.run.save()).unwrap(), bench.run);
}

#[test]
fn the_second_repeat_warns_and_the_third_is_suppressed() {
    let mut bench = Bench::new(spec());
    for _ in 0..5 {
        bench.ask(vec![call("a", "search", json!({ "q": 1, "r": 2 }))]);
        bench.end_all();
    }
    let suppressed = denied("search", "suppressed_repeat");
    assert_eq!(bench.receipts(), [fine("search"), fine("search"), fine("search"), suppressed.clone(), suppressed]);
    let warned: Vec<bool> = bench.told().iter().map(|told| told.contains("was made before")).collect();
    assert_eq!(warned, [false, false, true, false, false]);
    assert_eq!(bench.run.spent().tool_calls, 3);
}

#[test]
fn neighbours_and_other_inputs_are_no_repeats() {
    let mut bench = Bench::new(spec());
    bench.ask((0..5).map(|_| call("a", "search", json!(1))).collect());
    bench.end_all();
    assert!(bench.receipts().iter().all(|receipt| *receipt == fine("search")), "no result was there to look at");
    for n in 2..5 {
        bench.ask(vec![call("a", "search", json!(n))]);
        bench.end_all();
    }
    assert_eq!(bench.run.spent().tool_calls, 8);
}

#[test]
fn refused_neighbours_are_no_repeats_either() {
    let mut bench = Bench::new(spec());
    bench.ask((0..4).map(|_| call("a", "hidden", json!(1))).collect());
    assert!(bench.receipts().iter().all(|receipt| *receipt == denied("hidden", "not_allowed")));
    assert_eq!(bench.outputs().tools_by_id.len(), 4);
}

#[test]
fn a_repeat_is_known_whatever_the_order_of_its_fields() {
    let mut bench = Bench::new(spec());
    for input in [json!({ "a": 1, "b": 2 }), json!({ "b": 2, "a": 1.0 }), json!({ "b": 2, "a": 1 })] {
        bench.ask(vec![call("a", "search", input)]);
        bench.end_all();
    }
    assert!(bench.told()[2].contains("was made before"));
}
