//! Client tools: the client performs the last part of the call and returns the result.

use serde_json::{Value, json};
use toolwright_machine::RunStatus;
use toolwright_machine::agent::{ClientResult, ClientResultError, Effect, EventError, EventKind, RunSpec};
use toolwright_types::{CallId, ErrorCode, ExecutionSite, ToolError};

use crate::harness::*;

fn awaiting_client(inputs: &[Value]) -> (Harness, Vec<CallId>) {
    let mut harness = Harness::new(RunSpec { client_wait_ms: Some(1000), ..spec() });
    harness.request_calls(inputs.iter().map(|input| call("c", "browser", input.clone())).collect());
    let ids = harness.hand_over();
    (harness, ids)
}

fn returned(id: &CallId, output: Value) -> EventKind {
    EventKind::ClientReturned { call_id: id.clone(), result: ClientResult::Output(output) }
}

#[test]
fn client_result_completes_the_call() {
    let (mut harness, ids) = awaiting_client(&[json!({ "open": "tab" })]);
    assert_eq!(harness.run.status(), RunStatus::AwaitingClient);
    let [Effect::RequestClientAction(request)] = &harness.run.next()[..] else { panic!() };
    assert_eq!(request.prepared_payload, json!({ "do": { "open": "tab" } }));
    assert_eq!(request.expires_at, Some(at(1000)));
    harness.millis = 700;
    harness.apply(returned(&ids[0], json!("opened")));
    let outputs = harness.outputs();
    let envelope = &outputs.tools_by_id[&ids[0]];
    assert_eq!((&envelope.output, envelope.t_end), (&json!("opened"), at(700)));
    assert_eq!(envelope.metadata.execution_site, Some(ExecutionSite::Client));
    assert_eq!(harness.run.status(), RunStatus::Running);
}

#[test]
fn client_error_or_expiry_fails_the_call() {
    let (mut harness, ids) = awaiting_client(&[json!(1), json!(2)]);
    let error = ToolError::new(ErrorCode::ProviderError, "no browser");
    harness.apply(EventKind::ClientReturned { call_id: ids[0].clone(), result: ClientResult::Error(error) });
    harness.millis = 2000;
    harness.apply(EventKind::Expired { call_id: ids[1].clone() });
    let timeout = ("browser".to_owned(), Some(ErrorCode::Timeout), Some("client_expired".to_owned()));
    assert_eq!(harness.results(), [("browser".to_owned(), Some(ErrorCode::ProviderError), None), timeout]);
}

#[test]
fn client_result_is_rejected_for_unknown_expired_and_already_answered_calls() {
    let (mut harness, ids) = awaiting_client(&[json!(1), json!(2)]);
    harness.apply(returned(&ids[0], json!("one")));
    let before = harness.run.clone();
    let stranger = CallId::derive("x", "", &json!(0), 0);
    assert_eq!(harness.send(returned(&ids[0], json!("two"))), Err(EventError::NotAwaitingClient(ids[0].clone())));
    assert_eq!(harness.send(returned(&stranger, json!(1))), Err(EventError::UnknownCall(stranger)));
    harness.millis = 1001;
    assert_eq!(harness.send(returned(&ids[1], json!("late"))), Err(EventError::Expired(ids[1].clone())));
    assert_eq!(harness.run, before);
}

#[test]
fn every_invalid_or_missing_client_result_is_reported() {
    let mut harness = Harness::new(spec());
    harness.request_calls(vec![
        call("a", "search", json!(0)),
        call("b", "browser", json!(1)),
        call("c", "browser", json!(2)),
    ]);
    let search = harness.running().remove(0);
    harness.end_call(&search, Ok(json!(1)));
    let ids = harness.hand_over();
    let stranger = CallId::derive("x", "", &json!(0), 0);
    assert_eq!(harness.run.check_client_results(&ids), []);
    assert_eq!(
        harness.run.check_client_results(&[ids[0].clone(), ids[0].clone(), stranger.clone(), search.call_id.clone()]),
        [
            ClientResultError::Duplicate(ids[0].clone()),
            ClientResultError::Unknown(stranger),
            ClientResultError::NotWaiting(search.call_id),
            ClientResultError::Missing(ids[1].clone()),
        ]
    );
}

#[test]
fn finished_call_keeps_its_result_while_another_call_awaits_the_client() {
    let mut harness = Harness::new(spec());
    harness.request_calls(vec![call("a", "browser", json!(1)), call("b", "search", json!(2))]);
    let [browser, search] = harness.running().try_into().unwrap();
    harness.apply(EventKind::HandedToClient {
        prepared_payload: json!(1),
        schema: json!({}),
        pending: Box::new(envelope_of(&browser, Err(ToolError::new(ErrorCode::Unknown, "waiting")))),
    });
    assert!(!harness.run.suspended());
    harness.end_call(&search, Ok(json!("found")));
    assert!(harness.run.suspended());
    assert_eq!(harness.results(), [succeeded("search")]);
    harness.apply(returned(&browser.call_id, json!("shown")));
    assert_eq!(harness.tool_contents(), [r#""shown""#, r#""found""#]);
    assert_eq!(harness.results(), [succeeded("browser"), succeeded("search")], "envelopes follow start order");
}

#[test]
fn client_tool_call_is_handed_to_the_client_only_after_approval() {
    let mut policy = toolwright_machine::Policy::allowing("home", TOOLS);
    policy.guardrails.push(serde_json::from_value(json!({ "type": "require_confirmation" })).unwrap());
    let mut harness = Harness::new(RunSpec { policy, ..spec() });
    harness.request_calls(vec![call("a", "browser", json!(1)), call("b", "search", json!(1))]);
    let ids: Vec<CallId> = harness.run.pending_approvals().into_iter().map(|request| request.call_id).collect();
    harness.decide(&ids[0], toolwright_machine::agent::Decision::Approve).unwrap();
    harness.prepare_again();
    harness.hand_over();
    assert_eq!(harness.run.status(), RunStatus::AwaitingApproval, "approval takes precedence over the client");
    assert_eq!((harness.run.pending_approvals().len(), harness.run.pending_client_actions().len()), (1, 1));
}
