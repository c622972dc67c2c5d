//! Tests effects: the list of writes to the outside world, the resolution of unknown outcomes, and the undo of one
//! write.

use serde_json::{Value, json};
use toolwright_testkit::{Faults, LOOPBACK};

use crate::harness::{Server, calls_then, envelopes};

crate::on_both_databases!(
    writes_are_listed_with_their_outcomes,
    unknown_outcome_can_be_resolved_only_once,
    undone_effect_is_marked_and_not_undone_again
);
crate::on_sqlite!(
    approver_and_executed_input_are_recorded,
    captured_write_is_listed_as_captured,
    write_of_a_delegate_is_undone_only_once,
    effects_are_deleted_with_their_run,
    invalid_effect_list_parameters_and_unknown_effect_ids_are_rejected
);

/// Defines `put`, which writes, and `unput`, which undoes the writes of `put`.
async fn define_put(server: &Server) {
    server.define_echo("unput", json!({ "sideEffects": "writes" })).await;
    server.define_echo("put", json!({ "sideEffects": "writes", "compensateToolRef": "unput" })).await;
}

async fn effects(server: &Server, query: &str) -> Vec<Value> {
    server.get(&format!("effects?{query}")).await.expect(200)["items"].as_array().unwrap().clone()
}

fn outcomes(effects: &[Value]) -> Vec<(&str, &str)> {
    effects.iter().map(|effect| (effect["toolRef"].as_str().unwrap(), effect["outcome"].as_str().unwrap())).collect()
}

fn path(effect: &Value) -> String {
    format!("effects/{}", effect["id"].as_str().unwrap())
}

async fn finished(server: &Server, accepted: &Value) -> Value {
    let path = format!("runs/{}", accepted["runId"].as_str().unwrap());
    server.poll_until(&path, |run| run["status"] != "RUNNING").await
}

async fn writes_are_listed_with_their_outcomes(server: Server) {
    let faults = Faults::builder().start(LOOPBACK).await.unwrap();
    define_put(&server).await;
    server.define_echo("look", json!({})).await;
    let writes = json!({ "sideEffects": "writes" });
    server.define_http_tool("lost", &faults.base_url(), "/reset", writes.clone()).await;
    server.define_http_tool("refused", &faults.base_url(), "/status/404", writes).await;
    let north = server.member("north").await;
    server.call("look", json!({ "n": 0 })).await;
    let put = server.call("put", json!({ "n": 1 })).await;
    server.call("lost", json!({ "n": 2 })).await;
    north.call("refused", json!({ "n": 3 })).await;
    let calls = json!([{ "name": "put", "arguments": { "n": 4 } }, { "name": "look", "arguments": { "n": 5 } }]);
    server.define_agent("a", calls_then(calls, "Done."), json!({ "toolRefs": ["put", "look"] })).await;
    let run = north.run("a", "go").await;
    // A call that is refused before it starts changes nothing.
    let strict = json!({ "sideEffects": "writes", "inputJsonSchema": { "type": "object", "required": ["n"] } });
    server.define_echo("strict", strict).await;
    assert_eq!(server.call("strict", json!({})).await["error"]["code"], "VALIDATION_ERROR");

    let all = effects(&server, "").await;
    assert_eq!(
        outcomes(&all),
        [("put", "done"), ("refused", "failed"), ("lost", "unknown"), ("put", "done")],
        "{all:?}"
    );
    let (agent, direct) = (&all[0], &all[3]);
    assert_eq!((&agent["agentRef"], &agent["runId"]), (&json!("a"), &run["runId"]));
    assert_eq!((&agent["principal"], &agent["input"]), (&json!("north"), &json!({ "n": 4 })));
    assert_eq!((&direct["agentRef"], &direct["callId"]), (&Value::Null, &put["call_id"]));
    assert_eq!((&direct["principal"], &direct["version"]), (&json!("admin"), &json!("1.0.0")));
    assert_eq!((&direct["reversible"], &direct["compensateToolRef"]), (&json!(true), &json!("unput")));
    assert_eq!((&all[2]["reversible"], all[2]["error"].is_string()), (&json!(false), true), "{}", all[2]);
    for effect in &all {
        assert!(effect["startedAt"].as_str() <= effect["endedAt"].as_str(), "{effect}");
        assert_eq!(server.get(&path(effect)).await.expect(200), *effect);
    }
    let cut = all[1]["endedAt"].as_str().unwrap();
    for (query, expected) in [
        ("outcome=done".to_owned(), vec![4, 1]),
        ("outcome=unknown,failed".to_owned(), vec![3, 2]),
        ("outcome=undone".to_owned(), vec![]),
        ("toolRef=put".to_owned(), vec![4, 1]),
        ("agentRef=a".to_owned(), vec![4]),
        ("agentRef=put".to_owned(), vec![]),
        ("principal=North".to_owned(), vec![4, 3]),
        (format!("runId={}", run["runId"].as_str().unwrap()), vec![4]),
        (format!("since={cut}"), vec![4, 3]),
        (format!("before={cut}"), vec![2, 1]),
        ("toolRef=put&principal=admin&outcome=done".to_owned(), vec![1]),
    ] {
        let (mut found, mut cursor) = (Vec::new(), String::new());
        for _ in 0..10 {
            let page = server.get(&format!("effects?{query}&limit=1{cursor}")).await.expect(200);
            found.extend(page["items"].as_array().unwrap().iter().map(|effect| effect["input"]["n"].as_i64().unwrap()));
            match page["nextCursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => break,
            }
        }
        assert_eq!(found, expected, "{query}");
    }
    faults.shutdown().await;
}

