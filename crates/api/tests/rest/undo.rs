//! Tests the undo of a run, which compensates its writes with other tool calls.

use serde_json::{Value, json};
use toolwright_testkit::{Faults, LOOPBACK};

use crate::harness::{Server, calls_then, envelopes, merge};

crate::on_both_databases!(undo_compensates_writes_in_reverse_order, undo_compensates_writes_of_delegates);
crate::on_sqlite!(
    undo_of_a_write_without_compensation_requires_the_option_partial,
    second_undo_repeats_only_failed_compensations,
    undo_waits_for_the_approval_of_a_compensation,
    run_that_has_no_writes_or_has_not_ended_cannot_be_undone
);

/// Defines a tool that writes, and the tool that compensates its writes.
async fn define_compensated_write(server: &Server, name: &str) {
    let back = format!("un{name}");
    server.define_echo(&back, json!({ "sideEffects": "writes" })).await;
    server.define_echo(name, json!({ "sideEffects": "writes", "compensateToolRef": back })).await;
}

fn call(tool: &str, n: i32) -> Value {
    json!({ "name": tool, "arguments": { "n": n } })
}

async fn undo(server: &Server, run: &Value, body: Value) -> Value {
    let new = server.post(&format!("runs/{}/undo", run["runId"].as_str().unwrap()), body).await.expect(202);
    server.poll_until(&format!("runs/{}", new["runId"].as_str().unwrap()), |run| run["status"] != "RUNNING").await
}

fn compensations(undo: &Value) -> Vec<(String, i64)> {
    let calls = envelopes(undo).into_iter();
    calls
        .map(|call| (call["name"].as_str().unwrap().to_owned(), call["input"]["input"]["n"].as_i64().unwrap()))
        .collect()
}

async fn undo_compensates_writes_in_reverse_order(server: Server) {
    define_compensated_write(&server, "put").await;
    define_compensated_write(&server, "send").await;
    server.define_echo("look", json!({})).await;
    // The agent makes its calls one after the other, because the test checks the order of the compensations.
    let calls = json!([call("put", 1), call("look", 2), call("send", 3), call("put", 4)]);
    let one_by_one = json!({ "toolRefs": ["put", "send", "look"], "executionConfig": { "parallelToolCalls": false } });
    server.define_agent("a", calls_then(calls, "Done."), one_by_one).await;
    let run = server.run("a", "go").await;
    let path = format!("runs/{}/undo", run["runId"].as_str().unwrap());
    let plan = server.post(&path, json!({ "dryRun": true })).await.expect(200);
    let steps: Vec<&Value> = plan["steps"].as_array().unwrap().iter().map(|step| &step["with"]).collect();
    assert_eq!((json!(steps), &plan["kept"]), (json!(["unput", "unsend", "unput"]), &json!([])));

    let undone = undo(&server, &run, json!({})).await;
    assert_eq!((&undone["status"], &undone["durable"]), (&json!("COMPLETED"), &json!(true)), "{undone}");
    assert_eq!(
        (&undone["compensatesRunId"], &undone["responseText"]),
        (&run["runId"], &json!("3 of 3 calls succeeded"))
    );
    assert_eq!(compensations(&undone), [("unput".into(), 4), ("unsend".into(), 3), ("unput".into(), 1)]);
    let (input, calls) = (&envelopes(&undone)[0]["input"], envelopes(&run));
    assert_eq!((&input["callId"], &input["output"]), (&calls[3]["call_id"], &calls[3]["output"]));
    assert_eq!(input["runId"], run["runId"]);
    assert_eq!(
        server.get(&format!("runs/{}/verify", undone["runId"].as_str().unwrap())).await.expect(200)["intact"],
        true
    );
    server.post(&path, json!({})).await.problem(422, "cannot-undo");
}

async fn undo_compensates_writes_of_delegates(server: Server) {
    define_compensated_write(&server, "put").await;
    server.define_agent("hand", calls_then(json!([call("put", 1)]), "Put."), json!({ "toolRefs": ["put"] })).await;
    let asks = json!([{ "name": "hand", "arguments": { "task": "put it" } }]);
    let boss = json!({ "delegateAgentRefs": ["hand"], "executionConfig": { "durable": true } });
    server.define_agent("boss", calls_then(asks, "Done."), boss).await;
    let run = server.run("boss", "go").await;
    let undone = undo(&server, &run, json!({})).await;
    assert_eq!(
        (&undone["status"], compensations(&undone)),
        (&json!("COMPLETED"), vec![("unput".into(), 1)]),
        "{undone}"
    );
    assert_eq!(
        envelopes(&undone)[0]["input"]["runId"],
        envelopes(&run)[0]["output"]["runId"],
        "the compensated call belongs to the delegate's run"
    );
}

