//! Tools whose final step is the client's.

use serde_json::{Value, json};
use toolwright_machine::RunStatus;
use toolwright_machine::agent::{ClientResult, ClientResultProblem, Effect, EventError, Happened, Spec};
use toolwright_types::{CallId, ErrorCode, ExecutionSite, ToolError};

use crate::bench::*;

fn handed(inputs: &[Value]) -> (Bench, Vec<CallId>) {
    let mut bench = Bench::new(Spec { client_wait_ms: Some(1000), ..spec() });
    bench.ask(inputs.iter().map(|input| call("c", "browser", input.clone())).collect());
    let ids = bench.hand_over();
    (bench, ids)
}

fn returned(id: &CallId, output: Value) -> Happened {
    Happened::ClientReturned { call_id: id.clone(), result: ClientResult::Output(output) }
}

#[test]
fn a_client_returns_a_result() {
    let (mut bench, ids) = handed(&[json!({ "open": "tab" })]);
    assert_eq!(bench.run.status(), RunStatus::AwaitingClient);
    let [Effect::HandToClient(request)] = &bench.run.next()[..] else { panic!() };
    assert_eq!(request.prepared_payload, json!({ "do": { "open": "tab" } }));
    assert_eq!(request.expires_at, Some(at(1000)));
    bench.millis = 700;
    bench.tell(returned(&ids[0], json!("opened")));
    let outputs = bench.outputs();
    let envelope = &outputs.tools_by_id[&ids[0]];
    assert_eq!((&envelope.output, envelope.t_end), (&json!("opened"), at(700)));
    assert_eq!(envelope.metadata.execution_site, Some(ExecutionSite::Client));
    assert_eq!(bench.run.status(), RunStatus::Running);
}

#[test]
fn a_client_reports_an_error_or_nothing() {
    let (mut bench, ids) = handed(&[json!(1), json!(2)]);
    let error = ToolError::new(ErrorCode::ProviderError, "no browser");
    bench.tell(Happened::ClientReturned { call_id: ids[0].clone(), result: ClientResult::Error(error) });
    bench.millis = 2000;
    bench.tell(Happened::Expired { call_id: ids[1].clone() });
    let timeout = ("browser".to_owned(), Some(ErrorCode::Timeout), Some("client_expired".to_owned()));
    assert_eq!(bench.receipts(), [("browser".to_owned(), Some(ErrorCode::ProviderError), None), timeout]);
}

#[test]
fn results_that_answer_nothing_change_nothing() {
    let (mut bench, ids) = handed(&[json!(1), json!(2)]);
    bench.tell(returned(&ids[0], json!("one")));
    let before = bench.run.clone();
    let stranger = CallId::derive("x", "", &json!(0), 0);
    assert_eq!(bench.send(returned(&ids[0], json!("two"))), Err(EventError::NotAwaitingClient(ids[0].clone())));
    assert_eq!(bench.send(returned(&stranger, json!(1))), Err(EventError::UnknownCall(stranger)));
    bench.millis = 1001;
    assert_eq!(bench.send(returned(&ids[1], json!("late"))), Err(EventError::TooLate(ids[1].clone())));
    assert_eq!(bench.run, before);
}

#[test]
fn a_set_of_results_is_checked_as_a_whole() {
    let mut bench = Bench::new(spec());
    bench.ask(vec![call("a", "search", json!(0)), call("b", "browser", json!(1)), call("c", "browser", json!(2))]);
    let search = bench.running().remove(0);
    bench.end_call(&search, Ok(json!(1)));
    let ids = bench.hand_over();
    let stranger = CallId::derive("x", "", &json!(0), 0);
    assert_eq!(bench.run.check_client_results(&ids), []);
    assert_eq!(
        bench.run.check_client_results(&[ids[0].clone(), ids[0].clone(), stranger.clone(), search.call_id.clone()]),
        [
            ClientResultProblem::Duplicate(ids[0].clone()),
            ClientResultProblem::Unknown(stranger),
            ClientResultProblem::NotWaiting(search.call_id),
            ClientResultProblem::Missing(ids[1].clone()),
        ]
    );
}

#[test]
fn a_mixed_batch_keeps_the_servers_results() {
    let mut bench = Bench::new(spec());
    bench.ask(vec![call("a", "browser", json!(1)), call("b", "search", json!(2))]);
    let [browser, search] = bench.running().try_into().unwrap();
    bench.tell(Happened::CallHandedOver {
        prepared_payload: json!(1),
        schema: json!({}),
        pending: Box::new(receipt(&browser, Err(ToolError::new(ErrorCode::Unknown, "waiting")))),
    });
    assert!(!bench.run.suspended());
    bench.end_call(&search, Ok(json!("found")));
    assert!(bench.run.suspended());
    assert_eq!(bench.receipts(), [fine("search")]);
    bench.tell(returned(&browser.call_id, json!("shown")));
    assert_eq!(bench.told(), [r#""shown""#, r#""found""#]);
    assert_eq!(bench.receipts(), [fine("browser"), fine("search")], "the order is that of the start");
}

#[test]
fn a_client_tool_may_need_an_approval_first() {
    let mut policy = toolwright_machine::Policy::allowing("home", TOOLS);
    policy.guardrails.push(serde_json::from_value(json!({ "type": "require_confirmation" })).unwrap());
    let mut bench = Bench::new(Spec { policy, ..spec() });
    bench.ask(vec![call("a", "browser", json!(1)), call("b", "search", json!(1))]);
    let ids: Vec<CallId> = bench.run.approvals().into_iter().map(|request| request.call_id).collect();
    bench.decide(&ids[0], toolwright_machine::agent::Decision::Approve).unwrap();
    bench.prepare_again();
    bench.hand_over();
    assert_eq!(bench.run.status(), RunStatus::AwaitingApproval, "a person comes before the client");
    assert_eq!((bench.run.approvals().len(), bench.run.client_actions().len()), (1, 1));
}
