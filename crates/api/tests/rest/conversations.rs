//! Conversations: what an agent remembers, who may see it, and what can be done to it.

use serde_json::{Value, json};
use toolwright_testkit::{Faults, LOOPBACK};

use crate::harness::{Server, calls_then, openai, required, with_mock};

crate::on_both_editions!(
    what_was_said_is_kept_turn_by_turn,
    a_conversation_is_renamed_archived_and_deleted,
    conversations_are_their_owners,
    what_is_forgotten_is_summarised,
    a_busy_conversation_takes_nothing_more
);
crate::on_sqlite!(
    another_agent_summarises,
    a_summary_that_fails_is_a_warning,
    what_is_not_kept_leaves_no_conversation,
    a_conversation_is_with_one_agent,
    what_runs_share_fills_the_prompt,
    titles_are_the_first_words,
    conversations_are_listed_and_paged
);

fn path(response: &Value) -> String {
    format!("conversations/{}", response["conversationId"].as_str().unwrap_or_else(|| panic!("{response}")))
}

/// An agent that says the same to everything.
async fn define_polite(server: &Server, name: &str, more: Value) {
    server.define_agent(name, json!([{ "reply": { "text": "Fine." } }]), more).await;
}

async fn what_was_said_is_kept_turn_by_turn(server: Server) {
    server.define_echo("look", json!({})).await;
    let call = json!([{ "name": "look", "arguments": { "at": "{{user}}" } }]);
    let agent = json!({ "toolRefs": ["look"], "systemPrompt": "Not a turn." });
    server.define_agent("a", calls_then(call, "Seen."), agent).await;
    let first = server.run("a", "one").await;
    let second = server.go_on("a", &first["conversationId"], "two").await.expect(200);
    assert_eq!(second["conversationId"], first["conversationId"]);
    assert_ne!(second["runId"], first["runId"]);
    let path = path(&first);
    let third = server.post(&format!("{path}/continue"), json!({ "userMessage": "three" })).await.expect(200);
    let kept = server.get(&path).await.expect(200);
    let turns = kept["turns"].as_array().unwrap();
    let roles: Vec<&Value> = turns.iter().map(|turn| &turn["role"]).collect();
    assert_eq!(roles, ["user", "assistant", "tool", "assistant"].repeat(3));
    for (index, turn) in turns.iter().enumerate() {
        assert_eq!(turn["turnIndex"], index);
    }
    let said = |index: usize| turns[index]["content"].as_str().unwrap();
    assert_eq!((said(0), said(3), said(8)), ("one", "Seen.", "three"));
    assert!(said(2).contains("one") && turns[1]["toolCalls"].to_string().contains("look"), "{kept}");
    assert_eq!((&turns[0]["runId"], &turns[11]["runId"]), (&first["runId"], &third["runId"]));
    assert_eq!((&kept["turnCount"], &kept["agentRef"], &kept["status"]), (&json!(12), &json!("a"), &json!("ACTIVE")));
    let tokens: u64 = [&first, &second, &third].iter().map(|run| run["tokensUsed"].as_u64().unwrap()).sum();
    assert_eq!(kept["totalTokensUsed"], tokens);
    let later = server.get(&format!("{path}?from=10")).await.expect(200);
    assert_eq!(later["turns"].as_array().unwrap()[..], turns[10..]);
}