async fn undo_of_a_write_without_compensation_requires_the_option_partial(server: Server) {
    define_compensated_write(&server, "put").await;
    server.define_echo("mail", json!({ "sideEffects": "writes" })).await;
    let calls = calls_then(json!([call("put", 1), call("mail", 2)]), "Done.");
    server.define_agent("a", calls, json!({ "toolRefs": ["put", "mail"] })).await;
    let run = server.run("a", "go").await;
    let path = format!("runs/{}/undo", run["runId"].as_str().unwrap());
    let refused = server.post(&path, json!({})).await.problem(422, "cannot-undo");
    assert!(refused["errors"][0]["message"].as_str().unwrap().contains("`mail@1.0.0` cannot be undone"), "{refused}");
    let undone = undo(&server, &run, json!({ "partial": true })).await;
    assert_eq!(compensations(&undone), [("unput".into(), 1)]);
    server.post(&path, json!({ "partial": true })).await.problem(422, "cannot-undo");
    server.post(&path, json!({ "force": true })).await.problem(400, "invalid-request");
    server.post("runs/run_00000000000000000000000001/undo", json!({})).await.problem(404, "not-found");
    let stranger = server.member("stranger").await;
    stranger.post(&path, json!({ "dryRun": true })).await.problem(404, "not-found");
}

async fn second_undo_repeats_only_failed_compensations(server: Server) {
    let faults = Faults::builder().start(LOOPBACK).await.unwrap();
    server.define_http_tool("unsend", &faults.base_url(), "/status/404", json!({ "sideEffects": "writes" })).await;
    server.define_echo("send", json!({ "sideEffects": "writes", "compensateToolRef": "unsend" })).await;
    define_compensated_write(&server, "put").await;
    let one_by_one = json!({ "toolRefs": ["put", "send"], "executionConfig": { "parallelToolCalls": false } });
    server.define_agent("a", calls_then(json!([call("send", 1), call("put", 2)]), "Done."), one_by_one).await;
    let run = server.run("a", "go").await;
    let undone = undo(&server, &run, json!({})).await;
    assert_eq!((&undone["status"], &undone["reason"]), (&json!("ERROR"), &json!("calls_failed")), "{undone}");
    let again = undo(&server, &run, json!({})).await;
    assert_ne!(undone["runId"], again["runId"]);
    assert_eq!(compensations(&again), [("unsend".into(), 1)], "a successful compensation is not repeated");
}

async fn undo_waits_for_the_approval_of_a_compensation(server: Server) {
    server.define_echo("unpay", json!({ "sideEffects": "writes", "requiresConfirmation": true })).await;
    server.define_echo("pay", json!({ "sideEffects": "writes", "compensateToolRef": "unpay" })).await;
    server.define_agent("a", calls_then(json!([call("pay", 1)]), "Done."), json!({ "toolRefs": ["pay"] })).await;
    let run = server.run("a", "go").await;
    let waiting = undo(&server, &run, json!({})).await;
    assert_eq!(waiting["status"], "AWAITING_APPROVAL", "{waiting}");
    let same = undo(&server, &run, json!({})).await;
    assert_eq!(same["runId"], waiting["runId"], "a pending undo is reused");
    let ended = server.decide(&waiting, 0, json!({ "decision": "approve" })).await.expect(200);
    assert_eq!(ended["status"], "COMPLETED", "{ended}");
    let path = format!("runs/{}/undo", run["runId"].as_str().unwrap());
    server.post(&path, json!({})).await.problem(422, "cannot-undo");
}

async fn run_that_has_no_writes_or_has_not_ended_cannot_be_undone(server: Server) {
    server.define_echo("look", json!({})).await;
    server.define_agent("a", calls_then(json!([call("look", 1)]), "Done."), json!({ "toolRefs": ["look"] })).await;
    let run = server.run("a", "go").await;
    let path = format!("runs/{}/undo", run["runId"].as_str().unwrap());
    let refused = server.post(&path, json!({})).await.problem(422, "cannot-undo");
    assert!(refused["detail"].as_str().unwrap().contains("nothing to undo"), "{refused}");

    server.define_echo("pay", json!({ "sideEffects": "writes", "requiresConfirmation": true })).await;
    server
        .define_agent(
            "b",
            calls_then(json!([call("pay", 1)]), "Done."),
            merge(json!({}), json!({ "toolRefs": ["pay"] })),
        )
        .await;
    let waiting = server.run("b", "go").await;
    let path = format!("runs/{}/undo", waiting["runId"].as_str().unwrap());
    server.post(&path, json!({})).await.problem(409, "run-under-way");
}
