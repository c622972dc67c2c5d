//! Tests `toolwright mcp`, which an MCP client starts as a child process. The command forwards messages between stdio
//! and the Toolwright server.

use std::io::{BufRead, BufReader, Write};
use std::process::{ChildStdin, ChildStdout};

use serde_json::{Value, json};

use crate::support::{ADMIN_KEY, Server};

/// An MCP client that writes to the command's stdin and reads from its stdout.
struct Client {
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl Client {
    fn send(&mut self, message: Value) {
        writeln!(self.stdin, "{message}").unwrap();
    }

    /// Sends a request and returns its response. Skips other messages.
    fn request(&mut self, id: u64, method: &str, params: Value) -> Value {
        self.send(json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        loop {
            let mut line = String::new();
            assert_ne!(self.stdout.read_line(&mut line).unwrap(), 0, "the bridge closed its output");
            let message: Value = serde_json::from_str(&line).unwrap();
            if message["id"] == id {
                return message;
            }
        }
    }
}

#[test]
fn client_of_mcp_revision_2025_11_25_is_served_over_stdio() {
    let server = Server::start();
    let mut child = server.spawn(&["mcp"]);
    let mut client =
        Client { stdin: child.stdin.take().unwrap(), stdout: BufReader::new(child.stdout.take().unwrap()) };
    let initialize =
        json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
    let response = client.request(0, "initialize", initialize);
    assert_eq!(response["result"]["serverInfo"]["name"], "toolwright", "{response}");
    client.send(json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
    let tools = client.request(1, "tools/list", json!({}));
    assert!(tools["result"]["tools"].as_array().unwrap().iter().any(|tool| tool["name"] == "calculator"), "{tools}");
    let called = client.request(2, "tools/call", json!({ "name": "calculator", "arguments": { "expression": "6*7" } }));
    assert!(called["result"]["content"][0]["text"].as_str().unwrap().contains("42"), "{called}");
    drop(client);
    assert!(child.wait().unwrap().success());
}

#[test]
fn mcp_probe_calls_no_tool_unless_a_call_is_requested() {
    let server = Server::start_without_demo(Vec::new());
    // A call to a tool that writes is in the output of `runs list` as soon as the call has ended. So the output shows
    // whether the probe has called the tool.
    let tool =
        json!({ "refName": "note", "toolType": "FUNCTION", "sideEffects": "writes", "invocation": { "path": "echo" } });
    server.run_with_stdin(&["tools", "apply", "-f", "-"], &tool.to_string()).expect_exit(0);
    let url = format!("{}/mcp", server.url);
    let probe = ["mcp", "probe", url.as_str(), "--token", ADMIN_KEY];
    let subjects = || {
        let listed = server.run(&["runs", "list", "--json"]).expect_exit(0).json();
        let items = listed["items"].as_array().unwrap();
        items.iter().map(|run| run["subject"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let output = server.run(&probe).expect_exit(0);
    assert!(output.out.contains("note") && output.err.contains("--call TOOL"), "{} {}", output.out, output.err);
    assert!(subjects().is_empty());
    let call = ["--call", "note", "--arguments", r#"{"text":"hello"}"#];
    let output = server.run(&[&probe[..], &call].concat()).expect_exit(0);
    assert!(output.out.contains("note ok") && output.out.contains("hello"), "{}", output.out);
    assert_eq!(subjects(), ["note"]);
}

#[test]
fn mcp_command_reports_an_unreachable_server() {
    let server = Server::start();
    let output = server.run_with_stdin(
        &["mcp", "--url", "http://127.0.0.1:9"],
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n",
    );
    let output = output.expect_exit(7);
    assert!(output.err.contains("127.0.0.1:9"), "{}", output.err);
}

#[test]
fn mcp_command_answers_requests_that_were_sent_before_stdin_closed() {
    let server = Server::start();
    let output = server
        .run_with_stdin(&["mcp"], &(0..5).fold(handshake(), |text, n| text + &addition_request(n)))
        .expect_exit(0);
    let mut responses: Vec<(u64, String)> = output
        .out
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .filter(|message| message["id"].as_u64().is_some_and(|id| id >= 10))
        .map(|message| (message["id"].as_u64().unwrap(), message["result"]["content"][0]["text"].to_string()))
        .collect();
    responses.sort();
    let ids: Vec<u64> = responses.iter().map(|(id, _)| *id).collect();
    assert_eq!(ids, [10, 11, 12, 13, 14], "{}", output.out);
    for (id, text) in responses {
        assert!(text.contains(&(id - 9).to_string()), "{id}: {text}");
    }
}

#[test]
fn mcp_command_reports_an_invalid_key_or_realm() {
    let server = Server::start();
    let output = server.run_with_stdin(&["mcp", "--api-key", "tw_no-such-key"], &handshake()).expect_exit(4);
    assert!(output.err.contains("error[unauthenticated]"), "{}", output.err);
    let response: Value = serde_json::from_str(output.out.lines().next().unwrap()).unwrap();
    assert_eq!(response["id"], 0, "the client gets a response too: {response}");
    assert!(response["error"]["message"].as_str().unwrap().contains("TOOLWRIGHT_API_KEY"), "{response}");
    let output = server.run_with_stdin(&["mcp", "--realm", "nowhere"], &handshake()).expect_exit(4);
    assert!(output.err.contains("error["), "{}", output.err);
}

/// Returns the messages that open an MCP session.
fn handshake() -> String {
    let initialize =
        json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
    let initialize = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": initialize });
    format!("{initialize}\n{}\n", json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }))
}

fn addition_request(n: u64) -> String {
    let params = json!({ "name": "calculator", "arguments": { "expression": format!("{n}+1") } });
    format!("{}\n", json!({ "jsonrpc": "2.0", "id": 10 + n, "method": "tools/call", "params": params }))
}

#[test]
fn failed_mcp_probe_explains_the_failure_and_exits_with_4_only_for_credentials() {
    let server = Server::start();
    let url = format!("{}/mcp", server.url);
    let wrong_path = format!("{}/nothing-here", server.url);
    for (args, exit, code, message, hint) in [
        (&[url.as_str()][..], 4, "unauthenticated", "requires credentials", "--token"),
        (&[&url, "--token", "wrong"], 4, "unauthenticated", "rejected the token", "--token"),
        (&["http://127.0.0.1:9/mcp"], 7, "unreachable", "cannot be reached", "/mcp"),
        (&[&wrong_path], 7, "unreachable", "does not speak MCP", "/mcp"),
        (&["not a url"], 2, "usage", "must be an http or https URL", ""),
        (&[&url, "--token", ADMIN_KEY, "--protocol", "1999-01-01"], 2, "usage", "1999-01-01", ""),
    ] {
        let output = server.run(&[&["mcp", "probe"], args].concat()).expect_exit(exit);
        let err = &output.err;
        assert!(err.starts_with(&format!("error[{code}]: ")) && err.contains(message), "{args:?}: {err}");
        assert_eq!(err.contains("\n  hint: "), !hint.is_empty(), "{args:?}: {err}");
        assert!(err.contains(hint), "{args:?}: {err}");
        for library_text in
            ["Transport", "rmcp", "reqwest", "error sending request", "Auth required", "toolwright serve"]
        {
            assert!(!err.contains(library_text), "{args:?}: {err}");
        }
    }
}
