//! Tests the event stream of a realm: which changes it reports, who receives them, and how a client resumes.

use reqwest::Method;
use serde_json::{Value, json};
use sqlx::Connection as _;
use toolwright_engine::events::StreamItem;
use toolwright_types::{Clock as _, SystemClock};

use crate::event_stream::{EventStream, SseEvent};
use crate::harness::{Deployment, Server, Storage, calls_then, with_timeout};

crate::on_both_databases!(
    every_kind_of_change_has_an_event,
    run_that_waits_for_an_approval_has_events_in_order,
    direct_call_that_only_reads_has_no_event,
    events_are_selected_by_the_parameter_kinds,
    client_receives_only_runs_that_it_may_read,
    events_of_another_realm_do_not_arrive,
    client_resumes_after_the_last_event_id,
    unknown_event_id_resets_the_client,
);

async fn listen(server: &Server, query: &str, after: Option<&str>) -> EventStream {
    let request = server.request(Method::GET, &format!("events{query}"));
    server.open_stream(after.into_iter().fold(request, |request, id| request.header("last-event-id", id))).await
}

/// Opens the stream and waits until the server has started it.
async fn listen_now(server: &Server, query: &str) -> EventStream {
    let mut stream = listen(server, query, None).await;
    let first = next(&mut stream).await;
    assert_eq!((first.kind.as_str(), &first.data), ("READY", &json!({ "type": "READY" })));
    stream
}

async fn next(stream: &mut EventStream) -> SseEvent {
    let event = with_timeout(stream.next()).await.expect("the stream has not ended");
    assert!(event.text_id.is_some(), "every event has an id: {event:?}");
    assert_eq!(event.data["type"], *event.kind);
    event
}

/// Reads the next events, and returns the type, kind, name, status and revision of each.
async fn summaries(stream: &mut EventStream, count: usize) -> Vec<Value> {
    let mut summaries = Vec::new();
    for _ in 0..count {
        let data = next(stream).await.data;
        assert!(data["at"].is_string() && data["id"].is_string(), "{data}");
        summaries.push(json!([data["type"], data["kind"], data["ref"], data["status"], data["revision"]]));
    }
    summaries
}

async fn define_writer(server: &Server, name: &str) {
    server.define_echo(name, json!({ "sideEffects": "writes" })).await;
}

async fn every_kind_of_change_has_an_event(server: Server) {
    let mut stream = listen_now(&server, "").await;
    server.post("tool-providers", json!({ "refName": "crm", "baseUrl": "http://127.0.0.1:1" })).await.expect(201);
    server.post("prompt-fragments", json!({ "refName": "tone", "content": "Be brief." })).await.expect(201);
    server.post("agents", json!({ "refName": "a" })).await.expect(201);
    server.put("agents/a", json!({ "refName": "a", "systemPrompt": "Help." })).await.expect(200);
    server.delete("agents/a").await.expect(204);
    let schema = json!({ "type": "object", "properties": { "id": { "type": "integer" } } });
    server.define_echo("Drifty", json!({ "outputJsonSchema": schema, "onOutputMismatch": "warn" })).await;
    server.call("drifty", json!({ "id": "x" })).await;
    assert_eq!(
        summaries(&mut stream, 7).await,
        [
            json!(["DEFINITION_CREATED", "providers", "crm", null, 1]),
            json!(["DEFINITION_CREATED", "fragments", "tone", null, 1]),
            json!(["DEFINITION_CREATED", "agents", "a", null, 1]),
            json!(["DEFINITION_UPDATED", "agents", "a", null, 2]),
            json!(["DEFINITION_DELETED", "agents", "a", null, 2]),
            json!(["DEFINITION_CREATED", "tools", "Drifty", null, 1]),
            json!(["DRIFT_FOUND", "drift", "Drifty", "open", null]),
        ]
    );
    server.post("step-registrations", json!({ "name": "find", "toolRef": "echo" })).await.expect(201);
    server.post("condition-bindings", json!({ "name": "large", "condition": "${input.large}" })).await.expect(201);
    server
        .post("workflows", json!({ "name": "w", "steps": [{ "name": "a", "handlerRef": "find" }] }))
        .await
        .expect(201);
    assert_eq!(
        summaries(&mut stream, 3).await,
        [
            json!(["DEFINITION_CREATED", "step-registrations", "find", null, 1]),
            json!(["DEFINITION_CREATED", "condition-bindings", "large", null, 1]),
            json!(["DEFINITION_CREATED", "workflows", "w", null, 1]),
        ]
    );
    // A repeated occurrence of the same drift has no event.
    server.call("drifty", json!({ "id": "y" })).await;
    let found = server.poll_until("drift", |page| page["items"][0]["count"] == 2).await;
    let finding = found["items"][0]["id"].as_str().unwrap();
    server.post(&format!("drift/{finding}/accept"), Value::Null).await.expect(200);
    server.post(&format!("drift/{finding}/accept"), Value::Null).await.expect(200);
    let order = json!({ "name": "Order", "jsonSchema": { "type": "object", "properties": {} } });
    server.post("types", order).await.expect(201);
    let accepted = next(&mut stream).await;
    assert_eq!((&accepted.data["type"], &accepted.data["id"]), (&json!("DRIFT_ACCEPTED"), &json!(finding)));
    assert_eq!(summaries(&mut stream, 1).await, [json!(["DEFINITION_CREATED", "types", "Order", null, 1])]);
}

