//! Tests the list of approvals, decided approvals, and several decisions in one request.

use serde_json::{Value, json};

use crate::harness::{Server, calls_then};

crate::on_both_databases!(
    decided_approvals_are_listed_with_their_decisions,
    rejected_decision_does_not_affect_other_decisions_of_the_same_request
);
crate::on_sqlite!(
    pending_approval_is_compared_with_the_last_approved_call,
    invalid_parameters_of_the_approval_list_are_rejected,
    cancelling_a_run_adds_no_decision
);

/// Defines the tools `pay` and `mail`, which require confirmation, and one agent for each tool. The agent calls its
/// tool with the user's message.
async fn define_agents(server: &Server) {
    for (agent, tool) in [("payer", "pay"), ("mailer", "mail")] {
        server.define_echo(tool, json!({ "sideEffects": "writes", "requiresConfirmation": true })).await;
        let rules = calls_then(json!([{ "name": tool, "arguments": { "text": "{{user}}" } }]), "Done.");
        server.define_agent(agent, rules, json!({ "toolRefs": [tool] })).await;
    }
}

fn inputs(page: &Value) -> Vec<&str> {
    page["items"].as_array().unwrap().iter().map(|item| item["input"]["text"].as_str().unwrap()).collect()
}

/// Reads all pages of a list, with two items per page.
async fn all_pages(server: &Server, path: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut cursor = String::new();
    for _ in 0..20 {
        let page = server.get(&format!("{path}&limit=2{cursor}")).await.expect(200);
        assert!(page["items"].as_array().unwrap().len() <= 2, "{page}");
        found.extend(inputs(&page).into_iter().map(str::to_owned));
        match page["nextCursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return found,
        }
    }
    panic!("{path} has too many pages");
}

async fn decided_approvals_are_listed_with_their_decisions(server: Server) {
    define_agents(&server).await;
    let north = server.member("north").await;
    let one = server.run("payer", "one").await;
    server.decide(&one, 0, json!({ "decision": "approve", "reason": "as agreed" })).await.expect(200);
    let two = north.run("payer", "two").await;
    let edit = json!({ "decision": "edit", "input": { "text": "less" }, "reason": "too much" });
    server.decide(&two, 0, edit).await.expect(200);
    let three = north.run("mailer", "three").await;
    north.decide(&three, 0, json!({ "decision": "deny", "reason": "not now" })).await.expect(200);
    for message in ["four", "five", "six"] {
        north.run("mailer", message).await;
    }
    let decided = server.get("approvals?status=decided").await.expect(200);
    assert_eq!(inputs(&decided), ["three", "two", "one"], "newest first");
    let decisions: Vec<&Value> = decided["items"].as_array().unwrap().iter().map(|item| &item["decision"]).collect();
    for (decision, outcome, by, reason, input) in [
        (decisions[0], "denied", "north", "not now", Value::Null),
        (decisions[1], "edited", "admin", "too much", json!({ "text": "less" })),
        (decisions[2], "approved", "admin", "as agreed", Value::Null),
    ] {
        assert_eq!(
            (&decision["outcome"], &decision["decidedBy"], &decision["reason"], &decision["input"]),
            (&json!(outcome), &json!(by), &json!(reason), &input),
            "{decision}"
        );
        assert!(decision["decidedAt"].is_string());
    }
    let cut = decisions[1]["decidedAt"].as_str().unwrap();
    for (filter, expected) in [
        ("status=decided&toolRef=pay".to_owned(), vec!["two", "one"]),
        ("status=decided&agentRef=mailer".to_owned(), vec!["three"]),
        ("status=decided&decidedBy=Admin".to_owned(), vec!["two", "one"]),
        ("status=decided&principal=north".to_owned(), vec!["three", "two"]),
        (format!("status=decided&runId={}", one["runId"].as_str().unwrap()), vec!["one"]),
        (format!("status=decided&since={cut}"), vec!["three", "two"]),
        (format!("status=decided&before={cut}"), vec!["one"]),
        ("status=pending".to_owned(), vec!["four", "five", "six"]),
        ("status=pending&toolRef=pay".to_owned(), vec![]),
        ("toolRef=mail&principal=north".to_owned(), vec!["four", "five", "six"]),
        (format!("before={cut}"), vec![]),
        ("status=all".to_owned(), vec!["four", "five", "six", "three", "two", "one"]),
        ("status=all&toolRef=pay".to_owned(), vec!["two", "one"]),
    ] {
        assert_eq!(all_pages(&server, &format!("approvals?{filter}")).await, expected, "{filter}");
    }
    assert_eq!(all_pages(&north, "approvals?status=decided").await, ["three", "two"], "only runs of the caller");
    // Deleting a run also deletes its decisions.
    server.delete(&format!("runs/{}", one["runId"].as_str().unwrap())).await.expect(204);
    assert_eq!(all_pages(&server, "approvals?status=decided").await, ["three", "two"]);
}

