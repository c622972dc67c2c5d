//! Tests the commands that inspect definitions and the server: `ready`, `uses`, `revisions`, `cost`, `providers`, `realms`,
//! `principals`, `models` and `server`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, also in its helpers"
)]

mod support;

use std::io::{BufRead as _, BufReader};

use serde_json::json;
use support::Server;

#[test]
fn ready_and_uses_and_revisions_and_cost_commands_print_their_results() {
    let server = Server::start();
    let ready = server.run(&["tools", "ready", "hubspot/get-deal", "--probe"]).expect_exit(0).out;
    assert!(ready.contains("✓ lifecycle ") && ready.contains("✓ connection"), "{ready}");
    let uses = server.run(&["tools", "uses", "hubspot/get-deal"]).expect_exit(0).out;
    assert!(uses.starts_with("NAME") && uses.contains("agent"), "{uses}");
    let missing = json!({ "refName": "locked", "baseUrl": "https://locked.example",
        "auth": { "authType": "bearer", "secretRef": "no-such-secret" } });
    server.run_with_stdin(&["providers", "create", "-f", "-"], &missing.to_string()).expect_exit(0);
    let locked = server.run(&["providers", "ready", "locked"]).expect_exit(1).out;
    assert!(locked.contains("✗ secret") && locked.contains("secrets set no-such-secret"), "{locked}");
    let revisions = server.run(&["agents", "revisions", "assistant", "--json"]).expect_exit(0).json();
    assert_eq!(revisions["items"][0]["revision"], 1, "{revisions}");
    let equal = server.run(&["agents", "revisions", "assistant", "--diff", "1", "1", "--json"]).expect_exit(0).json();
    assert_eq!(equal["changes"], json!([]));
    let cost = server.run(&["agents", "cost", "assistant"]).expect_exit(0).out;
    assert!(cost.contains("maxIterations × cost") && cost.contains("assumptions:"), "{cost}");
    server.run(&["agents", "cost", "unknown"]).expect_exit(3);
}

#[test]
fn events_after_a_given_event_are_printed_one_per_line() {
    let server = Server::start_without_demo(Vec::new());
    let follow = |args: &[&str]| {
        let mut child = server.spawn(args);
        let lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        (child, lines)
    };
    let (mut child, mut lines) = follow(&["events", "--json", "--kinds", "providers,runs"]);
    assert_eq!(lines.next().unwrap(), r#"{"type":"READY"}"#);
    for name in ["one", "two"] {
        let provider = json!({ "refName": name, "baseUrl": "http://127.0.0.1:1" });
        server.run_with_stdin(&["providers", "create", "-f", "-"], &provider.to_string()).expect_exit(0);
        let event: serde_json::Value = serde_json::from_str(&lines.next().unwrap()).unwrap();
        assert_eq!((&event["type"], &event["ref"]), (&json!("DEFINITION_CREATED"), &json!(name)));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let (mut child, mut lines) = follow(&["events", "--after", "0-0"]);
    for name in ["one", "two"] {
        let line = lines.next().unwrap();
        assert!(line.contains(&format!("  DEFINITION_CREATED  providers  {name}  revision 1  ")), "{line}");
    }
    child.kill().unwrap();
    child.wait().unwrap();
    server.run(&["events", "--kinds", "secrets"]).expect_exit(2);
    let refused = server.run(&["events", "--after", "x"]).expect_exit(6).err;
    assert!(refused.contains("must be the `id` of an event of this stream, got `x`"), "{refused}");
}

#[test]
fn providers_are_created_listed_tested_and_deleted() {
    let server = Server::start_without_demo(Vec::new());
    let provider = json!({ "refName": "gone", "baseUrl": "http://127.0.0.1:1", "egressAllow": ["127.0.0.0/8"] });
    let create = || server.run_with_stdin(&["providers", "create", "-f", "-"], &provider.to_string());
    assert!(create().expect_exit(0).out.contains("created    provider gone"));
    create().expect_exit(5);
    let tool = json!({ "refName": "t", "toolType": "FUNCTION", "invocation": { "path": "echo" } });
    server.run_with_stdin(&["providers", "create", "-f", "-"], &tool.to_string()).expect_exit(6);
    let listed = server.run(&["providers", "list"]).expect_exit(0).out;
    assert!(listed.contains("gone  REST  enabled  http://127.0.0.1:1"), "{listed}");
    assert!(server.run(&["providers", "get", "gone"]).expect_exit(0).out.contains("http://127.0.0.1:1"));
    assert!(server.run(&["providers", "test", "gone"]).expect_exit(1).out.starts_with("✗ gone"));
    server.run(&["providers", "uses", "gone"]).expect_exit(0);
    server.run(&["providers", "delete", "gone"]).expect_exit(0);
    server.run(&["providers", "get", "gone"]).expect_exit(3);
}

#[test]
fn realms_principals_models_and_the_server_are_shown() {
    let server = Server::start_without_demo(Vec::new());
    server.run(&["realms", "create", "sales"]).expect_exit(0);
    server.run(&["realms", "create", "sales"]).expect_exit(5);
    assert!(server.run(&["realms", "list"]).expect_exit(0).out.contains("sales"));
    server.run(&["keys", "create", "--principal", "bot", "--realm", "sales"]).expect_exit(0);
    let principals = server.run(&["principals", "list", "--home", "sales"]).expect_exit(0).out;
    assert!(principals.contains("bot   member  sales  1"), "{principals}");
    let models = server.run(&["models", "list", "--provider", "openai", "--all"]).expect_exit(0).out;
    assert!(models.contains("gpt-4o ") && models.contains("built-in, 2025-11-30"), "{models}");
    let status = server.run(&["server"]).expect_exit(0).out;
    for expected in ["version   ", "sqlite", "✓ database", "✓ disk", "✓ python", "postgres, redis, restate"] {
        assert!(status.contains(expected), "{expected}: {status}");
    }
    assert_eq!(server.run(&["trials", "list", "--json"]).expect_exit(0).json()["items"], json!([]));
}
