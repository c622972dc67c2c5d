//! Tests the details of runs that the command line prints: `runs get -v`, and where it advises to fork.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, also in its helpers"
)]

mod support;

use serde_json::{Value, json};
use support::runs::{SlowRun, wait_for_end};
use support::{CommandOutput, Server};

/// A server with the tools `look`, which reads, and `pay`, which writes. Both return their input.
fn start_with_tools() -> Server {
    let server = Server::start_without_demo(Vec::new());
    let tool = |name: &str, effects: &str| {
        json!({ "kind": "tool", "refName": name, "toolType": "FUNCTION", "sideEffects": effects,
            "inputSchema": { "id": { "type": "string", "required": true } }, "invocation": { "path": "echo" } })
    };
    apply(&server, &json!([tool("look", "reads"), tool("pay", "writes")]));
    server
}

fn apply(server: &Server, definitions: &Value) {
    server.run_with_stdin(&["apply", "-f", "-"], &definitions.to_string()).expect_exit(0);
}

/// Defines an agent whose model makes these calls, each list in one reply, and then answers.
fn define_agent(server: &Server, name: &str, calls: &[Value], changes: Value) {
    let rules: Vec<Value> = calls
        .iter()
        .enumerate()
        .map(|(turn, calls)| json!({ "when": { "turn": turn }, "reply": { "text": "", "toolCalls": calls } }))
        .collect();
    let script = json!({ "rules": rules, "otherwise": { "text": "Done." } });
    let mut agent = json!({ "kind": "agent", "refName": name, "toolRefs": ["look", "pay"],
        "llmConfig": { "provider": "scripted", "model": "x", "extraParams": { "script": script } } });
    agent.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
    apply(server, &agent);
}

fn call(tool: &str, id: impl Into<Value>) -> Value {
    json!({ "name": tool, "arguments": { "id": id.into() } })
}

/// Runs an agent until it ends or waits, and returns the id of the run and of the call that waits for approval.
fn run_agent(server: &Server, agent: &str, exit: i32) -> (String, String) {
    let run = server.run(&["agents", "run", agent, "go", "--json"]).expect_exit(exit).json();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    (text(&run["runId"]), text(&run["approvals"][0]["callId"]))
}

fn details(server: &Server, run: &str) -> String {
    let CommandOutput { out, .. } = server.run(&["runs", "get", run, "-v"]).expect_exit(0);
    out
}

/// Returns the lines about a call: its head and the indented lines below it.
fn call_block<'a>(shown: &'a str, tool: &str) -> Vec<&'a str> {
    let head = format!(" call  {tool}");
    let mut lines = shown.lines().skip_while(|line| !line.contains(&head));
    let first = lines.next().unwrap_or_else(|| panic!("no call of {tool}: {shown}"));
    std::iter::once(first).chain(lines.take_while(|line| line.starts_with("      "))).collect()
}

#[track_caller]
fn assert_contains(shown: &str, texts: &[&str]) {
    for text in texts {
        assert!(shown.contains(text), "{text}: {shown}");
    }
}

#[test]
fn calls_that_the_schema_or_a_person_refused_are_shown_with_their_input_and_error() {
    let server = start_with_tools();
    let calls = [json!([call("look", 7), call("pay", "a")])];
    define_agent(&server, "clerk", &calls, json!({ "requiresApproval": true }));
    let (run, waiting) = run_agent(&server, "clerk", 8);
    server.run(&["runs", "deny", &run, &waiting, "--reason", "not on a Sunday"]).expect_exit(0);
    let shown = details(&server, &run);
    assert_eq!(shown.matches(" call  ").count(), 2, "each call once: {shown}");
    let refused = call_block(&shown, "look").join("\n");
    assert_contains(&refused, &["\"id\": 7", "      error", "VALIDATION_ERROR", "/id: 7 is not of type"]);
    let denied = call_block(&shown, "pay").join("\n");
    assert_contains(
        &denied,
        &["not called", "\"id\": \"a\"", "POLICY_DENIED", "\"reason\": \"approval_denied\"", "not on a Sunday"],
    );
    assert_contains(&shown, &["deny by admin  pay", "      reason\n        not on a Sunday\n"]);
}

