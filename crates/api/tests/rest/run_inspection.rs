//! Tests the routes that inspect runs: journal pages, states, trees, comparisons of journals, and filters of run lists.

use serde_json::{Value, json};
use sqlx::postgres::PgConnection;
use sqlx::{Connection, Executor};

use crate::harness::{Deployment, Server, Storage, calls_then};

crate::on_both_databases!(
    journal_pages_contain_the_same_entries_as_the_export,
    journal_of_a_direct_read_can_be_read_in_pages,
    can_fork_is_true_exactly_for_entries_that_the_fork_route_accepts,
    state_after_an_entry_has_messages_tools_budget_and_open_calls,
    tree_contains_child_runs_with_total_cost_and_tokens,
    comparison_names_the_first_entry_that_differs,
    run_lists_are_filtered_by_time_principal_tool_cost_and_text,
    parts_of_a_run_are_visible_only_to_principals_that_may_read_the_run
);
crate::on_sqlite!(
    rejected_fork_names_the_nearest_entries_and_the_command_that_shows_them,
    every_event_of_a_stream_has_a_time,
    run_that_waits_for_an_approval_can_be_forked,
    invalid_parameters_of_read_routes_are_rejected
);

fn run_id(response: &Value) -> &str {
    response["runId"].as_str().unwrap_or_else(|| panic!("no run in {response}"))
}

/// Returns all entries of a run. Reads `limit` entries per page.
async fn journal(server: &Server, run: &str, limit: usize) -> Vec<Value> {
    let (mut entries, mut cursor) = (Vec::new(), None::<String>);
    loop {
        let after = cursor.as_ref().map(|cursor| format!("&cursor={cursor}")).unwrap_or_default();
        let page = server.get(&format!("runs/{run}/journal?limit={limit}{after}")).await.expect(200);
        let items = page["items"].as_array().unwrap();
        assert!(items.len() <= limit, "{page}");
        entries.extend(items.iter().cloned());
        match page["nextCursor"].as_str() {
            Some(next) => cursor = Some(next.to_owned()),
            None => return entries,
        }
    }
}

/// Returns the entries of the exported bundle. The bundle stores a value that several entries share only once; the
/// function inserts it into each of these entries.
async fn exported(server: &Server, run: &str) -> Vec<(u64, Value)> {
    let answer = server.send(server.request(reqwest::Method::GET, &format!("runs/{run}/export"))).await;
    let lines: Vec<Value> = answer.text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let part = |hash: &Value| {
        let found = lines.iter().find(|line| line["shared_part"] == *hash).unwrap_or_else(|| panic!("no part {hash}"));
        serde_json::from_str::<Value>(found["text"].as_str().unwrap()).unwrap()
    };
    let entries = lines.iter().filter(|line| line.get("entry").is_some_and(Value::is_u64) && line["text"].is_string());
    entries
        .map(|line| {
            let mut body: Value = serde_json::from_str(line["text"].as_str().unwrap()).unwrap();
            let shared = body.as_object_mut().unwrap().remove("shared_parts").unwrap_or_else(|| json!({}));
            for (pointer, hash) in shared.as_object().unwrap() {
                *body.pointer_mut(pointer).unwrap() = part(hash);
            }
            (line["entry"].as_u64().unwrap(), body)
        })
        .collect()
}

/// Defines an agent that makes `calls` calls, one per reply, and then answers.
async fn define_agent_with_calls(server: &Server, name: &str, calls: usize) {
    let mut rules: Vec<Value> = (0..calls)
        .map(|turn| {
            let call = json!({ "name": "look", "arguments": { "at": turn } });
            json!({ "when": { "turn": turn }, "reply": { "text": format!("Look {turn}."), "toolCalls": [call] } })
        })
        .collect();
    rules.push(json!({ "reply": { "text": "Done." } }));
    let prompt = "Look at everything. ".repeat(40);
    server.define_agent(name, json!(rules), json!({ "toolRefs": ["look"], "systemPrompt": prompt })).await;
}

