//! Tests conversations: which earlier turns the model receives, who has access, and how conversations are changed.

use serde_json::{Value, json};
use toolwright_testkit::{Faults, LOOPBACK};

use crate::harness::{Server, calls_then, openai_model, required_env, with_model_mock};

crate::on_both_databases!(
    conversation_stores_the_turns_of_all_its_runs,
    conversation_can_be_renamed_archived_and_deleted,
    conversation_is_visible_only_to_its_owner_and_administrators,
    turns_that_exceed_the_maximum_are_summarised,
    busy_conversation_rejects_messages_and_deletion
);
crate::on_sqlite!(
    summary_agent_writes_the_summary,
    run_with_a_failed_summary_completes_with_a_warning,
    run_with_persistence_disabled_stores_no_conversation,
    conversation_is_bound_to_one_agent,
    shared_context_of_a_conversation_fills_the_prompt,
    context_of_a_request_is_stored_in_the_conversation,
    conversation_title_is_the_first_line_of_the_first_message,
    conversations_are_listed_in_order_of_their_latest_turn
);

fn conversation_path(response: &Value) -> String {
    format!("conversations/{}", response["conversationId"].as_str().unwrap_or_else(|| panic!("{response}")))
}

/// Defines an agent that always replies `Fine.`.
async fn define_fixed_reply_agent(server: &Server, name: &str, more: Value) {
    server.define_agent(name, json!([{ "reply": { "text": "Fine." } }]), more).await;
}

async fn conversation_stores_the_turns_of_all_its_runs(server: Server) {
    server.define_echo("look", json!({})).await;
    let call = json!([{ "name": "look", "arguments": { "at": "{{user}}" } }]);
    let agent = json!({ "toolRefs": ["look"], "systemPrompt": "Not a turn." });
    server.define_agent("a", calls_then(call, "Seen."), agent).await;
    let first = server.run("a", "one").await;
    let second = server.continue_conversation("a", &first["conversationId"], "two").await.expect(200);
    assert_eq!(second["conversationId"], first["conversationId"]);
    assert_ne!(second["runId"], first["runId"]);
    let path = conversation_path(&first);
    let third = server.post(&format!("{path}/continue"), json!({ "userMessage": "three" })).await.expect(200);
    let conversation = server.get(&path).await.expect(200);
    let turns = conversation["turns"].as_array().unwrap();
    let roles: Vec<&Value> = turns.iter().map(|turn| &turn["role"]).collect();
    assert_eq!(roles, ["user", "assistant", "tool", "assistant"].repeat(3));
    for (index, turn) in turns.iter().enumerate() {
        assert_eq!(turn["turnIndex"], index);
    }
    let content = |index: usize| turns[index]["content"].as_str().unwrap();
    assert_eq!((content(0), content(3), content(8)), ("one", "Seen.", "three"));
    assert!(content(2).contains("one"), "{conversation}");
    // A turn shows the same calls as the response of its run.
    for (turn, run) in [(1, &first), (5, &second), (9, &third)] {
        assert_eq!(turns[turn]["toolCalls"], run["toolCalls"], "{conversation}");
    }
    let call = &turns[1]["toolCalls"][0];
    assert_eq!(
        (&call["toolRef"], &call["input"], &call["output"], &call["status"]),
        (&json!("look"), &json!({ "at": "one" }), &json!({ "at": "one" }), &json!("SUCCESS"))
    );
    assert!(call["callId"].as_str().unwrap().starts_with("call_") && call["durationMs"].is_u64(), "{call}");
    for request in [1, 5, 9] {
        let (requested, result) = (&turns[request]["toolCalls"][0]["callId"], &turns[request + 1]);
        assert_eq!(&result["callId"], requested, "a result names the call: {result}");
    }
    assert_eq!((&turns[0]["runId"], &turns[11]["runId"]), (&first["runId"], &third["runId"]));
    assert_eq!(
        (&conversation["turnCount"], &conversation["agentRef"], &conversation["status"]),
        (&json!(12), &json!("a"), &json!("ACTIVE"))
    );
    let tokens: u64 = [&first, &second, &third].iter().map(|run| run["tokensUsed"].as_u64().unwrap()).sum();
    assert_eq!(conversation["totalTokensUsed"], tokens);
    let later = server.get(&format!("{path}?from=10")).await.expect(200);
    assert_eq!(later["turns"].as_array().unwrap()[..], turns[10..]);
}

