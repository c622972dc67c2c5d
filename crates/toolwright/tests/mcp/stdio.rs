//! `toolwright mcp`: a client that starts its server, as a reference implementation of the protocol does.

use std::io::{BufRead, BufReader, Write};
use std::process::{ChildStdin, ChildStdout};

use serde_json::{Value, json};

use crate::support::Server;

/// A client at the other end of the pipes.
struct Client {
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl Client {
    fn say(&mut self, message: Value) {
        writeln!(self.to, "{message}").unwrap();
    }

    /// The answer to a request; what the server says by itself is passed over.
    fn ask(&mut self, id: u64, method: &str, params: Value) -> Value {
        self.say(json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        loop {
            let mut line = String::new();
            assert_ne!(self.from.read_line(&mut line).unwrap(), 0, "the bridge ended");
            let message: Value = serde_json::from_str(&line).unwrap();
            if message["id"] == id {
                return message;
            }
        }
    }
}

#[test]
fn an_older_client_is_served_over_pipes() {
    let server = Server::start();
    let mut child = server.spawn(&["mcp"]);
    let mut client = Client { to: child.stdin.take().unwrap(), from: BufReader::new(child.stdout.take().unwrap()) };
    let hello =
        json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
    let answer = client.ask(0, "initialize", hello);
    assert_eq!(answer["result"]["serverInfo"]["name"], "toolwright", "{answer}");
    client.say(json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
    let tools = client.ask(1, "tools/list", json!({}));
    assert!(tools["result"]["tools"].as_array().unwrap().iter().any(|tool| tool["name"] == "calculator"), "{tools}");
    let called = client.ask(2, "tools/call", json!({ "name": "calculator", "arguments": { "expression": "6*7" } }));
    assert!(called["result"]["content"][0]["text"].as_str().unwrap().contains("42"), "{called}");
    drop(client);
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_server_that_is_not_there_is_told() {
    let server = Server::start();
    let ended = server
        .run_with(&["mcp", "--url", "http://127.0.0.1:9"], "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n");
    let ended = ended.exits(7);
    assert!(ended.err.contains("127.0.0.1:9"), "{}", ended.err);
}

#[test]
fn what_was_asked_before_the_input_ended_is_answered() {
    let server = Server::start();
    let ended = server.run_with(&["mcp"], &(0..5).fold(greeting(), |text, n| text + &addition(n))).exits(0);
    let mut answers: Vec<(u64, String)> = ended
        .out
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .filter(|message| message["id"].as_u64().is_some_and(|id| id >= 10))
        .map(|message| (message["id"].as_u64().unwrap(), message["result"]["content"][0]["text"].to_string()))
        .collect();
    answers.sort();
    let ids: Vec<u64> = answers.iter().map(|(id, _)| *id).collect();
    assert_eq!(ids, [10, 11, 12, 13, 14], "{}", ended.out);
    for (id, text) in answers {
        assert!(text.contains(&(id - 9).to_string()), "{id}: {text}");
    }
}

#[test]
fn a_key_that_is_wrong_is_told_as_everywhere() {
    let server = Server::start();
    let ended = server.run_with(&["mcp", "--api-key", "tw_no-such-key"], &greeting()).exits(4);
    assert!(ended.err.contains("error[unauthenticated]"), "{}", ended.err);
    let answer: Value = serde_json::from_str(ended.out.lines().next().unwrap()).unwrap();
    assert_eq!(answer["id"], 0, "the client has an answer too: {answer}");
    assert!(answer["error"]["message"].as_str().unwrap().contains("TOOLWRIGHT_API_KEY"), "{answer}");
    let ended = server.run_with(&["mcp", "--realm", "nowhere"], &greeting()).exits(4);
    assert!(ended.err.contains("error["), "{}", ended.err);
}

/// What a client says first.
fn greeting() -> String {
    let hello =
        json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
    let hello = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello });
    format!("{hello}\n{}\n", json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }))
}

fn addition(n: u64) -> String {
    let params = json!({ "name": "calculator", "arguments": { "expression": format!("{n}+1") } });
    format!("{}\n", json!({ "jsonrpc": "2.0", "id": 10 + n, "method": "tools/call", "params": params }))
}