async fn journal_pages_contain_the_same_entries_as_the_export(server: Server) {
    server.define_echo("look", json!({})).await;
    for calls in [0, 1, 4] {
        let agent = format!("a{calls}");
        define_agent_with_calls(&server, &agent, calls).await;
        let response = server.run(&agent, "go").await;
        let run = run_id(&response);
        let expected = exported(&server, run).await;
        assert_eq!(expected.len(), 2 + 3 * calls, "started, and per call a reply, a preparation and an end");
        for limit in [1, 2, 5, 100] {
            let entries = journal(&server, run, limit).await;
            let bodies: Vec<(u64, Value)> =
                entries.iter().map(|entry| (entry["n"].as_u64().unwrap(), entry["body"].clone())).collect();
            assert_eq!(bodies, expected, "{calls} calls, pages of {limit}");
        }
        let ended = server.get(&format!("runs/{run}/journal?kind=call_ended&limit=100")).await.expect(200);
        assert_eq!(ended["items"].as_array().unwrap().len(), calls);
        for entry in ended["items"].as_array().unwrap() {
            assert_eq!((&entry["toolRef"], &entry["kind"]), (&json!("look"), &json!("call_ended")));
            assert_eq!(entry["callId"], entry["body"]["envelope"]["call_id"]);
            assert!(entry["durationMs"].is_u64() && entry["at"].is_string(), "{entry}");
        }
        let replies = server.get(&format!("runs/{run}/journal?kind=model_replied&from=2")).await.expect(200);
        let reply = &replies["items"][0];
        assert!(reply["durationMs"].is_u64() && reply["usage"]["outputTokens"].is_u64(), "{reply}");
    }
}

async fn journal_of_a_direct_read_can_be_read_in_pages(server: Server) {
    server.define_echo("look", json!({})).await;
    let response = server.post("tools/look/execute", json!({ "input": { "at": 1 } })).await;
    let run = response.headers.get("x-run-id").unwrap().to_str().unwrap().to_owned();
    server.poll_until("runs?toolRef=look", |page| page["items"].as_array().is_some_and(|items| items.len() == 1)).await;
    let expected: Vec<Value> = exported(&server, &run).await.into_iter().map(|(_, body)| body).collect();
    for limit in [1, 2, 100] {
        let entries = journal(&server, &run, limit).await;
        let bodies: Vec<Value> = entries.iter().map(|entry| entry["body"].clone()).collect();
        assert_eq!(bodies, expected);
        assert!(entries.iter().all(|entry| entry["canFork"] == false), "a direct call has no model: {entries:?}");
        assert!(entries.iter().all(|entry| entry["whyNot"].as_str().unwrap().contains("no model")), "{entries:?}");
    }
    let state = server.get(&format!("runs/{run}/state")).await.expect(200);
    assert_eq!((&state["status"], &state["openCalls"]), (&json!("COMPLETED"), &json!([])));
}

/// Defines an agent that reads, then pays after an approval, and then answers. Returns its ended run.
async fn run_with_approval(server: &Server) -> Value {
    server.define_echo("look", json!({})).await;
    server.define_echo("pay", json!({ "sideEffects": "writes", "requiresConfirmation": true })).await;
    let rules = json!([
        { "when": { "turn": 0 }, "reply": { "toolCalls": [{ "name": "look", "arguments": {} }] } },
        { "when": { "turn": 1 }, "reply": { "toolCalls": [{ "name": "pay", "arguments": { "euros": 7 } }] } },
        { "reply": { "text": "Paid." } },
    ]);
    server.define_agent("a", rules, json!({ "toolRefs": ["look", "pay"] })).await;
    let waiting = server.run("a", "go").await;
    assert_eq!(waiting["status"], "AWAITING_APPROVAL", "{waiting}");
    let run = server.decide(&waiting, 0, json!({ "decision": "approve" })).await.expect(200);
    assert_eq!(run["status"], "COMPLETED", "{run}");
    run
}

async fn can_fork_is_true_exactly_for_entries_that_the_fork_route_accepts(server: Server) {
    let response = run_with_approval(&server).await;
    let run = run_id(&response);
    let entries = journal(&server, run, 3).await;
    assert_eq!(entries, journal(&server, run, 100).await, "the page size changes nothing");
    let forkable: Vec<bool> = entries.iter().map(|entry| entry["canFork"] == true).collect();
    assert!(forkable.contains(&true) && forkable.contains(&false), "{forkable:?}");
    for entry in &entries {
        let body = json!({ "at": entry["n"], "sendWrites": true });
        let forked = server.post(&format!("runs/{run}/fork"), body).await;
        if entry["canFork"] == true {
            assert!(entry.get("whyNot").is_none(), "{entry}");
            let forked = forked.expect(202);
            // The entries that the fork shares with the original run have the same fork states in both runs.
            let shared = entry["n"].as_u64().unwrap() as usize;
            let of_fork = journal(&server, run_id(&forked), 100).await;
            for (one, other) in entries.iter().zip(&of_fork).take(shared) {
                assert_eq!((&one["n"], &one["canFork"]), (&other["n"], &other["canFork"]), "{other}");
            }
        } else {
            let problem = forked.problem(422, "cannot-fork");
            let (detail, why) = (problem["detail"].as_str().unwrap(), entry["whyNot"].as_str().unwrap());
            assert!(detail.contains(why), "{detail}: {why}");
        }
    }
    let tools: Vec<&Value> =
        entries.iter().filter(|entry| entry["kind"] == "intended").map(|entry| &entry["toolRef"]).collect();
    assert_eq!(tools, ["pay"], "an intent names its tool, although its content does not");
    let decided = entries.iter().find(|entry| entry["kind"] == "approval_decided").unwrap();
    assert!(decided["durationMs"].is_u64() && decided["toolRef"] == "pay", "{decided}");
}