async fn conversation_can_be_renamed_archived_and_deleted(server: Server) {
    define_fixed_reply_agent(&server, "a", json!({})).await;
    let first = server.run("a", "hello there").await;
    let path = conversation_path(&first);
    assert_eq!(server.get(&path).await.expect(200)["title"], "hello there");
    let renamed = server.patch(&path, json!({ "title": "Ünïcode 🙂" })).await.expect(200);
    assert_eq!((&renamed["title"], &renamed["status"]), (&json!("Ünïcode 🙂"), &json!("ACTIVE")));
    server.continue_conversation("a", &first["conversationId"], "more").await.expect(200);
    assert_eq!(server.get(&path).await.expect(200)["title"], "Ünïcode 🙂", "a title set by a user is kept");
    assert_eq!(server.patch(&path, json!({ "status": "ARCHIVED" })).await.expect(200)["status"], "ARCHIVED");
    for (status, count) in [("ARCHIVED", 1), ("ACTIVE", 0), ("COMPLETED", 0)] {
        let page = server.get(&format!("conversations?status={status}")).await.expect(200);
        assert_eq!(page["items"].as_array().unwrap().len(), count, "{status}");
    }
    for invalid in [
        json!({ "status": "archived" }),
        json!({ "status": 1 }),
        json!({ "owner": "me" }),
        json!({ "title": 7 }),
        json!({ "sharedContext": [] }),
    ] {
        server.patch(&path, invalid).await.problem(400, "invalid-request");
    }
    server.get("conversations?status=gone").await.problem(400, "invalid-request");
    server.delete(&path).await.expect(204);
    for answer in
        [server.get(&path).await, server.delete(&path).await, server.patch(&path, json!({ "title": "x" })).await]
    {
        answer.problem(404, "not-found");
    }
    server.continue_conversation("a", &first["conversationId"], "hello?").await.problem(404, "not-found");
    server.post(&format!("{path}/continue"), json!({ "userMessage": "hello?" })).await.problem(404, "not-found");
    // Deleting a conversation does not delete its runs.
    let run = server.get(&format!("runs/{}", first["runId"].as_str().unwrap())).await.expect(200);
    assert_eq!(run["responseText"], "Fine.");
    server.get("conversations/nonsense").await.problem(404, "not-found");
}

async fn conversation_is_visible_only_to_its_owner_and_administrators(server: Server) {
    define_fixed_reply_agent(&server, "a", json!({})).await;
    let (north, south) = (server.member("north").await, server.member("south").await);
    let response = north.run("a", "between us").await;
    let path = conversation_path(&response);
    for refused in [
        south.get(&path).await,
        south.patch(&path, json!({ "title": "mine" })).await,
        south.delete(&path).await,
        south.post(&format!("{path}/continue"), json!({ "userMessage": "hi" })).await,
        south.continue_conversation("a", &response["conversationId"], "hi").await,
    ] {
        refused.problem(404, "not-found");
    }
    let count = |page: Value| page["items"].as_array().unwrap().len();
    assert_eq!(count(south.get("conversations").await.expect(200)), 0);
    south.get("conversations?all=true").await.problem(403, "forbidden");
    assert_eq!(count(north.get("conversations").await.expect(200)), 1);
    assert_eq!(
        count(server.get("conversations").await.expect(200)),
        0,
        "without `all` an administrator sees only their own"
    );
    let all = server.get("conversations?all=true").await.expect(200);
    assert_eq!((count(all.clone()), &all["items"][0]["principalId"]), (1, &json!("north")));
    assert_eq!(server.get(&path).await.expect(200)["principalId"], "north");
    assert_eq!(north.patch(&path, json!({ "title": "ours" })).await.expect(200)["principalId"], "north");
    for (name, expected) in [("north", 1), ("south", 0)] {
        let body = json!({ "all": true, "query": format!("principalId:{name}") });
        assert_eq!(count(server.post("conversations/query", body).await.expect(200)), expected, "{name}");
    }
    server.post("realms", json!({ "name": "other" })).await.expect(201);
    server.in_realm("other").get(&path).await.problem(404, "not-found");
    // The owner is the principal who started the conversation, not the author of the agent.
    assert_eq!(count(north.get("conversations?agentRef=a").await.expect(200)), 1);
    assert_eq!(count(north.get("conversations?agentRef=b").await.expect(200)), 0);
}