async fn a_conversation_is_renamed_archived_and_deleted(server: Server) {
    define_polite(&server, "a", json!({})).await;
    let first = server.run("a", "hello there").await;
    let path = path(&first);
    assert_eq!(server.get(&path).await.expect(200)["title"], "hello there");
    let renamed = server.patch(&path, json!({ "title": "Ünïcode 🙂" })).await.expect(200);
    assert_eq!((&renamed["title"], &renamed["status"]), (&json!("Ünïcode 🙂"), &json!("ACTIVE")));
    server.go_on("a", &first["conversationId"], "more").await.expect(200);
    assert_eq!(server.get(&path).await.expect(200)["title"], "Ünïcode 🙂", "what a person called it stays");
    assert_eq!(server.patch(&path, json!({ "status": "ARCHIVED" })).await.expect(200)["status"], "ARCHIVED");
    for (status, count) in [("ARCHIVED", 1), ("ACTIVE", 0), ("COMPLETED", 0)] {
        let page = server.get(&format!("conversations?status={status}")).await.expect(200);
        assert_eq!(page["items"].as_array().unwrap().len(), count, "{status}");
    }
    for wrong in [
        json!({ "status": "archived" }),
        json!({ "status": 1 }),
        json!({ "owner": "me" }),
        json!({ "title": 7 }),
        json!({ "sharedContext": [] }),
    ] {
        server.patch(&path, wrong).await.problem(400, "invalid-request");
    }
    server.get("conversations?status=gone").await.problem(400, "invalid-request");
    server.delete(&path).await.expect(204);
    for answer in
        [server.get(&path).await, server.delete(&path).await, server.patch(&path, json!({ "title": "x" })).await]
    {
        answer.problem(404, "not-found");
    }
    server.go_on("a", &first["conversationId"], "hello?").await.problem(404, "not-found");
    server.post(&format!("{path}/continue"), json!({ "userMessage": "hello?" })).await.problem(404, "not-found");
    // Its runs stay.
    let run = server.get(&format!("runs/{}", first["runId"].as_str().unwrap())).await.expect(200);
    assert_eq!(run["responseText"], "Fine.");
    server.get("conversations/nonsense").await.problem(404, "not-found");
}

async fn conversations_are_their_owners(server: Server) {
    define_polite(&server, "a", json!({})).await;
    let (north, south) = (server.member("north").await, server.member("south").await);
    let response = north.run("a", "between us").await;
    let path = path(&response);
    for refused in [
        south.get(&path).await,
        south.patch(&path, json!({ "title": "mine" })).await,
        south.delete(&path).await,
        south.post(&format!("{path}/continue"), json!({ "userMessage": "hi" })).await,
        south.go_on("a", &response["conversationId"], "hi").await,
    ] {
        refused.problem(404, "not-found");
    }
    let count = |page: Value| page["items"].as_array().unwrap().len();
    assert_eq!(count(south.get("conversations").await.expect(200)), 0);
    south.get("conversations?all=true").await.problem(403, "forbidden");
    assert_eq!(count(north.get("conversations").await.expect(200)), 1);
    assert_eq!(count(server.get("conversations").await.expect(200)), 0, "an administrator's own");
    assert_eq!(count(server.get("conversations?all=true").await.expect(200)), 1);
    server.get(&path).await.expect(200);
    server.post("realms", json!({ "name": "other" })).await.expect(201);
    server.in_realm("other").get(&path).await.problem(404, "not-found");
    // What one says to another's agent is one's own.
    assert_eq!(count(north.get("conversations?agentRef=a").await.expect(200)), 1);
    assert_eq!(count(north.get("conversations?agentRef=b").await.expect(200)), 0);
}

async fn what_is_forgotten_is_summarised(server: Server) {
    let rules = json!([
        { "when": { "system": "you summarise conversations", "user": "[user] beta" }, "reply": { "text": "S2 of {{user}}" } },
        { "when": { "system": "you summarise conversations", "user": "[user] alpha" }, "reply": { "text": "S1: North likes alpha." } },
        { "when": { "system": "S2 of Summary of what came before:\nS1: North likes alpha." }, "reply": { "text": "I remember all." } },
        { "when": { "system": "S1: North likes alpha." }, "reply": { "text": "I remember." } },
        { "reply": { "text": "Fine." } }
    ]);
    let memory = json!({ "strategy": "summary", "maxConversationTurns": 2 });
    server.define_agent("a", rules, json!({ "memoryConfig": memory, "systemPrompt": "Be brief." })).await;
    let first = server.run("a", "alpha").await;
    let say = |message: &'static str| {
        let (server, conversation) = (server.clone(), first["conversationId"].clone());
        async move { server.go_on("a", &conversation, message).await.expect(200)["responseText"].clone() }
    };
    assert_eq!(say("beta").await, "Fine.", "two turns fit");
    assert_eq!(server.get(&path(&first)).await.expect(200)["summary"], Value::Null);
    assert_eq!(say("gamma").await, "I remember.", "the first two are in the summary");
    let kept = server.get(&path(&first)).await.expect(200);
    assert_eq!(
        (&kept["summary"], &kept["turnCount"]),
        (&json!("S1: North likes alpha."), &json!(6)),
        "nothing is deleted"
    );
    assert_eq!(say("delta").await, "I remember all.", "a summary grows from the one before");
}