async fn unknown_outcome_can_be_resolved_only_once(server: Server) {
    let faults = Faults::builder().start(LOOPBACK).await.unwrap();
    define_put(&server).await;
    server.define_http_tool("lost", &faults.base_url(), "/reset", json!({ "sideEffects": "writes" })).await;
    let north = server.member("north").await;
    north.call("lost", json!({ "n": 1 })).await;
    north.call("lost", json!({ "n": 2 })).await;
    let put = north.call("put", json!({ "n": 3 })).await;
    let found = effects(&north, "").await;
    let resolve = |effect: &Value| format!("{}/resolve", path(effect));
    let known = north.post(&resolve(&found[0]), json!({ "outcome": "failed" })).await.problem(409, "outcome-known");
    assert!(known["detail"].as_str().unwrap().contains("is `done`"), "{known}");
    let body = json!({ "outcome": "done", "note": "seen in the ledger" });
    let resolved = server.post(&resolve(&found[1]), body.clone()).await.expect(200);
    assert_eq!((&resolved["outcome"], &resolved["reversible"]), (&json!("done"), &json!(false)), "{resolved}");
    let resolution = &resolved["resolution"];
    assert_eq!(
        (&resolution["resolvedBy"], &resolution["note"]),
        (&json!("admin"), &json!("seen in the ledger")),
        "an administrator may resolve the effects of other principals"
    );
    north.post(&resolve(&found[1]), body).await.problem(409, "outcome-known");
    let failed = north.post(&resolve(&found[2]), json!({ "outcome": "failed" })).await.expect(200);
    assert_eq!((&failed["outcome"], &failed["resolution"]["resolvedBy"]), (&json!("failed"), &json!("north")));
    assert_eq!(effects(&north, "outcome=unknown").await, Vec::<Value>::new());
    assert_eq!(put["error"], Value::Null);
    let run = found[1]["runId"].as_str().unwrap();
    assert_eq!(server.get(&format!("runs/{run}/verify")).await.expect(200)["intact"], true, "the journal is unchanged");
    for (body, place) in [
        (json!({ "outcome": "unknown" }), "/outcome"),
        (json!({ "outcome": "done", "note": "x".repeat(10_001) }), "/note"),
        (json!({ "outcome": "done", "by": "me" }), "/by"),
    ] {
        let problem = north.post(&resolve(&found[1]), body).await.problem(400, "invalid-request");
        assert_eq!(problem["errors"][0]["path"], place);
    }
    faults.shutdown().await;
}