async fn rejected_fork_names_the_nearest_entries_and_the_command_that_shows_them(server: Server) {
    let response = run_with_approval(&server).await;
    let run = run_id(&response);
    let entries = journal(&server, run, 100).await;
    let forkable: Vec<u64> =
        entries.iter().filter(|entry| entry["canFork"] == true).map(|entry| entry["n"].as_u64().unwrap()).collect();
    let blocked = entries.iter().find(|entry| entry["kind"] == "intended").unwrap()["n"].as_u64().unwrap();
    let before = forkable.iter().rev().find(|n| **n < blocked).unwrap();
    let after = forkable.iter().find(|n| **n > blocked).unwrap();
    let problem = server.post(&format!("runs/{run}/fork"), json!({ "at": blocked })).await.problem(422, "cannot-fork");
    let detail = problem["detail"].as_str().unwrap();
    assert!(detail.contains(&format!("are {before} and {after}")), "{detail}");
    assert!(detail.contains(&format!("toolwright runs journal {run}")), "{detail}");
    let missing = server.post(&format!("runs/{run}/fork"), json!({ "at": 9999 })).await.problem(400, "invalid-request");
    let detail = missing["detail"].as_str().unwrap();
    assert!(detail.contains(&format!("is {}", forkable.last().unwrap())), "{detail}");
}

async fn run_that_waits_for_an_approval_can_be_forked(server: Server) {
    server.define_echo("pay", json!({ "sideEffects": "writes", "requiresConfirmation": true })).await;
    let rules = calls_then(json!([{ "name": "pay", "arguments": {} }]), "Done.");
    server.define_agent("a", rules, json!({ "toolRefs": ["pay"] })).await;
    let waiting = server.run("a", "go").await;
    let entries = journal(&server, run_id(&waiting), 2).await;
    assert_eq!(entries.iter().map(|entry| entry["canFork"] == true).collect::<Vec<_>>(), [true, true, true]);
    let state = server.get(&format!("runs/{}/state", run_id(&waiting))).await.expect(200);
    assert_eq!((&state["status"], &state["canFork"]), (&json!("AWAITING_APPROVAL"), &json!(true)));
    let open = &state["openCalls"][0];
    assert_eq!((&open["toolRef"], &open["state"]), (&json!("pay"), &json!("approval")));
    assert_eq!(open["callId"], waiting["approvals"][0]["callId"]);
}