async fn another_agent_summarises(server: Server) {
    let told = json!([{ "when": { "user": "alpha" }, "reply": { "text": "It was about alpha." } }]);
    server.define_agent("scribe", told, json!({ "systemPrompt": "You write minutes." })).await;
    let rules = json!([
        { "when": { "system": "it was about alpha" }, "reply": { "text": "I remember." } },
        { "reply": { "text": "Fine." } }
    ]);
    let memory = json!({ "strategy": "summary", "maxConversationTurns": 2, "summaryAgentRef": "scribe" });
    server.define_agent("a", rules, json!({ "memoryConfig": memory })).await;
    let first = server.run("a", "alpha").await;
    server.go_on("a", &first["conversationId"], "beta").await.expect(200);
    let third = server.go_on("a", &first["conversationId"], "gamma").await.expect(200);
    assert_eq!(third["responseText"], "I remember.", "{third}");
    let runs = server.get("runs?agentRef=scribe").await.expect(200);
    assert_eq!(runs["items"].as_array().unwrap().len(), 1, "a summary is a run like any other");
    assert_eq!(
        server.get("conversations").await.expect(200)["items"].as_array().unwrap().len(),
        1,
        "and no conversation"
    );
}

async fn a_summary_that_fails_is_a_warning(server: Server) {
    let memory = json!({ "strategy": "summary", "maxConversationTurns": 2, "summaryAgentRef": "nobody" });
    define_polite(&server, "a", json!({ "memoryConfig": memory })).await;
    let first = server.run("a", "alpha").await;
    server.go_on("a", &first["conversationId"], "beta").await.expect(200);
    let third = server.go_on("a", &first["conversationId"], "gamma").await.expect(200);
    assert_eq!(third["status"], "COMPLETED");
    assert!(third["warnings"].to_string().contains("nobody"), "{third}");
}

async fn what_is_not_kept_leaves_no_conversation(server: Server) {
    define_polite(&server, "a", json!({ "memoryConfig": { "persistConversation": false } })).await;
    let response = server.run("a", "forget me").await;
    assert_eq!((&response["status"], &response["conversationId"]), (&json!("COMPLETED"), &Value::Null));
    assert_eq!(server.get("conversations").await.expect(200)["items"], json!([]));
    assert_eq!(
        server.get(&format!("runs/{}", response["runId"].as_str().unwrap())).await.expect(200)["conversationId"],
        Value::Null
    );
}

async fn a_conversation_is_with_one_agent(server: Server) {
    define_polite(&server, "a", json!({})).await;
    define_polite(&server, "b", json!({})).await;
    let first = server.run("a", "hi").await;
    let problem = server.go_on("b", &first["conversationId"], "hi").await.problem(400, "invalid-request");
    assert_eq!(problem["errors"][0]["path"], "/conversationId");
    assert_eq!(server.go_on("A", &first["conversationId"], "hi").await.expect(200)["status"], "COMPLETED");
    server.patch("agents/a", json!({ "enabled": false })).await.expect(200);
    server.go_on("a", &first["conversationId"], "hi").await.problem(409, "agent-disabled");
    server.delete("agents/a").await.expect(204);
    server.post(&format!("{}/continue", path(&first)), json!({ "userMessage": "hi" })).await.problem(404, "not-found");
    assert_eq!(server.get(&path(&first)).await.expect(200)["turnCount"], 4, "what was said stays");
}