async fn turns_that_exceed_the_maximum_are_summarised(server: Server) {
    let rules = json!([
        { "when": { "system": "you summarise conversations", "user": "[user] beta" }, "reply": { "text": "S2 of {{user}}" } },
        { "when": { "system": "you summarise conversations", "user": "[user] alpha" }, "reply": { "text": "S1: North likes alpha." } },
        { "when": { "system": "S2 of Summary of the earlier conversation:\nS1: North likes alpha." }, "reply": { "text": "I remember all." } },
        { "when": { "system": "S1: North likes alpha." }, "reply": { "text": "I remember." } },
        { "reply": { "text": "Fine." } }
    ]);
    let memory = json!({ "strategy": "summary", "maxConversationTurns": 2 });
    server.define_agent("a", rules, json!({ "memoryConfig": memory, "systemPrompt": "Be brief." })).await;
    let first = server.run("a", "alpha").await;
    let send = |message: &'static str| {
        let (server, conversation) = (server.clone(), first["conversationId"].clone());
        async move { server.continue_conversation("a", &conversation, message).await.expect(200)["responseText"].clone() }
    };
    assert_eq!(send("beta").await, "Fine.", "two turns fit into the window");
    assert_eq!(server.get(&conversation_path(&first)).await.expect(200)["summary"], Value::Null);
    assert_eq!(send("gamma").await, "I remember.", "the first two are in the summary");
    let conversation = server.get(&conversation_path(&first)).await.expect(200);
    assert_eq!(
        (&conversation["summary"], &conversation["turnCount"]),
        (&json!("S1: North likes alpha."), &json!(6)),
        "summarised turns are not deleted"
    );
    assert_eq!(send("delta").await, "I remember all.", "the second summary includes the first");
}

async fn summary_agent_writes_the_summary(server: Server) {
    let summary_rules = json!([{ "when": { "user": "alpha" }, "reply": { "text": "It was about alpha." } }]);
    server.define_agent("scribe", summary_rules, json!({ "systemPrompt": "You write minutes." })).await;
    let rules = json!([
        { "when": { "system": "it was about alpha" }, "reply": { "text": "I remember." } },
        { "reply": { "text": "Fine." } }
    ]);
    let memory = json!({ "strategy": "summary", "maxConversationTurns": 2, "summaryAgentRef": "scribe" });
    server.define_agent("a", rules, json!({ "memoryConfig": memory })).await;
    let first = server.run("a", "alpha").await;
    server.continue_conversation("a", &first["conversationId"], "beta").await.expect(200);
    let third = server.continue_conversation("a", &first["conversationId"], "gamma").await.expect(200);
    assert_eq!(third["responseText"], "I remember.", "{third}");
    let runs = server.get("runs?agentRef=scribe").await.expect(200);
    assert_eq!(runs["items"].as_array().unwrap().len(), 1, "a summary is a run");
    assert_eq!(
        server.get("conversations").await.expect(200)["items"].as_array().unwrap().len(),
        1,
        "a summary run has no conversation"
    );
}

async fn run_with_a_failed_summary_completes_with_a_warning(server: Server) {
    let memory = json!({ "strategy": "summary", "maxConversationTurns": 2, "summaryAgentRef": "nobody" });
    define_fixed_reply_agent(&server, "a", json!({ "memoryConfig": memory })).await;
    let first = server.run("a", "alpha").await;
    server.continue_conversation("a", &first["conversationId"], "beta").await.expect(200);
    let third = server.continue_conversation("a", &first["conversationId"], "gamma").await.expect(200);
    assert_eq!(third["status"], "COMPLETED");
    assert!(third["warnings"].to_string().contains("nobody"), "{third}");
}

async fn run_with_persistence_disabled_stores_no_conversation(server: Server) {
    define_fixed_reply_agent(&server, "a", json!({ "memoryConfig": { "persistConversation": false } })).await;
    let response = server.run("a", "forget me").await;
    assert_eq!((&response["status"], &response["conversationId"]), (&json!("COMPLETED"), &Value::Null));
    assert_eq!(server.get("conversations").await.expect(200)["items"], json!([]));
    assert_eq!(
        server.get(&format!("runs/{}", response["runId"].as_str().unwrap())).await.expect(200)["conversationId"],
        Value::Null
    );
}

