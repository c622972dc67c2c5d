//! Errors that a model makes, and the error messages that help the model to correct them.

use serde_json::json;
use toolwright_machine::agent::RunSpec;
use toolwright_types::{Arguments, CallId, ErrorCode, OfferedTool, RequestedCall};

use crate::harness::*;

#[test]
fn call_to_an_unknown_tool_is_refused_and_the_error_lists_available_tools() {
    let mut request = request();
    let search = OfferedTool { name: "search".into(), description: String::new(), input_schema: json!({}) };
    request.tools = vec![search].into();
    let mut harness = Harness::new(RunSpec { request, ..spec() });
    harness.request_calls(vec![call("a", "serach", json!({ "q": 1 }))]);
    let outputs = harness.outputs();
    let envelope = outputs.in_order().next().unwrap();
    assert_eq!(harness.results(), [denied("serach", "unknown_tool")]);
    assert_eq!((envelope.version.as_str(), &envelope.input), ("", &json!({ "q": 1 })));
    assert_eq!(envelope.call_id, CallId::derive("serach", "", &json!({ "q": 1 }), 0));
    assert!(harness.tool_contents()[0].contains("available tools: `search`"), "{:?}", harness.tool_contents());
}

#[test]
fn malformed_arguments_give_a_validation_error_and_keep_the_raw_text() {
    let mut harness = Harness::new(spec());
    let arguments = Arguments::Malformed("{\"q\": ".into());
    harness.request_calls(vec![RequestedCall { id: "a".into(), name: "search".into(), arguments }]);
    let outputs = harness.outputs();
    let envelope = outputs.in_order().next().unwrap();
    assert_eq!(envelope.error.as_ref().unwrap().code, ErrorCode::ValidationError);
    assert_eq!(reason(envelope).as_deref(), Some("malformed_json"));
    assert_eq!((&envelope.input, envelope.version.as_str()), (&json!("{\"q\": "), "1.0.0"));
    assert_eq!(envelope.call_id, CallId::derive("search", "1.0.0", &json!("{\"q\": "), 0));
}

#[test]
fn arguments_and_output_nested_over_64_levels_are_kept_as_text() {
    let mut deep = json!(1);
    for _ in 0..120 {
        deep = json!([deep]);
    }
    let mut harness = Harness::new(spec());
    harness.request_calls(vec![call("a", "search", deep.clone()), call("b", "search", json!(1))]);
    harness.end_call(&harness.running()[0].clone(), Ok(deep.clone()));
    let outputs = harness.outputs();
    let [refused, kept] = outputs.in_order().collect::<Vec<_>>().try_into().unwrap();
    assert_eq!(refused.input, json!(deep.to_string()));
    assert_eq!(kept.output, json!(deep.to_string()));
    assert!(kept.metadata.warnings[0].contains("nested deeper"));
    assert_eq!(toolwright_machine::AgentRun::restore(&harness.run.save()).unwrap(), harness.run);
}

#[test]
fn second_repeat_of_a_call_returns_a_warning_and_third_repeat_is_refused() {
    let mut harness = Harness::new(spec());
    for _ in 0..5 {
        harness.request_calls(vec![call("a", "search", json!({ "q": 1, "r": 2 }))]);
        harness.end_all();
    }
    let suppressed = denied("search", "suppressed_repeat");
    assert_eq!(
        harness.results(),
        [succeeded("search"), succeeded("search"), succeeded("search"), suppressed.clone(), suppressed]
    );
    let warned: Vec<bool> =
        harness.tool_contents().iter().map(|content| content.contains("was already made")).collect();
    assert_eq!(warned, [false, false, true, false, false]);
    assert_eq!(harness.run.resource_usage().tool_calls, 3);
}

#[test]
fn equal_calls_in_one_reply_and_calls_with_other_inputs_are_not_repeats() {
    let mut harness = Harness::new(spec());
    harness.request_calls((0..5).map(|_| call("a", "search", json!(1))).collect());
    harness.end_all();
    assert!(harness.results().iter().all(|result| *result == succeeded("search")), "no result was available yet");
    for n in 2..5 {
        harness.request_calls(vec![call("a", "search", json!(n))]);
        harness.end_all();
    }
    assert_eq!(harness.run.resource_usage().tool_calls, 8);
}

#[test]
fn equal_refused_calls_in_one_reply_are_not_repeats() {
    let mut harness = Harness::new(spec());
    harness.request_calls((0..4).map(|_| call("a", "hidden", json!(1))).collect());
    assert!(harness.results().iter().all(|result| *result == denied("hidden", "not_allowed")));
    assert_eq!(harness.outputs().tools_by_id.len(), 4);
}

#[test]
fn call_with_the_same_fields_in_another_order_is_a_repeat() {
    let mut harness = Harness::new(spec());
    for input in [json!({ "a": 1, "b": 2 }), json!({ "b": 2, "a": 1.0 }), json!({ "b": 2, "a": 1 })] {
        harness.request_calls(vec![call("a", "search", input)]);
        harness.end_all();
    }
    assert!(harness.tool_contents()[2].contains("was already made"));
}