async fn state_after_an_entry_has_messages_tools_budget_and_open_calls(server: Server) {
    let response = run_with_approval(&server).await;
    let run = run_id(&response);
    let entries = journal(&server, run, 100).await;
    let mut counts = Vec::new();
    for entry in &entries {
        let state = server.get(&format!("runs/{run}/state?at={}", entry["n"])).await.expect(200);
        assert_eq!((&state["at"], &state["canFork"]), (&entry["n"], &entry["canFork"]), "{state}");
        assert_eq!(state["tools"].as_array().unwrap().len(), 2);
        counts.push(state["messageCount"].as_u64().unwrap());
        let used = state["budget"]["iterations"]["used"].as_f64().unwrap();
        let limit = state["budget"]["iterations"]["limit"].as_f64().unwrap();
        assert_eq!(state["budget"]["iterations"]["left"].as_f64().unwrap(), limit - used);
    }
    assert!(counts.is_sorted(), "{counts:?}");
    let first = server.get(&format!("runs/{run}/state?at=1")).await.expect(200);
    assert_eq!((&first["status"], &first["openCalls"]), (&json!("RUNNING"), &json!([])));
    assert_eq!(first["messages"].as_array().unwrap().last().unwrap()["content"], "go");
    let last = server.get(&format!("runs/{run}/state")).await.expect(200);
    assert_eq!((&last["status"], &last["at"]), (&json!("COMPLETED"), &entries.last().unwrap()["n"]));
    assert_eq!(last["budget"]["toolCalls"]["used"], 2.0);
    let intent = entries.iter().find(|entry| entry["kind"] == "intended").unwrap();
    let writing = server.get(&format!("runs/{run}/state?at={}", intent["n"])).await.expect(200);
    assert_eq!(
        (&writing["openCalls"][0]["state"], &writing["openCalls"][0]["callId"]),
        (&json!("running"), &intent["callId"])
    );
    // Messages are returned in pages. The first page contains the latest messages.
    let all = last["messages"].as_array().unwrap();
    let tail = server.get(&format!("runs/{run}/state?limit=2")).await.expect(200);
    assert_eq!(tail["messages"].as_array().unwrap(), &all[all.len() - 2..]);
    let earlier = format!("runs/{run}/state?limit=2&beforeMessage={}", tail["firstMessage"]);
    let earlier = server.get(&earlier).await.expect(200);
    assert_eq!(earlier["messages"].as_array().unwrap(), &all[all.len() - 4..all.len() - 2]);
}

async fn tree_contains_child_runs_with_total_cost_and_tokens(server: Server) {
    server.define_agent("clerk", json!([{ "reply": { "text": "Filed." } }]), json!({})).await;
    let calls = json!([{ "name": "clerk", "arguments": { "task": "one" } }, { "name": "clerk", "arguments": { "task": "two" } }]);
    server.define_agent("boss", calls_then(calls, "Done."), json!({ "delegateAgentRefs": ["clerk"] })).await;
    let response = server.run("boss", "go").await;
    let run = run_id(&response);
    let tree = server.get(&format!("runs/{run}/tree")).await.expect(200);
    let root = &tree["root"];
    assert_eq!((&root["id"], &tree["truncated"], &root["status"]), (&json!(run), &json!(false), &json!("COMPLETED")));
    assert_eq!((&root["agentVersion"], &root["userMessage"]), (&json!("1.0.0"), &json!("go")));
    let children = root["children"].as_array().unwrap();
    assert_eq!(children.len(), 2, "{tree}");
    for child in children {
        assert_eq!((&child["subject"], &child["parentRunId"]), (&json!("clerk"), &json!(run)));
        assert_eq!(child["totalTokens"], child["tokensUsed"]);
        assert_eq!(child["correlationId"], root["correlationId"]);
    }
    // The tokens of the parent run include the tokens of its child runs. The tree does not add the tokens of child runs
    // a second time.
    assert_eq!(root["totalTokens"], response["tokensUsed"], "{tree}");
    let child = children[0]["id"].as_str().unwrap();
    let subtree = server.get(&format!("runs/{child}/tree")).await.expect(200);
    assert_eq!((&subtree["root"]["id"], &subtree["root"]["children"]), (&json!(child), &json!([])));
}

async fn comparison_names_the_first_entry_that_differs(server: Server) {
    server.define_echo("look", json!({})).await;
    let rules = calls_then(json!([{ "name": "look", "arguments": { "at": "the sky" } }]), "Seen: {{result}}");
    server.define_agent("a", rules, json!({ "toolRefs": ["look"] })).await;
    let (one, same) = (server.run("a", "go").await, server.run("a", "go").await);
    let equal = server.get(&format!("runs/{}/diff/{}", run_id(&one), run_id(&same))).await.expect(200);
    assert_eq!((&equal["differences"], &equal["firstDivergence"]), (&json!([]), &json!(null)), "{equal}");
    assert!(equal["entries"].as_array().unwrap().iter().all(|entry| entry["equal"] == true), "{equal}");
    assert_eq!(equal["entries"].as_array().unwrap().len(), 5);
    let entries = journal(&server, run_id(&one), 100).await;
    let at = entries.iter().find(|entry| entry["kind"] == "call_ended").unwrap()["n"].clone();
    let body = json!({ "at": at, "result": { "at": "the sea" } });
    let forked = server.post(&format!("runs/{}/fork", run_id(&one)), body).await.expect(202);
    server.poll_until(&format!("runs/{}", run_id(&forked)), |run| run["status"] == "COMPLETED").await;
    let path = format!("runs/{}/diff/{}", run_id(&one), run_id(&forked));
    let diff = server.get(&path).await.expect(200);
    let divergence = &diff["firstDivergence"];
    assert_eq!((&divergence["n"], &divergence["kind"]), (&at, &json!("call_ended")), "{diff}");
    assert_eq!(divergence["differences"][0]["field"], "/envelope/output/at", "{diff}");
    // A field of an output is compared even if a timestamp field has the same name.
    let fields = diff["differences"].as_array().unwrap().iter().map(|one| one["field"].as_str().unwrap());
    assert!(fields.into_iter().any(|field| field.ends_with("/output/at")), "{diff}");
    let page = server.get(&format!("{path}?from=1&limit=2")).await.expect(200);
    let numbers: Vec<&Value> = page["entries"].as_array().unwrap().iter().map(|entry| &entry["n"]).collect();
    assert_eq!((numbers, &page["nextCursor"]), (vec![&json!(1), &json!(2)], &json!("3")));
    assert_eq!(server.get(&format!("{path}?cursor=3&limit=1")).await.expect(200)["entries"][0]["n"], 3);
}

