//! Views contain the same calls and results as the outputs that they are computed from.

use serde_json::{Value, json};
use toolwright_machine::agent::{EventKind, RunSpec};
use toolwright_machine::view::{self, InvocationStatus, ToolResult, ToolResultStatus};
use toolwright_machine::{AgentOutputs, RunStatus};
use toolwright_types::{ErrorCode, ResponseFormat, ToolError};

use crate::harness::*;

fn finished() -> Harness {
    let mut harness = Harness::new(spec());
    harness.request_calls(vec![
        call("a", "search", json!({ "q": 1 })),
        call("b", "hidden", json!({})),
        call("c", "save", json!({})),
    ]);
    let [search, save] = harness.running().try_into().unwrap();
    harness.end_call(&save, Err(ToolError::new(ErrorCode::NetworkError, "no route")));
    harness.end_call(&search, Ok(json!({ "hits": 3 })));
    harness.reply(text("three"));
    harness
}

#[test]
fn outputs_serialize_to_the_published_fields() {
    let harness = finished();
    let outputs = harness.outputs();
    let written = serde_json::to_value(&outputs).unwrap();
    let fields: Vec<&String> = written.as_object().unwrap().keys().collect();
    assert_eq!(fields, ["response", "tools_by_id", "tool_order", "last_tool"]);
    assert_eq!(serde_json::from_value::<AgentOutputs>(written).unwrap(), outputs);
    assert_eq!(outputs.last_tool.unwrap().name, "search", "the last successful call");
    let empty = serde_json::to_value(AgentOutputs::new(String::new(), [], Some("http://t".into()))).unwrap();
    assert_eq!(empty, json!({ "response": "", "tools_by_id": {}, "tool_order": [], "traces_url": "http://t" }));
}

#[test]
fn agent_response_contains_every_call_with_its_result() {
    let harness = finished();
    let outputs = harness.outputs();
    let response = view::agent_response(&harness.run, &harness.run.outputs());
    assert_eq!(response.response_text, outputs.response);
    let ids: Vec<_> = response.tool_calls.iter().map(|entry| entry.call.call_id.clone()).collect();
    assert_eq!(ids, outputs.tool_order);
    for (entry, envelope) in response.tool_calls.iter().zip(outputs.in_order()) {
        assert_eq!(entry.call.was_executed, envelope.is_success());
        assert_eq!(entry.invocation.status == Some(InvocationStatus::Success), envelope.is_success());
        assert_eq!(entry.invocation.output, envelope.output);
        assert_eq!(
            entry.call.result_json.as_deref().map(parsed),
            envelope.is_success().then(|| envelope.output.clone())
        );
        assert_eq!(entry.invocation.error_message, envelope.error.as_ref().map(|error| error.message.clone()));
    }
    assert_eq!((response.iterations_used, response.tokens_used), (2, 30));
    assert_eq!((response.status, response.reason), (RunStatus::Completed, None));
}

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn tool_call_in_an_agent_response_has_the_published_fields() {
    let harness = finished();
    let written = serde_json::to_value(view::agent_response(&harness.run, &harness.run.outputs())).unwrap();
    let entry = &written["toolCalls"][1];
    assert_eq!(
        *entry,
        json!({
            "toolRef": "search", "input": { "q": 1 }, "output": { "hits": 3 }, "durationMs": 5, "status": "SUCCESS",
            "callId": entry["callId"], "isServerTool": true, "wasExecuted": true, "requiresClientExecution": false,
            "resultJson": "{\"hits\":3}",
        })
    );
    assert_eq!(written["status"], "COMPLETED");
}

#[test]
fn call_denied_before_its_first_attempt_is_skipped_or_permission_denied_and_other_failed_calls_are_errors() {
    let status = |code, reason: &str, attempt| {
        let mut envelope = envelope("t", "1", json!({}), Err(ToolError::new(code, "m").reason(reason)));
        envelope.metadata.attempt = attempt;
        InvocationStatus::from(&envelope)
    };
    assert_eq!(status(ErrorCode::PolicyDenied, "permission", 0), InvocationStatus::PermissionDenied);
    assert_eq!(status(ErrorCode::PolicyDenied, "no_delete", 0), InvocationStatus::Skipped);
    assert_eq!(status(ErrorCode::PolicyDenied, "content_filter", 1), InvocationStatus::Error);
    assert_eq!(status(ErrorCode::ValidationError, "input_schema", 0), InvocationStatus::Error);
    assert_eq!(status(ErrorCode::Unknown, "outcome_unknown", 1), InvocationStatus::Error);
}

#[test]
fn call_cancelled_before_its_start_is_skipped_and_started_call_is_an_error() {
    let mut harness = Harness::new(spec());
    harness.request_calls(vec![call("a", "save", json!(1)), call("b", "pay", json!(2))]);
    harness.apply(EventKind::Cancelled { message: None });
    let statuses: Vec<_> = harness.outputs().in_order().map(InvocationStatus::from).collect();
    assert_eq!(statuses, [InvocationStatus::Error, InvocationStatus::Skipped]);
}

#[test]
fn call_awaiting_the_client_is_listed_in_tool_calls() {
    let mut harness = Harness::new(spec());
    harness.request_calls(vec![call("a", "browser", json!({ "u": 1 })), call("b", "search", json!({}))]);
    let search = harness.running().remove(1);
    harness.end_call(&search, Ok(json!(1)));
    let ids = harness.hand_over();
    let response = view::agent_response(&harness.run, &harness.run.outputs());
    assert_eq!(response.status, RunStatus::AwaitingClient);
    let waiting = serde_json::to_value(&response.tool_calls[1]).unwrap();
    assert_eq!(
        waiting,
        json!({
            "toolRef": "browser", "input": { "u": 1 }, "output": null, "durationMs": 0, "callId": ids[0],
            "isServerTool": true, "wasExecuted": true, "requiresClientExecution": true,
            "preparedPayload": { "do": { "u": 1 } },
        })
    );
}

#[test]
fn json_answer_is_parsed_if_json_was_requested() {
    let answer = |format: ResponseFormat, text_: &str| {
        let mut request = request();
        request.response_format = format;
        let mut run = Harness::new(RunSpec { request, ..spec() });
        run.reply(text(text_));
        view::agent_response(&run.run, &run.run.outputs()).output_context
    };
    assert_eq!(answer(ResponseFormat::Json, r#"{"a":1}"#), Some(json!({ "a": 1 })));
    assert_eq!(answer(ResponseFormat::Structured(json!({})), "not json"), None);
    assert_eq!(answer(ResponseFormat::Text, r#"{"a":1}"#), None);
}

#[test]
fn each_error_code_has_one_status_in_the_tool_result() {
    use ToolResultStatus::{Error, PermissionDenied, Timeout, ValidationError};
    let expected = [ValidationError, Timeout, Error, PermissionDenied, Error, Error, Error, Error, Error];
    for (code, status) in ErrorCode::ALL.into_iter().zip(expected) {
        let failed = envelope("t", "1", json!({}), Err(ToolError::new(code, "why").reason("cause")));
        let result = ToolResult::from(&failed);
        assert_eq!((result.status, result.data, result.error_message.as_deref()), (status, Value::Null, Some("why")));
        assert_eq!((&*result.metadata["errorCode"], &*result.metadata["reason"]), (code.as_str(), "cause"));
    }
}