async fn run_that_waits_for_an_approval_has_events_in_order(server: Server) {
    server.define_echo("pay", json!({ "sideEffects": "writes", "requiresConfirmation": true })).await;
    let calls = json!([{ "name": "pay", "arguments": { "amount": 5 } }]);
    server.define_agent("a", calls_then(calls, "Done."), json!({ "toolRefs": ["pay"] })).await;
    let mut stream = listen_now(&server, "?kinds=runs,approvals").await;
    let waiting = server.run("a", "Pay.").await;
    let (run, call) = (&waiting["runId"], &waiting["approvals"][0]["callId"]);
    let started = next(&mut stream).await.data;
    assert_eq!((&started["type"], &started["id"], &started["ref"]), (&json!("RUN_STARTED"), run, &json!("a")));
    let changed = next(&mut stream).await.data;
    assert_eq!((&changed["type"], &changed["status"]), (&json!("RUN_CHANGED"), &json!("AWAITING_APPROVAL")));
    let requested = next(&mut stream).await.data;
    assert_eq!((&requested["type"], &requested["id"], &requested["runId"]), (&json!("APPROVAL_REQUESTED"), call, run));
    assert_eq!((&requested["ref"], requested.get("status")), (&json!("pay"), None));

    server.decide(&waiting, 0, json!({ "decision": "approve" })).await.expect(200);
    let mut later = Vec::new();
    while later.last().is_none_or(|event: &Value| event["type"] != "RUN_ENDED") {
        later.push(next(&mut stream).await.data);
    }
    let decided = later.iter().find(|event| event["type"] == "APPROVAL_DECIDED").expect("the decision has an event");
    assert_eq!((&decided["id"], &decided["status"]), (call, &json!("approved")));
    assert_eq!(later.last().unwrap()["status"], "COMPLETED");
    assert!(later.iter().all(|event| event["type"] != "APPROVAL_REQUESTED"), "{later:?}");
}

async fn direct_call_that_only_reads_has_no_event(server: Server) {
    server.define_echo("look", json!({})).await;
    define_writer(&server, "save").await;
    let mut stream = listen_now(&server, "?kinds=runs").await;
    for tool in ["look", "save"] {
        server.call(tool, json!({})).await;
    }
    let expected = [
        json!(["RUN_STARTED", "runs", "save", "RUNNING", null]),
        json!(["RUN_ENDED", "runs", "save", "COMPLETED", null]),
    ];
    assert_eq!(summaries(&mut stream, 2).await, expected);
}