async fn conversation_is_bound_to_one_agent(server: Server) {
    define_fixed_reply_agent(&server, "a", json!({})).await;
    define_fixed_reply_agent(&server, "b", json!({})).await;
    let first = server.run("a", "hi").await;
    let problem =
        server.continue_conversation("b", &first["conversationId"], "hi").await.problem(400, "invalid-request");
    assert_eq!(problem["errors"][0]["path"], "/conversationId");
    assert_eq!(
        server.continue_conversation("A", &first["conversationId"], "hi").await.expect(200)["status"],
        "COMPLETED"
    );
    server.patch("agents/a", json!({ "enabled": false })).await.expect(200);
    server.continue_conversation("a", &first["conversationId"], "hi").await.problem(409, "agent-disabled");
    server.delete("agents/a").await.expect(204);
    server
        .post(&format!("{}/continue", conversation_path(&first)), json!({ "userMessage": "hi" }))
        .await
        .problem(404, "not-found");
    assert_eq!(
        server.get(&conversation_path(&first)).await.expect(200)["turnCount"],
        4,
        "the turns remain after the agent is deleted"
    );
}

async fn shared_context_of_a_conversation_fills_the_prompt(server: Server) {
    let rules = json!([
        { "when": { "system": "for north" }, "reply": { "text": "North." } },
        { "when": { "system": "for south" }, "reply": { "text": "South." } },
        { "reply": { "text": "Who?" } }
    ]);
    server.define_agent("a", rules, json!({ "systemPrompt": "You work for {{boss}}." })).await;
    let first = server.run("a", "hi").await;
    assert_eq!(first["responseText"], "Who?");
    let shared =
        server.patch(&conversation_path(&first), json!({ "sharedContext": { "boss": "North" } })).await.expect(200);
    assert_eq!(shared["sharedContext"], json!({ "boss": "North" }));
    let second = server.continue_conversation("a", &first["conversationId"], "hi").await.expect(200);
    assert_eq!(second["responseText"], "North.");
    let own = json!({ "userMessage": "hi", "conversationId": first["conversationId"], "context": { "boss": "South" } });
    assert_eq!(
        server.execute_agent("a", own).await.expect(200)["responseText"],
        "South.",
        "the context of the request overrides the shared context"
    );
}

async fn context_of_a_request_is_stored_in_the_conversation(server: Server) {
    let rules = json!([
        { "when": { "system": "for north" }, "reply": { "text": "North." } },
        { "when": { "system": "for south" }, "reply": { "text": "South." } },
        { "reply": { "text": "Who?" } }
    ]);
    server.define_agent("a", rules, json!({ "systemPrompt": "You work for {{boss}}." })).await;
    let context = json!({ "boss": "North", "team": { "name": "blue", "size": 3 }, "absent": null });
    let first = server.execute_agent("a", json!({ "userMessage": "hi", "context": context })).await.expect(200);
    assert_eq!(first["responseText"], "North.");
    let shared = server.get(&conversation_path(&first)).await.expect(200)["sharedContext"].clone();
    assert_eq!(shared, json!({ "boss": "North", "team": { "name": "blue", "size": 3 } }));
    let second = server.continue_conversation("a", &first["conversationId"], "hi").await.expect(200);
    assert_eq!(second["responseText"], "North.", "the second turn has the context of the first one");
    let continued = json!({ "userMessage": "hi", "context": { "boss": "South", "team": { "name": "red" } } });
    let third = server.post(&format!("{}/continue", conversation_path(&first)), continued).await.expect(200);
    assert_eq!(third["responseText"], "South.");
    let shared = server.get(&conversation_path(&first)).await.expect(200)["sharedContext"].clone();
    assert_eq!(shared, json!({ "boss": "South", "team": { "name": "red" } }), "a variable is replaced as a whole");
    let without =
        json!({ "userMessage": "hi", "conversationId": first["conversationId"], "context": { "boss": null } });
    assert_eq!(server.execute_agent("a", without).await.expect(200)["responseText"], "Who?");
    let shared = server.get(&conversation_path(&first)).await.expect(200)["sharedContext"].clone();
    assert_eq!(shared, json!({ "team": { "name": "red" } }), "null removes a variable");
    let large = json!({ "userMessage": "hi", "conversationId": first["conversationId"], "context": { "x": "y".repeat(1 << 20) } });
    server.execute_agent("a", large).await.problem(400, "invalid-request");
}