async fn every_event_of_a_stream_has_a_time(server: Server) {
    server.define_echo("look", json!({})).await;
    let rules = calls_then(json!([{ "name": "look", "arguments": {} }]), "Done.");
    server.define_agent("a", rules, json!({ "toolRefs": ["look"] })).await;
    let events = server.stream("agents/a/execute/stream", json!({ "userMessage": "go" })).await;
    assert!(events.iter().all(|event| event.data["at"].is_string()), "{events:?}");
    let run = events[0].data["runId"].as_str().unwrap();
    let entries = journal(&server, run, 100).await;
    for event in server.events(run, None).await.iter().filter(|event| event.id.is_some()) {
        let entry = entries.iter().find(|entry| entry["n"].as_u64() == event.id).unwrap();
        assert_eq!(event.data["at"], entry["at"], "{event:?}");
    }
}

async fn run_lists_are_filtered_by_time_principal_tool_cost_and_text(server: Server) {
    server.define_echo("look", json!({ "sideEffects": "writes" })).await;
    let rules = calls_then(json!([{ "name": "look", "arguments": {} }]), "Done.");
    server.define_agent("finder", rules, json!({ "toolRefs": ["look"] })).await;
    server.define_agent("talker", json!([{ "reply": { "text": "Hi." } }]), json!({})).await;
    let member = server.member("member").await;
    let finder = server.run("finder", "Where is 100% of_it?").await;
    server.run("talker", "hello").await;
    member.run("talker", "HELLO again").await;
    server.call("look", json!({})).await;
    let started = server.get(&format!("runs/{}", run_id(&finder))).await.expect(200)["startedAt"].clone();
    let started = started.as_str().unwrap();
    for (filter, expected) in [
        (json!({}), 4),
        (json!({ "calledToolRef": "look" }), 2),
        (json!({ "calledToolRef": "look", "agentRef": "finder" }), 1),
        (json!({ "calledToolRef": "talker" }), 0),
        (json!({ "toolRef": "look" }), 1),
        (json!({ "principal": "member" }), 1),
        (json!({ "principal": "admin", "kind": "agent" }), 2),
        (json!({ "principal": "unknown" }), 0),
        (json!({ "startedAfter": started }), 4),
        (json!({ "startedBefore": started }), 0),
        (json!({ "startedAfter": "2020-01-01T00:00:00Z", "startedBefore": "2100-01-01T00:00:00Z" }), 4),
        (json!({ "minCostUsd": 0.0, "maxCostUsd": 0.5 }), 4),
        (json!({ "minCostUsd": 0.01 }), 0),
        (json!({ "text": "hello" }), 2),
        (json!({ "text": "100% of_" }), 1),
        (json!({ "text": "100%it" }), 0),
        (json!({ "text": "find" }), 1),
        (json!({ "text": "hello", "status": "COMPLETED", "principal": "admin" }), 1),
        (json!({ "query": format!("correlationId:{}", finder["correlationId"].as_str().unwrap()) }), 1),
        (json!({ "query": "agentVersion:1.0.0 && userMessage:hello*" }), 2),
    ] {
        let page = server.post("runs/query", filter.clone()).await.expect(200);
        assert_eq!(page["items"].as_array().unwrap().len(), expected, "{filter}: {page}");
        let parameters: Vec<(String, String)> = filter
            .as_object()
            .unwrap()
            .iter()
            .map(|(name, value)| (name.clone(), value.as_str().map_or_else(|| value.to_string(), str::to_owned)))
            .collect();
        let listed = server.send(server.request(reqwest::Method::GET, "runs").query(&parameters)).await.expect(200);
        assert_eq!(listed["items"], page["items"], "{filter}");
        let counted = server.send(server.request(reqwest::Method::GET, "runs/count").query(&parameters)).await;
        assert_eq!(counted.expect(200)["count"], expected, "{filter}");
    }
    let own = member.get("runs?calledToolRef=look").await.expect(200);
    assert_eq!(own["items"], json!([]), "the filter shows no runs of other principals");
    let first = server.get("runs?text=hello&limit=1").await.expect(200);
    let rest = format!("runs?text=hello&limit=1&cursor={}", first["nextCursor"].as_str().unwrap());
    let rest = server.get(&rest).await.expect(200);
    assert_eq!((rest["items"].as_array().unwrap().len(), &rest["nextCursor"]), (1, &json!(null)));
    assert_ne!(rest["items"][0]["id"], first["items"][0]["id"]);
}