async fn what_runs_share_fills_the_prompt(server: Server) {
    let rules = json!([
        { "when": { "system": "for north" }, "reply": { "text": "North." } },
        { "when": { "system": "for south" }, "reply": { "text": "South." } },
        { "reply": { "text": "Who?" } }
    ]);
    server.define_agent("a", rules, json!({ "systemPrompt": "You work for {{boss}}." })).await;
    let first = server.run("a", "hi").await;
    assert_eq!(first["responseText"], "Who?");
    let shared = server.patch(&path(&first), json!({ "sharedContext": { "boss": "North" } })).await.expect(200);
    assert_eq!(shared["sharedContext"], json!({ "boss": "North" }));
    let second = server.go_on("a", &first["conversationId"], "hi").await.expect(200);
    assert_eq!(second["responseText"], "North.");
    let own = json!({ "userMessage": "hi", "conversationId": first["conversationId"], "context": { "boss": "South" } });
    assert_eq!(server.say("a", own).await.expect(200)["responseText"], "South.", "the request has the last word");
}

async fn titles_are_the_first_words(server: Server) {
    define_polite(&server, "a", json!({})).await;
    for (message, title) in [
        ("short", "short".to_owned()),
        ("  \n  second line first \n third", "second line first".to_owned()),
        (&"x".repeat(80), "x".repeat(80)),
        (&"ü".repeat(81), format!("{}…", "ü".repeat(80))),
    ] {
        let response = server.run("a", message).await;
        assert_eq!(server.get(&path(&response)).await.expect(200)["title"], title);
    }
}

async fn conversations_are_listed_and_paged(server: Server) {
    define_polite(&server, "a", json!({})).await;
    let mut ids = Vec::new();
    for n in 0..5 {
        ids.push(server.run("a", &format!("number {n}")).await["conversationId"].clone());
    }
    // The one in which something was said last comes first.
    server.go_on("a", &ids[0], "once more").await.expect(200);
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
    assert!(first["items"][0].get("turns").is_none(), "a list has no turns");
    for wrong in ["limit=0", "limit=101", "cursor=x", "owner=admin", "all=1"] {
        server.get(&format!("conversations?{wrong}")).await.problem(400, "invalid-request");
    }
}

async fn a_busy_conversation_takes_nothing_more(server: Server) {
    let faults = Faults::builder().start(LOOPBACK).await.unwrap();
    server.define_call("wait", &faults.base_url(), "/slow/60000", json!({})).await;
    let rules = json!([
        { "when": { "user": "wait", "turn": 0 }, "reply": { "toolCalls": [{ "name": "wait" }] } },
        { "reply": { "text": "Fine." } }
    ]);
    server.define_agent("a", rules, json!({ "toolRefs": ["wait"] })).await;
    let first = server.run("a", "hi").await;
    let body = json!({ "userMessage": "wait", "conversationId": first["conversationId"] });
    let mut stream = server.live(server.request(reqwest::Method::POST, "agents/a/execute/stream").json(&body)).await;
    let started = stream.until("TOOL_CALL_START").await;
    let run = started.data["runId"].as_str().unwrap();
    server.until("runs?status=RUNNING", |page| page["items"] != json!([])).await;
    let problem = server.go_on("a", &first["conversationId"], "hi").await.problem(409, "conversation-busy");
    assert!(problem["detail"].as_str().unwrap().contains(run), "{problem}");
    server
        .post(&format!("{}/continue", path(&first)), json!({ "userMessage": "hi" }))
        .await
        .problem(409, "conversation-busy");
    server.delete(&path(&first)).await.problem(409, "conversation-busy");
    assert_eq!(server.run("a", "hi").await["status"], "COMPLETED", "others are free");
    server.patch(&path(&first), json!({ "title": "still here" })).await.expect(200);
    server.post(&format!("runs/{run}/cancel"), json!({})).await.expect(200);
    assert_eq!(server.go_on("a", &first["conversationId"], "hi").await.expect(200)["responseText"], "Fine.");
    faults.shutdown().await;
}