async fn undone_effect_is_marked_and_not_undone_again(server: Server) {
    define_put(&server).await;
    server.define_echo("mail", json!({ "sideEffects": "writes" })).await;
    let calls = json!([
        { "name": "put", "arguments": { "n": 1 } }, { "name": "put", "arguments": { "n": 2 } },
        { "name": "mail", "arguments": { "n": 3 } }
    ]);
    server.define_agent("a", calls_then(calls, "Done."), json!({ "toolRefs": ["put", "mail"] })).await;
    let run = server.run("a", "go").await;
    let of = |found: &[Value], n: i64| found.iter().find(|effect| effect["input"]["n"] == n).unwrap().clone();
    let found = effects(&server, "agentRef=a").await;
    let (first, mail) = (of(&found, 1), of(&found, 3));
    let plan = server.post(&format!("{}/undo", path(&first)), json!({ "dryRun": true })).await.expect(200);
    assert_eq!((plan["steps"].as_array().unwrap().len(), &plan["kept"]), (1, &json!([])), "{plan}");
    assert_eq!((&plan["steps"][0]["callId"], &plan["steps"][0]["with"]), (&first["callId"], &json!("unput")));
    let refused = server.post(&format!("{}/undo", path(&mail)), json!({})).await.problem(422, "cannot-undo");
    assert!(refused["errors"][0]["message"].as_str().unwrap().contains("`mail@1.0.0`"), "{refused}");

    let accepted = server.post(&format!("{}/undo", path(&first)), json!({})).await.expect(202);
    let undo = finished(&server, &accepted).await;
    assert_eq!((&undo["status"], envelopes(&undo).len()), (&json!("COMPLETED"), 1), "{undo}");
    assert_eq!(envelopes(&undo)[0]["input"]["input"], json!({ "n": 1 }));
    let undone = server.get(&path(&first)).await.expect(200);
    assert_eq!((&undone["outcome"], &undone["reversible"]), (&json!("undone"), &json!(false)), "{undone}");
    assert_eq!(undone["undone"]["runId"], undo["runId"]);
    // The compensating call is a write too, so it is in the list of effects.
    let compensation = effects(&server, "toolRef=unput").await;
    assert_eq!((compensation.len(), &compensation[0]["runId"]), (1, &undo["runId"]));
    server.post(&format!("{}/undo", path(&first)), json!({})).await.problem(422, "cannot-undo");

    // An undo of the whole run compensates the remaining write.
    let rest = format!("runs/{}/undo", run["runId"].as_str().unwrap());
    let rest = finished(&server, &server.post(&rest, json!({ "partial": true })).await.expect(202)).await;
    assert_eq!(envelopes(&rest).len(), 1, "{rest}");
    let left = effects(&server, "agentRef=a&outcome=undone").await;
    assert_eq!(outcomes(&left), [("put", "undone"), ("put", "undone")]);
}

async fn approver_and_executed_input_are_recorded(server: Server) {
    server.define_echo("pay", json!({ "sideEffects": "writes", "requiresConfirmation": true })).await;
    let calls = json!([{ "name": "pay", "arguments": { "n": 1 } }, { "name": "pay", "arguments": { "n": 2 } }]);
    server.define_agent("a", calls_then(calls, "Done."), json!({ "toolRefs": ["pay"] })).await;
    let north = server.member("north").await;
    let waiting = north.run("a", "go").await;
    server.decide(&waiting, 0, json!({ "decision": "edit", "input": { "n": 9 } })).await.expect(200);
    north.decide(&waiting, 1, json!({ "decision": "deny" })).await.expect(200);
    let found = effects(&north, "").await;
    assert_eq!(found.len(), 1, "a denied call has no effect: {found:?}");
    assert_eq!((&found[0]["approvedBy"], &found[0]["input"]), (&json!("admin"), &json!({ "n": 9 })));
}