async fn events_are_selected_by_the_parameter_kinds(server: Server) {
    let mut definitions = listen_now(&server, "?kinds=definitions").await;
    let mut tools = listen_now(&server, "?kinds=drift,tools").await;
    server.post("agents", json!({ "refName": "a" })).await.expect(201);
    define_writer(&server, "save").await;
    server.call("save", json!({})).await;
    define_writer(&server, "store").await;
    let created = |kind: &str, name: &str| json!(["DEFINITION_CREATED", kind, name, null, 1]);
    let expected = [created("agents", "a"), created("tools", "save"), created("tools", "store")];
    assert_eq!(summaries(&mut definitions, 3).await, expected);
    assert_eq!(summaries(&mut tools, 2).await, expected[1..]);
    let problem = server.get("events?kinds=runs,secrets").await.problem(400, "invalid-request");
    assert!(problem.to_string().contains("got `secrets`"), "{problem}");
}

async fn client_receives_only_runs_that_it_may_read(server: Server) {
    define_writer(&server, "save").await;
    let (ada, bob) = (server.member("ada").await, server.member("bob").await);
    let mut of_ada = listen_now(&ada, "?kinds=runs").await;
    let mut of_admin = listen_now(&server, "?kinds=runs").await;
    bob.call("save", json!({ "by": "bob" })).await;
    ada.call("save", json!({ "by": "ada" })).await;
    let run = |data: &Value| data["id"].as_str().unwrap().to_owned();
    let mut seen_by_admin = Vec::new();
    for _ in 0..4 {
        seen_by_admin.push(run(&next(&mut of_admin).await.data));
    }
    let mut own = ada.get("runs").await.expect(200)["items"].as_array().unwrap().clone();
    assert_eq!(own.len(), 1, "a member lists its own runs");
    let own = own.pop().unwrap()["id"].as_str().unwrap().to_owned();
    assert_eq!(seen_by_admin[2..], [own.clone(), own.clone()], "an administrator receives the events of all owners");
    assert!(seen_by_admin[..2].iter().all(|id| *id != own));
    for _ in 0..2 {
        assert_eq!(run(&next(&mut of_ada).await.data), own, "the events of bob do not arrive");
    }
}

async fn events_of_another_realm_do_not_arrive(server: Server) {
    server.post("realms", json!({ "name": "other" })).await.expect(201);
    let other = server.in_realm("other");
    let (mut stream, mut of_other) = (listen_now(&server, "").await, listen_now(&other, "").await);
    define_writer(&other, "theirs").await;
    define_writer(&server, "ours").await;
    assert_eq!(next(&mut stream).await.data["ref"], "ours");
    assert_eq!(next(&mut of_other).await.data["ref"], "theirs");
    let member = server.member("ada").await;
    member.in_realm("other").get("events").await.problem(403, "forbidden");
}

async fn client_resumes_after_the_last_event_id(server: Server) {
    let mut stream = listen(&server, "", None).await;
    let ready = next(&mut stream).await.text_id.unwrap();
    define_writer(&server, "first").await;
    define_writer(&server, "second").await;
    let first = next(&mut stream).await.text_id.unwrap();
    drop(stream);
    define_writer(&server, "third").await;
    for (after, names) in [(&ready, vec!["first", "second", "third"]), (&first, vec!["second", "third"])] {
        let mut resumed = listen(&server, "", Some(after)).await;
        let reopened = next(&mut resumed).await;
        assert_eq!((reopened.kind.as_str(), reopened.text_id.as_ref()), ("READY", Some(after)));
        for name in names {
            assert_eq!(next(&mut resumed).await.data["ref"], name);
        }
        let mut by_parameter = listen(&server, &format!("?after={after}"), None).await;
        assert_eq!(next(&mut by_parameter).await.text_id.as_ref(), Some(after));
    }
}