#[test]
fn edited_call_is_shown_with_its_original_and_its_edited_input() {
    let server = start_with_tools();
    define_agent(&server, "clerk", &[json!([call("pay", "a")])], json!({ "requiresApproval": true }));
    let (run, waiting) = run_agent(&server, "clerk", 8);
    server.run(&["runs", "edit", &run, &waiting, "--input", r#"{"id":"b"}"#]).expect_exit(0);
    let shown = details(&server, &run);
    let edited = call_block(&shown, "pay").join("\n");
    let inputs = "      original input\n        {\n          \"id\": \"a\"\n        }\n      edited input\n        {\n          \"id\": \"b\"\n        }\n      output\n";
    assert_contains(&edited, &[inputs]);
    assert_contains(&shown, &["edit by admin  pay"]);
}

#[test]
fn calls_that_a_limit_refused_are_shown_and_are_not_counted_as_tool_calls() {
    let server = start_with_tools();
    let calls = [json!([call("look", 7), call("look", "a"), call("look", "b"), call("pay", "c")])];
    define_agent(&server, "clerk", &calls, json!({ "policy": { "maxToolCalls": 2 } }));
    let ended = server.run(&["agents", "run", "clerk", "go"]).expect_exit(1).out;
    assert_contains(&ended, &["the limit of 2 tool calls is reached", "· 2 tool calls · 2 not called ·"]);
    let run = server.run(&["runs", "list", "--json"]).expect_exit(0).json();
    let shown = details(&server, run["items"][0]["id"].as_str().unwrap());
    assert_eq!(shown.matches(" call  ").count(), 4, "each call once: {shown}");
    let refused = call_block(&shown, "pay").join("\n");
    assert_contains(&refused, &["not called", "\"id\": \"c\"", "MAX_TOOL_CALLS_EXCEEDED"]);
}

#[test]
fn refused_direct_call_is_shown_with_its_input_and_error() {
    let server = start_with_tools();
    server.run(&["tools", "run", "look", "--input", r#"{"id":7}"#]).expect_exit(1);
    let runs = server.run(&["runs", "list", "--tool", "look", "--json"]).expect_exit(0).json();
    let shown = details(&server, runs["items"][0]["id"].as_str().unwrap());
    let refused = call_block(&shown, "look").join("\n");
    // The journal of a refused direct call has a digest of the input.
    assert_contains(&refused, &["      input\n", "VALIDATION_ERROR", "/id: 7 is not of type"]);
    assert!(!shown.contains(" user"), "{shown}");
}

#[test]
fn entries_before_a_write_are_listed_with_send_writes() {
    let server = start_with_tools();
    define_agent(&server, "clerk", &[json!([call("look", "a")]), json!([call("pay", "b")])], json!({}));
    let (run, _) = run_agent(&server, "clerk", 0);
    let shown = details(&server, &run);
    let hint = shown.lines().find(|line| line.contains("it needs `--send-writes`")).unwrap();
    let needing = hint.split_whitespace().nth(1).unwrap().trim_end_matches(',');
    let last = needing.rsplit('-').next().unwrap();
    let entry = shown.lines().find(|line| line.contains(" call  pay")).unwrap().split_whitespace().next().unwrap();
    let refused = server.run(&["runs", "fork", &run, "--at", last]).expect_exit(6).err;
    assert_contains(&refused, &["may send a write again", &format!("or fork at entry {entry}\n")]);
    server.run(&["runs", "fork", &run, "--at", last, "--send-writes"]).expect_exit(0);
    server.run(&["runs", "fork", &run, "--at", entry]).expect_exit(0);
}

#[test]
fn run_that_ends_with_a_write_has_no_later_entry_to_fork() {
    let server = start_with_tools();
    let calls = [json!([call("pay", "a"), call("look", "b")])];
    define_agent(&server, "clerk", &calls, json!({ "policy": { "maxToolCalls": 1 } }));
    let (run, _) = run_agent(&server, "clerk", 1);
    let refused = server.run(&["runs", "fork", &run, "--at", "1"]).expect_exit(6).err;
    assert_contains(&refused, &["may send a write again", "set `sendWrites` (`--send-writes`) to allow this\n"]);
}

#[tokio::test]
async fn interrupted_write_is_shown_where_its_outcome_became_unknown_and_a_fork_there_repeats_nothing() {
    let slow = json!({ "invocation": { "method": "POST" }, "sideEffects": "writes" });
    let mut slow_run = SlowRun::start(Server::start(), &slow).await;
    slow_run.server.kill_and_restart();
    wait_for_end(&slow_run.server, &slow_run.path).await;
    let (server, run) = (&slow_run.server, slow_run.path.trim_start_matches("runs/").to_owned());
    let shown = details(server, &run);
    let unknown = call_block(&shown, "slow");
    assert_contains(&unknown.join("\n"), &["UNKNOWN", "outcome_unknown"]);
    let entry = unknown[0].split_whitespace().next().unwrap();
    assert!(shown.contains(&format!("{entry} recovered")), "{shown}");
    server.run(&["runs", "fork", &run, "--at", "1"]).expect_exit(6);
    server.run(&["runs", "fork", &run, "--at", entry]).expect_exit(0);
    slow_run.faults.shutdown().await;
}
