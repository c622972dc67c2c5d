//! Which call a pin selects, also if calls failed, were refused or do not exist.

use serde_json::{Value, json};
use toolwright_machine::{AgentOutputs, PinError, resolve_pins};
use toolwright_types::{ErrorCode, PinnedHandle, ToolEnvelope, ToolError};

use crate::harness::envelope;

fn envelope_of(tool: &str, input: Value, ok: bool) -> ToolEnvelope {
    let error = || ToolError::new(ErrorCode::NetworkError, "down");
    envelope(tool, "1.0.0", input.clone(), if ok { Ok(input) } else { Err(error()) })
}

fn outputs() -> AgentOutputs {
    let calls = [
        envelope_of("search", json!(1), false),
        envelope_of("search", json!(2), true),
        envelope_of("other", json!(9), true),
        envelope_of("search", json!(3), true),
        envelope_of("search", json!(4), false),
    ];
    AgentOutputs::new("done".into(), calls, None)
}

fn resolve(pin: Value, outputs: &AgentOutputs) -> Result<Value, PinError> {
    let pin: PinnedHandle = serde_json::from_value(pin).unwrap();
    let stale = |tool: &str| (tool == "search").then(|| envelope_of("search", json!("stale"), true));
    let values = resolve_pins(outputs, &[pin], stale)?;
    Ok(values["p"].as_ref().map_or(Value::Null, |envelope| envelope.input.clone()))
}

#[test]
fn pin_strategy_determines_which_call_of_the_tool_is_selected() {
    let id = envelope_of("search", json!(3), true).call_id;
    for (selector, input) in [
        (json!({ "tool": "search" }), json!(4)),
        (json!({ "tool": "search", "strategy": "latest", "call_id": null }), json!(4)),
        (json!({ "tool": "Search", "strategy": "first_success" }), json!(2)),
        (json!({ "tool": "search", "strategy": "by_call_id", "call_id": id }), json!(3)),
        (json!({ "tool": "other", "strategy": "by_call_id", "call_id": id }), json!(null)),
        (json!({ "tool": "absent" }), json!(null)),
    ] {
        assert_eq!(resolve(json!({ "name": "p", "selector": selector }), &outputs()).unwrap(), input, "{selector}");
    }
}

#[test]
fn value_of_a_pin_without_a_matching_call_depends_on_the_on_missing_setting() {
    let empty = AgentOutputs::default();
    let pin = |tool: &str, on: &str| json!({ "name": "p", "selector": { "tool": tool }, "on_missing": on });
    assert_eq!(resolve(pin("search", "null"), &empty), Ok(json!(null)));
    assert_eq!(resolve(pin("search", "stale_last_success"), &empty), Ok(json!("stale")));
    assert_eq!(resolve(pin("other", "stale_last_success"), &empty), Ok(json!(null)));
    assert_eq!(resolve(pin("search", "stale_last_success"), &outputs()), Ok(json!(4)), "a failed call is not missing");
    let missing = PinError::Missing { pin: "p".into(), tool: "search".into() };
    assert_eq!(resolve(pin("search", "error"), &empty), Err(missing));
}

#[test]
fn pin_is_null_if_its_tool_is_disabled_blocked_or_not_allowed() {
    for reason in ["disabled", "blocked", "not_allowed", "unknown_tool"] {
        let error = ToolError::new(ErrorCode::PolicyDenied, "no").reason(reason);
        let outputs = AgentOutputs::new(String::new(), [envelope("search", "1.0.0", json!(1), Err(error))], None);
        let pin = json!({ "name": "p", "selector": { "tool": "search" } });
        assert_eq!(resolve(pin, &outputs), Ok(json!(null)), "{reason}");
    }
}

#[test]
fn pin_serializes_to_its_published_format_and_invalid_pin_is_rejected() {
    let written = json!({
        "name": "weather", "selector": { "tool": "http", "strategy": "by_call_id", "call_id": "call_x" },
        "on_missing": "stale_last_success"
    });
    let pin: PinnedHandle = serde_json::from_value(written.clone()).unwrap();
    assert_eq!(serde_json::to_value(pin).unwrap(), written);
    for bad in [
        json!({ "name": "p", "selector": { "tool": "a", "strategy": "by_call_id" } }),
        json!({ "name": "p", "selector": { "tool": "a", "strategy": "latest", "call_id": "call_x" } }),
        json!({ "name": "p", "selector": { "tool": "a", "stratgy": "latest" } }),
        json!({ "name": "p", "selector": { "tool": "a" }, "on_missing": "none" }),
    ] {
        assert!(serde_json::from_value::<PinnedHandle>(bad.clone()).is_err(), "{bad}");
    }
}

#[test]
fn duplicate_pin_name_is_rejected() {
    let pin: PinnedHandle = serde_json::from_value(json!({ "name": "p", "selector": { "tool": "a" } })).unwrap();
    let error = resolve_pins(&outputs(), &[pin.clone(), pin], |_| None).unwrap_err();
    assert_eq!(error, PinError::Duplicate("p".into()));
}