/// Returns the name of the definition in the next event. Skips the event about the definition `before`: on Postgres, an
/// open transaction of another test delays events, so this event can arrive after the reset.
async fn next_unless_before(stream: &mut EventStream) -> Value {
    let first = next(stream).await.data["ref"].take();
    if first == "before" { next(stream).await.data["ref"].take() } else { first }
}

async fn unknown_event_id_resets_the_client(server: Server) {
    define_writer(&server, "before").await;
    let mut stream = listen(&server, "", Some("9000000000-9000000000")).await;
    let reset = next(&mut stream).await;
    assert_eq!(reset.data, json!({ "type": "RESET" }));
    define_writer(&server, "after").await;
    assert_eq!(next_unless_before(&mut stream).await, "after", "the stream continues after the reset");
    // A client can resume after the id of the reset event.
    let mut resumed = listen(&server, "", reset.text_id.as_deref()).await;
    assert_eq!(next(&mut resumed).await.kind, "READY");
    assert_eq!(next_unless_before(&mut resumed).await, "after");
    for id in ["12", "x-1"] {
        let request = server.request(Method::GET, "events").header("last-event-id", id);
        let problem = server.send(request).await.problem(400, "invalid-request");
        assert!(problem.to_string().contains("Last-Event-ID"), "{problem}");
    }
}