async fn conversation_title_is_the_first_line_of_the_first_message(server: Server) {
    define_fixed_reply_agent(&server, "a", json!({})).await;
    for (message, title) in [
        ("short", "short".to_owned()),
        ("  \n  second line first \n third", "second line first".to_owned()),
        (&"x".repeat(80), "x".repeat(80)),
        (&"ü".repeat(81), format!("{}…", "ü".repeat(80))),
    ] {
        let response = server.run("a", message).await;
        assert_eq!(server.get(&conversation_path(&response)).await.expect(200)["title"], title);
    }
}

async fn conversations_are_listed_in_order_of_their_latest_turn(server: Server) {
    define_fixed_reply_agent(&server, "a", json!({})).await;
    let mut ids = Vec::new();
    for n in 0..5 {
        ids.push(server.run("a", &format!("number {n}")).await["conversationId"].clone());
    }
    // A new turn moves this conversation to the top of the list.
    server.continue_conversation("a", &ids[0], "once more").await.expect(200);
    let shown =
        |page: &Value| page["items"].as_array().unwrap().iter().map(|one| one["id"].clone()).collect::<Vec<_>>();
    let all = shown(&server.get("conversations").await.expect(200));
    assert_eq!(all, [&ids[0], &ids[4], &ids[3], &ids[2], &ids[1]].map(Value::clone));
    let first = server.get("conversations?limit=2").await.expect(200);
    let second = server
        .get(&format!("conversations?limit=3&cursor={}", first["nextCursor"].as_str().unwrap()))
        .await
        .expect(200);
    assert_eq!([shown(&first), shown(&second)].concat(), all);
    assert_eq!(second["nextCursor"], Value::Null);
    assert!(first["items"][0].get("turns").is_none(), "list items have no turns");
    for invalid in ["limit=0", "limit=101", "cursor=x", "owner=admin", "all=1"] {
        server.get(&format!("conversations?{invalid}")).await.problem(400, "invalid-request");
    }
}

async fn busy_conversation_rejects_messages_and_deletion(server: Server) {
    let faults = Faults::builder().start(LOOPBACK).await.unwrap();
    server.define_http_tool("wait", &faults.base_url(), "/slow/60000", json!({})).await;
    let rules = json!([
        { "when": { "user": "wait", "turn": 0 }, "reply": { "toolCalls": [{ "name": "wait" }] } },
        { "reply": { "text": "Fine." } }
    ]);
    server.define_agent("a", rules, json!({ "toolRefs": ["wait"] })).await;
    let first = server.run("a", "hi").await;
    let body = json!({ "userMessage": "wait", "conversationId": first["conversationId"] });
    let mut stream =
        server.open_stream(server.request(reqwest::Method::POST, "agents/a/execute/stream").json(&body)).await;
    let started = stream.wait_for("TOOL_CALL_START").await;
    let run = started.data["runId"].as_str().unwrap();
    server.poll_until("runs?status=RUNNING", |page| page["items"] != json!([])).await;
    let problem =
        server.continue_conversation("a", &first["conversationId"], "hi").await.problem(409, "conversation-busy");
    assert!(problem["detail"].as_str().unwrap().contains(run), "{problem}");
    server
        .post(&format!("{}/continue", conversation_path(&first)), json!({ "userMessage": "hi" }))
        .await
        .problem(409, "conversation-busy");
    server.delete(&conversation_path(&first)).await.problem(409, "conversation-busy");
    assert_eq!(server.run("a", "hi").await["status"], "COMPLETED", "a new conversation is not blocked");
    server.patch(&conversation_path(&first), json!({ "title": "still here" })).await.expect(200);
    server.post(&format!("runs/{run}/cancel"), json!({})).await.expect(200);
    assert_eq!(
        server.continue_conversation("a", &first["conversationId"], "hi").await.expect(200)["responseText"],
        "Fine."
    );
    faults.shutdown().await;
}