async fn rejected_decision_does_not_affect_other_decisions_of_the_same_request(server: Server) {
    define_agents(&server).await;
    let north = server.member("north").await;
    let mut waiting = Vec::new();
    for (agent, message) in [("payer", "one"), ("payer", "two"), ("mailer", "three")] {
        waiting.push(north.run(agent, message).await);
    }
    let of = |at: usize, decision: Value| {
        let approval = &waiting[at]["approvals"][0];
        crate::harness::merge(json!({ "runId": approval["runId"], "callId": approval["callId"] }), decision)
    };
    let decisions = json!({ "decisions": [
        of(0, json!({ "decision": "approve" })),
        of(0, json!({ "decision": "deny" })),
        of(1, json!({ "decision": "maybe" })),
        of(1, json!({ "decision": "edit", "input": { "text": "2" }, "reason": "shorter" })),
        { "runId": "run_01ARZ3NDEKTSV4RRFFQ69G5FAV", "callId": waiting[0]["approvals"][0]["callId"], "decision": "approve" },
        of(2, json!({ "decision": "deny", "reason": "no" })),
    ] });
    // Another member may see none of these runs, so no decision is accepted.
    let south = server.member("south").await;
    let refused = south.post("approvals/decide", decisions.clone()).await.expect(200);
    let codes = |results: &Value| -> Vec<Value> {
        results["results"].as_array().unwrap().iter().map(|result| result["problem"]["code"].clone()).collect()
    };
    let unknown = json!("not-found");
    assert_eq!(
        codes(&refused),
        [unknown.clone(), unknown.clone(), json!("invalid-request"), unknown.clone(), unknown.clone(), unknown.clone()],
        "{refused}"
    );
    let results = north.post("approvals/decide", decisions).await.expect(200);
    let found = codes(&results);
    assert_eq!((&found[0], &found[3], &found[5]), (&Value::Null, &Value::Null, &Value::Null), "{results}");
    assert!(found[1] == "not-waiting" || found[1] == "run-ended", "{results}");
    assert_eq!((&found[2], &found[4]), (&json!("invalid-request"), &unknown), "{results}");
    assert_eq!(results["results"][2]["problem"]["errors"][0]["path"], "/decisions/2/decision");
    let accepted = results["results"].as_array().unwrap().iter().filter(|result| result["accepted"] == true).count();
    assert_eq!(accepted, 3);
    for run in &waiting {
        let path = format!("runs/{}", run["runId"].as_str().unwrap());
        north.poll_until(&path, |run| run["status"] == "COMPLETED").await;
    }
    let decided = north.get("approvals?status=decided&toolRef=pay").await.expect(200);
    assert_eq!(decided["items"][0]["decision"]["input"], json!({ "text": "2" }), "{decided}");
    for body in [json!({ "decisions": [] }), json!({ "decisions": vec![of(0, json!({ "decision": "approve" })); 101] })]
    {
        let problem = north.post("approvals/decide", body).await.problem(400, "invalid-request");
        assert_eq!(problem["errors"][0]["path"], "/decisions");
    }
}

async fn pending_approval_is_compared_with_the_last_approved_call(server: Server) {
    define_agents(&server).await;
    let (north, south) = (server.member("north").await, server.member("south").await);
    for (message, decision) in [("first", "approve"), ("second", "approve"), ("third", "deny")] {
        let run = north.run("payer", message).await;
        north.decide(&run, 0, json!({ "decision": decision })).await.expect(200);
    }
    north.run("payer", "fourth").await;
    north.run("mailer", "fifth").await;
    south.run("payer", "sixth").await;
    let compared = north.get("approvals?compare=true").await.expect(200);
    let last = &compared["items"][0]["lastApproved"];
    assert_eq!((&last["input"], &last["decidedBy"]), (&json!({ "text": "second" }), &json!("north")), "{compared}");
    assert_eq!(compared["items"][1]["lastApproved"], Value::Null, "another tool");
    assert_eq!(north.get("approvals").await.expect(200)["items"][0]["lastApproved"], Value::Null);
    let compared = south.get("approvals?compare=true").await.expect(200);
    assert_eq!(compared["items"][0]["lastApproved"], Value::Null, "the calls of another principal are not shown");
}

async fn invalid_parameters_of_the_approval_list_are_rejected(server: Server) {
    for (query, path) in [
        ("status=open", "status"),
        ("since=yesterday", "since"),
        ("before=1", "before"),
        ("runId=x", "runId"),
        ("decidedBy=admin", "decidedBy"),
        ("status=all&decidedBy=admin", "decidedBy"),
        ("limit=0", "limit"),
        ("cursor=x", "cursor"),
        ("status=decided&cursor=x", "cursor"),
        ("status=all&cursor=decided.x", "cursor"),
    ] {
        let request = server.request(reqwest::Method::GET, &format!("approvals?{query}"));
        let problem = server.send(request).await.problem(400, "invalid-request");
        assert_eq!(problem["errors"][0]["path"], path, "{query}: {problem}");
    }
}

async fn cancelling_a_run_adds_no_decision(server: Server) {
    define_agents(&server).await;
    let run = server.run("payer", "late").await;
    server.post(&format!("runs/{}/cancel", run["runId"].as_str().unwrap()), json!({})).await.expect(200);
    assert_eq!(server.get("approvals?status=all").await.expect(200)["items"], json!([]));
}