async fn resume_after_a_restart_and_after_deletion(storage: Storage) {
    let deployment = Deployment::new(storage).await;
    let (server, running) = deployment.start().await;
    let mut stream = listen(&server, "", None).await;
    let ready = next(&mut stream).await.text_id.unwrap();
    define_writer(&server, "first").await;
    let first = next(&mut stream).await.text_id.unwrap();
    define_writer(&server, "second").await;
    running.stop().await;

    let (server, running) = deployment.start().await;
    let mut resumed = listen(&server, "", Some(&first)).await;
    assert_eq!(next(&mut resumed).await.kind, "READY");
    assert_eq!(next(&mut resumed).await.data["ref"], "second");

    let (events, identity) = (&running.engine.events, &running.engine.identity);
    let long_ago = toolwright_types::Timestamp::from_micros(0);
    assert_eq!(events.delete_old(identity, long_ago, 1).await.unwrap(), 1, "all but the newest event are deleted");
    let mut missed = listen(&server, "", Some(&ready)).await;
    assert_eq!(next(&mut missed).await.kind, "RESET", "a deleted event was not received");
    let mut complete = listen(&server, "", Some(&first)).await;
    assert_eq!(next(&mut complete).await.kind, "READY", "only received events were deleted");
    assert_eq!(next(&mut complete).await.data["ref"], "second");

    assert_eq!(events.delete_old(identity, SystemClock.now(), 1).await.unwrap(), 1);
    let mut fresh = listen(&server, "", None).await;
    let newest = next(&mut fresh).await.text_id;
    define_writer(&server, "third").await;
    assert_eq!(next(&mut fresh).await.data["ref"], "third");
    assert_eq!(next(&mut resumed).await.data["ref"], "third", "a listener that has received all events is not reset");
    let mut resumed = listen(&server, "", newest.as_deref()).await;
    assert_eq!(next(&mut resumed).await.kind, "READY", "the position of an empty stream is valid");
    assert_eq!(next(&mut resumed).await.data["ref"], "third");
    running.stop().await;
    deployment.remove().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn event_stream_resumes_after_a_restart_and_resets_if_missed_events_were_deleted_on_sqlite() {
    resume_after_a_restart_and_after_deletion(Storage::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn event_stream_resumes_after_a_restart_and_resets_if_missed_events_were_deleted_on_postgres() {
    resume_after_a_restart_and_after_deletion(Storage::PostgresAndRedis).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn client_receives_events_of_another_server_and_resumes_there() {
    let deployment = Deployment::new(Storage::PostgresAndRedis).await;
    let ((one, first), (two, second)) = (deployment.start().await, deployment.start().await);
    let mut stream = listen_now(&two, "").await;
    define_writer(&one, "a").await;
    let event = next(&mut stream).await;
    assert_eq!(event.data["ref"], "a");
    define_writer(&two, "b").await;
    let mut resumed = listen(&one, "", event.text_id.as_deref()).await;
    assert_eq!(next(&mut resumed).await.kind, "READY");
    assert_eq!(next(&mut resumed).await.data["ref"], "b");
    first.stop().await;
    second.stop().await;
    deployment.remove().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn event_whose_transaction_commits_late_is_not_skipped() {
    let deployment = Deployment::new(Storage::PostgresAndRedis).await;
    let (server, running) = deployment.start().await;
    let mut stream = listen_now(&server, "").await;
    let mut connection = sqlx::PgConnection::connect(&deployment.database_url()).await.unwrap();
    let mut late = connection.begin().await.unwrap();
    sqlx::query(
        "INSERT INTO events (realm_id, at, event_type, kind, subject_id, ref_name, revision)
         SELECT home_realm_id, 0, 'DEFINITION_CREATED', 'agents', 'agt_late', 'late', 1 FROM principals",
    )
    .execute(&mut *late)
    .await
    .unwrap();
    define_writer(&server, "early").await;
    // The definition is committed, but its event waits for the older transaction.
    server.get("tools/early").await.expect(200);
    late.commit().await.unwrap();
    for name in ["late", "early"] {
        assert_eq!(next(&mut stream).await.data["ref"], name);
    }
    connection.close().await.unwrap();
    running.stop().await;
    deployment.remove().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_listener_is_reset_and_then_receives_new_events() {
    let deployment = Deployment::new(Storage::PostgresAndRedis).await;
    let (server, running) = deployment.start().await;
    let session = running.engine.identity.admin_session().await.unwrap();
    let mut slow = running.engine.events.listen(session, Vec::new(), None).await.unwrap();
    let mut fast = listen_now(&server, "").await;
    let mut connection = sqlx::PgConnection::connect(&deployment.database_url()).await.unwrap();
    for _ in 0..3 {
        sqlx::query(
            "INSERT INTO events (realm_id, at, event_type, kind, subject_id, ref_name, revision)
             SELECT home_realm_id, 0, 'DEFINITION_CREATED', 'agents', 'agt_' || n, 'a', 1
             FROM principals, generate_series(1, 500) AS n",
        )
        .execute(&mut connection)
        .await
        .unwrap();
        for _ in 0..500 {
            assert_eq!(next(&mut fast).await.data["ref"], "a");
        }
    }
    assert!(matches!(with_timeout(slow.next()).await, Some(StreamItem::Ready(_))));
    assert!(matches!(with_timeout(slow.next()).await, Some(StreamItem::Reset(_))), "it is 1,500 events behind");
    define_writer(&server, "new").await;
    match with_timeout(slow.next()).await {
        Some(StreamItem::Event(shared)) => assert_eq!(shared.event.ref_name.as_deref(), Some("new")),
        _ => panic!("the listener receives the event after the reset"),
    }
    drop(slow);
    connection.close().await.unwrap();
    running.stop().await;
    deployment.remove().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn client_receives_only_definitions_that_it_may_read() {
    let deployment = Deployment::new(Storage::Sqlite).await;
    let (_, running) = deployment.start().await;
    let realm = running.engine.identity.admin_session().await.unwrap().realm.realm;
    running.stop().await;
    let policy = format!(
        r#"forbid (principal in Role::"member", action == Action::"read", resource in Category::"{realm}/secret");"#
    );
    let (server, running) = deployment.start_with(|options| options.policies = policy).await;
    let member = server.member("ada").await;
    let mut stream = listen_now(&member, "").await;
    server.define_echo("plans", json!({ "category": "secret" })).await;
    member.get("tools/plans").await.problem(403, "forbidden");
    server.delete("tools/plans").await.expect(204);
    server.define_echo("news", json!({ "category": "public" })).await;
    assert_eq!(next(&mut stream).await.data["ref"], "news");
    running.stop().await;
    deployment.remove().await;
}