async fn parts_of_a_run_are_visible_only_to_principals_that_may_read_the_run(server: Server) {
    server.define_agent("a", json!([{ "reply": { "text": "Hi." } }]), json!({})).await;
    let (one, two) = (server.member("one").await, server.member("two").await);
    let run = one.run("a", "go").await;
    let own = two.run("a", "go").await;
    server.post("realms", json!({ "name": "other" })).await.expect(201);
    let paths = [
        format!("runs/{}/journal", run_id(&run)),
        format!("runs/{}/state?at=1", run_id(&run)),
        format!("runs/{}/tree", run_id(&run)),
        format!("runs/{}/diff/{}", run_id(&run), run_id(&own)),
        format!("runs/{}/diff/{}", run_id(&own), run_id(&run)),
    ];
    for path in &paths {
        server.get(path).await.expect(200);
        two.get(path).await.problem(404, "not-found");
        server.in_realm("other").get(path).await.problem(404, "not-found");
    }
    for path in &paths[..3] {
        one.get(path).await.expect(200);
    }
}

async fn invalid_parameters_of_read_routes_are_rejected(server: Server) {
    server.define_agent("a", json!([{ "reply": { "text": "Hi." } }]), json!({})).await;
    let response = server.run("a", "go").await;
    let run = run_id(&response);
    for path in [
        "journal?from=9223372036854775808",
        "state?beforeMessage=9223372036854775808",
        "state?at=9223372036854775808",
        "journal?limit=0",
        "journal?limit=101",
        "journal?from=x",
        "journal?cursor=x",
        "journal?nothing=1",
    ] {
        server.get(&format!("runs/{run}/{path}")).await.problem(400, "invalid-request");
    }
    for path in ["state?at=0", "state?at=3", "state?at=-1", "state?limit=0"] {
        server.get(&format!("runs/{run}/{path}")).await.problem(400, "invalid-request");
    }
    for path in ["runs?startedAfter=yesterday", "runs?minCostUsd=x", "runs?startedBefore=2026"] {
        server.get(path).await.problem(400, "invalid-request");
    }
    assert_eq!(server.get(&format!("runs/{run}/journal?from=99")).await.expect(200)["items"], json!([]));
    server.get("runs/run_01ARZ3NDEKTSV4RRFFQ69G5FAV/journal").await.problem(404, "not-found");
}

/// Entries of earlier builds have no stored fork state. The test simulates them by removing the values.
#[tokio::test]
async fn entries_of_earlier_builds_have_the_same_fork_states() {
    let deployment = Deployment::new(Storage::PostgresAndRedis).await;
    let (server, running) = deployment.start().await;
    let response = run_with_approval(&server).await;
    let run = run_id(&response);
    let entries = journal(&server, run, 100).await;
    let mut database = PgConnection::connect(&deployment.database_url()).await.unwrap();
    database.execute("UPDATE journal SET fork_state = NULL, tool = NULL, call_id = NULL").await.unwrap();
    for limit in [1, 4, 100] {
        let old = journal(&server, run, limit).await;
        for (one, other) in entries.iter().zip(&old) {
            for field in ["n", "body", "canFork", "whyNot"] {
                assert_eq!(one.get(field), other.get(field), "{other}");
            }
        }
        assert_eq!(entries.len(), old.len());
    }
    running.stop().await;
    deployment.remove().await;
}