/// What the mock was told together with this message: role and text of everything before it.
async fn told_before(message: &str) -> Vec<(String, String)> {
    let url = format!("{}/__aimock/journal", required("TOOLWRIGHT_TEST_AIMOCK_URL"));
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let journal: Value = client.get(url).send().await.unwrap().json().await.unwrap();
    let text = |message: &Value, field: &str| message[field].as_str().unwrap_or_default().to_owned();
    let asked = journal
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| entry["body"]["messages"].as_array().cloned().unwrap_or_default());
    let mut messages = asked
        .into_iter()
        .find(|messages| messages.last().is_some_and(|last| text(last, "content") == message))
        .unwrap_or_else(|| panic!("the model was never told `{message}`"));
    messages.pop();
    messages.iter().map(|message| (text(message, "role"), text(message, "content"))).collect()
}

/// A message that the mock answers and no other test sends.
fn hello(test: &str, n: usize) -> String {
    format!("say hello {test} {} {n}", std::process::id())
}

#[tokio::test]
async fn memory_is_as_long_as_the_strategy_says() {
    with_mock(|server| async move {
        for (name, memory, exchanges) in [
            ("full", json!({}), 3),
            ("full_anyway", json!({ "strategy": "full", "maxConversationTurns": 1 }), 3),
            ("window", json!({ "strategy": "sliding_window", "maxConversationTurns": 4 }), 2),
            ("odd_window", json!({ "strategy": "sliding_window", "maxConversationTurns": 3 }), 1),
            ("wide_window", json!({ "strategy": "sliding_window" }), 3),
            ("few_tokens", json!({ "strategy": "full", "maxContextTokens": 50 }), 1),
            ("none", json!({ "strategy": "none" }), 0),
        ] {
            let agent = json!({ "refName": name, "llmConfig": openai("gpt-4o"), "memoryConfig": memory, "systemPrompt": "You are terse." });
            server.post("agents", agent).await.expect(201);
            let mut conversation = Value::Null;
            for n in 0..4 {
                let body = json!({ "userMessage": hello(name, n), "conversationId": conversation });
                let response = server.say(name, body).await.expect(200);
                assert_eq!(response["status"], "COMPLETED", "{response}");
                conversation = response["conversationId"].clone();
            }
            let told = told_before(&hello(name, 3)).await;
            assert_eq!(told[0], ("system".to_owned(), "You are terse.".to_owned()), "{name}");
            let expected: Vec<String> = (3 - exchanges..3).map(|n| hello(name, n)).collect();
            let users: Vec<&String> = told.iter().filter(|(role, _)| role == "user").map(|(_, text)| text).collect();
            assert_eq!(users, expected.iter().collect::<Vec<_>>(), "{name}: {told:?}");
            let answers = told.iter().filter(|(role, text)| role == "assistant" && text.starts_with("Hallo")).count();
            assert_eq!((answers, told.len()), (exchanges, 1 + 2 * exchanges), "{name}: whole exchanges: {told:?}");
        }
    })
    .await;
}

#[tokio::test]
async fn calls_and_their_results_are_remembered_together() {
    with_mock(|server| async move {
        server.define_echo("look", json!({})).await;
        for (turns, roles) in [(4, vec!["user", "assistant", "tool", "assistant"]), (3, vec![])] {
            let name = format!("a{turns}");
            let memory = json!({ "strategy": "sliding_window", "maxConversationTurns": turns });
            let rules = calls_then(json!([{ "name": "look", "arguments": { "at": "Rome" } }]), "Seen.");
            server.define_agent(&name, rules, json!({ "toolRefs": ["look"], "memoryConfig": memory })).await;
            let first = server.run(&name, "go").await;
            // Another model takes over; it is told the whole exchange, or nothing of it.
            server.patch(&format!("agents/{name}"), json!({ "llmConfig": openai("gpt-4o") })).await.expect(200);
            let message = hello("together", turns);
            server.go_on(&name, &first["conversationId"], &message).await.expect(200);
            let told: Vec<String> = told_before(&message).await.into_iter().map(|(role, _)| role).collect();
            assert_eq!(told, roles, "{turns}");
        }
    })
    .await;
}
