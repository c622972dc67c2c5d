//! Tests the MCP server with third-party clients over HTTP and stdio: the TypeScript SDK, the Python SDK and the MCP
//! Inspector.

use std::process::{Command, Output};

use reqwest::Method;
use serde_json::{Value, json};
use toolwright_testkit::{Faults, LOOPBACK};

use crate::peers::Peers;
use crate::support::runs::{api, define, wait_until};
use crate::support::{ADMIN_KEY, BINARY, Server};

/// A server with tools, a prompt and a resource that the clients use.
struct Fixture {
    server: Server,
    peers: Peers,
    _faults: toolwright_testkit::faults::Handle,
}

impl Fixture {
    async fn start() -> Self {
        let faults = Faults::builder().start(LOOPBACK).await.unwrap();
        let server = Server::start();
        let slow = json!({ "refName": "slow", "toolType": "EXTERNAL_REST", "description": "Responds slowly.",
            "sideEffects": "reads", "timeoutMs": 60_000,
            "invocation": { "path": format!("{}/slow/60000", faults.base_url()) } });
        define(&server, "tools", slow).await;
        let greeting = json!({ "refName": "greeting", "content": "Say hello to {{who}}." });
        define(&server, "prompt-fragments", greeting).await;
        let sum = json!({ "input": { "expression": "1+1" } });
        assert_eq!(api(&server, Method::POST, "tools/calculator/execute", Some(sum)).await.0, 200);
        Self { server, peers: Peers::install(), _faults: faults }
    }

    /// Runs a program. Environment variables contain the server's URL and an API key.
    fn run(&self, mut command: Command) -> Output {
        let command = command.env("TOOLWRIGHT_URL", &self.server.url).env("TOOLWRIGHT_API_KEY", ADMIN_KEY);
        command.env_remove("TOOLWRIGHT_REALM").env("NODE_PATH", self.peers.modules()).output().unwrap()
    }

    /// Runs a client program that is built on an SDK, and checks the results that the program prints.
    async fn check_sdk_client(&self, mut client: Command, transport: &str) {
        client.args([transport, BINARY]);
        let output = self.run(client);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{transport}: {stderr}");
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert!(report["tools"].as_array().unwrap().contains(&json!("calculator")), "{transport}: {report}");
        let expected = json!({
            "server": "toolwright",
            "called": true,
            "failed": { "isError": true, "code": "VALIDATION_ERROR" },
            "unknown": -32602,
            "prompt": "Say hello to Ada.",
            "resource": true,
            "cancelled": true,
        });
        for (field, expected) in expected.as_object().unwrap() {
            assert_eq!(&report[field], expected, "{transport}: {field} in {report}");
        }
        assert!(!report["progress"].as_array().unwrap().is_empty(), "{transport}: {report}");
        wait_until("the cancellation at the server", async || {
            let (_, runs) = api(&self.server, Method::GET, "runs?kind=tool&limit=1", None).await;
            let run = &runs["items"][0];
            (run["subject"] == "slow" && run["status"] != "RUNNING").then_some(())
        })
        .await;
    }

    /// Runs the MCP Inspector in its command line mode.
    fn run_inspector(&self, target: &[&str], args: &[&str]) -> Output {
        let mut command = Command::new(self.peers.node());
        command.arg(self.peers.file("@modelcontextprotocol/inspector/clients/launcher/build/index.js"));
        command.args(["--cli", "--format", "json"]).args(args).args(target);
        self.run(command)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn typescript_sdk_can_list_and_call_tools_over_http_and_stdio() {
    let fixture = Fixture::start().await;
    for transport in ["http", "stdio"] {
        let mut client = Command::new(fixture.peers.node());
        client.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/mcp/clients/sdk.cjs"));
        fixture.check_sdk_client(client, transport).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn python_sdk_can_list_and_call_tools_over_http_and_stdio() {
    let fixture = Fixture::start().await;
    for transport in ["http", "stdio"] {
        let mut client = Command::new(fixture.peers.python());
        client.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/mcp/clients/sdk.py"));
        fixture.check_sdk_client(client, transport).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn mcp_inspector_can_list_and_call_tools_over_http_and_stdio() {
    let fixture = Fixture::start().await;
    let (url, key) = (format!("{}/mcp", fixture.server.url), format!("Authorization: Bearer {ADMIN_KEY}"));
    let http = ["--server-url", &url, "--transport", "http", "--header", &key];
    let (url, key) = (format!("TOOLWRIGHT_URL={}", fixture.server.url), format!("TOOLWRIGHT_API_KEY={ADMIN_KEY}"));
    let stdio = ["-e", &url, "-e", &key, "--", BINARY, "mcp"];
    for target in [&http[..], &stdio[..]] {
        for (args, expected) in [
            (&["--method", "tools/list"][..], "calculator"),
            (&["--method", "tools/call", "--tool-name", "calculator", "--tool-arg", "expression=6*7"], "42"),
            (&["--method", "prompts/get", "--prompt-name", "greeting", "--prompt-args", "who=Ada"], "hello to Ada"),
            (&["--method", "resources/list"], "toolwright://runs/"),
        ] {
            let output = fixture.run_inspector(target, args);
            let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
            assert!(output.status.success() && out.contains(expected), "{target:?} {args:?}\n{out}\n{err}");
        }
    }
    let rejected = fixture.run_inspector(&http, &["--method", "tools/call", "--tool-name", "no-such-tool"]);
    assert!(!rejected.status.success());
}