/// Finds the model request whose last message is `message`. Returns the role and the text of the messages before it.
async fn messages_before(message: &str) -> Vec<(String, String)> {
    let url = format!("{}/__aimock/journal", required_env("TOOLWRIGHT_TEST_AIMOCK_URL"));
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let journal: Value = client.get(url).send().await.unwrap().json().await.unwrap();
    let text = |message: &Value, field: &str| message[field].as_str().unwrap_or_default().to_owned();
    let requests = journal
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| entry["body"]["messages"].as_array().cloned().unwrap_or_default());
    let mut messages = requests
        .into_iter()
        .find(|messages| messages.last().is_some_and(|last| text(last, "content") == message))
        .unwrap_or_else(|| panic!("the model never received `{message}`"));
    messages.pop();
    messages.iter().map(|message| (text(message, "role"), text(message, "content"))).collect()
}

/// Returns a message that the model mock answers. No other test sends the same message.
fn unique_message(test: &str, n: usize) -> String {
    format!("say hello {test} {} {n}", std::process::id())
}

#[tokio::test]
async fn memory_strategy_limits_the_exchanges_sent_to_the_model() {
    with_model_mock(|server| async move {
        for (name, memory, exchanges) in [
            ("full", json!({}), 3),
            ("full_anyway", json!({ "strategy": "full", "maxConversationTurns": 1 }), 3),
            ("window", json!({ "strategy": "sliding_window", "maxConversationTurns": 4 }), 2),
            ("odd_window", json!({ "strategy": "sliding_window", "maxConversationTurns": 3 }), 1),
            ("wide_window", json!({ "strategy": "sliding_window" }), 3),
            ("few_tokens", json!({ "strategy": "full", "maxContextTokens": 50 }), 1),
            ("none", json!({ "strategy": "none" }), 0),
        ] {
            let agent = json!({ "refName": name, "llmConfig": openai_model("gpt-4o"), "memoryConfig": memory, "systemPrompt": "You are terse." });
            server.post("agents", agent).await.expect(201);
            let mut conversation = Value::Null;
            for n in 0..4 {
                let body = json!({ "userMessage": unique_message(name, n), "conversationId": conversation });
                let response = server.execute_agent(name, body).await.expect(200);
                assert_eq!(response["status"], "COMPLETED", "{response}");
                conversation = response["conversationId"].clone();
            }
            let messages = messages_before(&unique_message(name, 3)).await;
            assert_eq!(messages[0], ("system".to_owned(), "You are terse.".to_owned()), "{name}");
            let expected: Vec<String> = (3 - exchanges..3).map(|n| unique_message(name, n)).collect();
            let users: Vec<&String> = messages.iter().filter(|(role, _)| role == "user").map(|(_, text)| text).collect();
            assert_eq!(users, expected.iter().collect::<Vec<_>>(), "{name}: {messages:?}");
            let answers = messages.iter().filter(|(role, text)| role == "assistant" && text.starts_with("Hallo")).count();
            assert_eq!((answers, messages.len()), (exchanges, 1 + 2 * exchanges), "{name}: only whole exchanges are remembered: {messages:?}");
        }
    })
    .await;
}

#[tokio::test]
async fn calls_and_their_results_are_sent_to_the_model_together() {
    with_model_mock(|server| async move {
        server.define_echo("look", json!({})).await;
        for (turns, roles) in [(4, vec!["user", "assistant", "tool", "assistant"]), (3, vec![])] {
            let name = format!("a{turns}");
            let memory = json!({ "strategy": "sliding_window", "maxConversationTurns": turns });
            let rules = calls_then(json!([{ "name": "look", "arguments": { "at": "Rome" } }]), "Seen.");
            server.define_agent(&name, rules, json!({ "toolRefs": ["look"], "memoryConfig": memory })).await;
            let first = server.run(&name, "go").await;
            // The next message goes to the model mock, which records its requests. The request must contain the whole
            // first exchange or nothing of it.
            server.patch(&format!("agents/{name}"), json!({ "llmConfig": openai_model("gpt-4o") })).await.expect(200);
            let message = unique_message("together", turns);
            server.continue_conversation(&name, &first["conversationId"], &message).await.expect(200);
            let messages: Vec<String> = messages_before(&message).await.into_iter().map(|(role, _)| role).collect();
            assert_eq!(messages, roles, "{turns}");
        }
    })
    .await;
}