async fn captured_write_is_listed_as_captured(server: Server) {
    server.define_echo("look", json!({})).await;
    server.define_echo("pay", json!({ "sideEffects": "writes" })).await;
    let second =
        json!({ "refName": "look", "toolType": "FUNCTION", "version": "2.0.0", "invocation": { "path": "echo" } });
    server.put("tools/look", second).await.expect(200);
    let calls = json!([{ "name": "look", "arguments": {} }, { "name": "pay", "arguments": { "n": 1 } }]);
    let agent = json!({ "toolRefs": ["look@1.0.0", "pay"], "libraries": { "new": { "look": "look@2.0.0" } },
        "split": { "library": "new", "share": 1.0, "mode": "shadow" } });
    server.define_agent("a", calls_then(calls, "Done."), agent).await;
    server.run("a", "go").await;
    server.poll_until("effects", |page| page["items"].as_array().unwrap().len() == 2).await;
    let captured = effects(&server, "outcome=captured").await;
    assert_eq!((captured.len(), &captured[0]["toolRef"]), (1, &json!("pay")));
    server.post(&format!("{}/undo", path(&captured[0])), json!({})).await.problem(422, "cannot-undo");
}

async fn write_of_a_delegate_is_undone_only_once(server: Server) {
    define_put(&server).await;
    let calls = json!([{ "name": "put", "arguments": { "n": 1 } }]);
    server.define_agent("hand", calls_then(calls, "Put."), json!({ "toolRefs": ["put"] })).await;
    let asks = json!([{ "name": "hand", "arguments": { "task": "put it" } }]);
    server.define_agent("boss", calls_then(asks, "Done."), json!({ "delegateAgentRefs": ["hand"] })).await;
    let run = server.run("boss", "go").await;
    let found = effects(&server, "").await;
    assert_eq!(outcomes(&found), [("put", "done")], "the call to the delegate is no effect");
    assert_eq!(found[0]["agentRef"], "hand");
    let accepted = server.post(&format!("{}/undo", path(&found[0])), json!({})).await.expect(202);
    assert_eq!(finished(&server, &accepted).await["status"], "COMPLETED");
    let whole = format!("runs/{}/undo", run["runId"].as_str().unwrap());
    server.post(&whole, json!({})).await.problem(422, "cannot-undo");
}

async fn effects_are_deleted_with_their_run(server: Server) {
    define_put(&server).await;
    server.call("put", json!({ "n": 1 })).await;
    let found = effects(&server, "").await;
    server.delete(&format!("runs/{}", found[0]["runId"].as_str().unwrap())).await.expect(204);
    assert_eq!(effects(&server, "").await, Vec::<Value>::new());
    server.get(&path(&found[0])).await.problem(404, "not-found");
}

async fn invalid_effect_list_parameters_and_unknown_effect_ids_are_rejected(server: Server) {
    for (query, place) in [
        ("outcome=lost", "outcome"),
        ("since=now", "since"),
        ("runId=x", "runId"),
        ("limit=101", "limit"),
        ("cursor=x", "cursor"),
    ] {
        let problem = server.get(&format!("effects?{query}")).await.problem(400, "invalid-request");
        assert_eq!(problem["errors"][0]["path"], place, "{query}");
    }
    for id in ["x", "run_01ARZ3NDEKTSV4RRFFQ69G5FAV", "run_01ARZ3NDEKTSV4RRFFQ69G5FAV.call_aaaaaaaaaaaaaaaaaaaaaaaaaa"]
    {
        server.get(&format!("effects/{id}")).await.problem(404, "not-found");
        server.post(&format!("effects/{id}/resolve"), json!({ "outcome": "done" })).await.problem(404, "not-found");
        server.post(&format!("effects/{id}/undo"), json!({})).await.problem(404, "not-found");
    }
}
