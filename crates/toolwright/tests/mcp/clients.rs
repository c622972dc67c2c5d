//! Clients that others wrote, over both transports: the SDKs of the protocol and the Inspector.

use std::process::{Command, Output};

use reqwest::Method;
use serde_json::{Value, json};
use toolwright_testkit::{Faults, LOOPBACK};

use crate::peers::Peers;
use crate::support::scene::{api, define, until};
use crate::support::{ADMIN_KEY, BINARY, Server};

/// A server with something of everything that clients ask for.
struct Scene {
    server: Server,
    peers: Peers,
    _faults: toolwright_testkit::faults::Handle,
}

impl Scene {
    async fn start() -> Self {
        let faults = Faults::builder().start(LOOPBACK).await.unwrap();
        let server = Server::start();
        let slow = json!({ "refName": "slow", "toolType": "EXTERNAL_REST", "description": "Takes its time.",
            "sideEffects": "reads", "timeoutMs": 60_000,
            "invocation": { "path": format!("{}/slow/60000", faults.base_url()) } });
        define(&server, "tools", slow).await;
        let greeting = json!({ "refName": "greeting", "content": "Say hello to {{who}}." });
        define(&server, "prompt-fragments", greeting).await;
        let sum = json!({ "input": { "expression": "1+1" } });
        assert_eq!(api(&server, Method::POST, "tools/calculator/execute", Some(sum)).await.0, 200);
        Self { server, peers: Peers::install(), _faults: faults }
    }

    /// Runs a program that finds the server in its environment.
    fn run(&self, mut command: Command) -> Output {
        let command = command.env("TOOLWRIGHT_URL", &self.server.url).env("TOOLWRIGHT_API_KEY", ADMIN_KEY);
        command.env_remove("TOOLWRIGHT_REALM").env("NODE_PATH", self.peers.modules()).output().unwrap()
    }

    /// Lets a client do all that clients do, and holds what it tells against what it should.
    async fn tells(&self, mut client: Command, way: &str) {
        client.args([way, BINARY]);
        let output = self.run(client);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{way}: {said}");
        let story: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert!(story["tools"].as_array().unwrap().contains(&json!("calculator")), "{way}: {story}");
        let expected = json!({
            "server": "toolwright",
            "called": true,
            "failed": { "isError": true, "code": "VALIDATION_ERROR" },
            "unknown": -32602,
            "prompt": "Say hello to Ada.",
            "resource": true,
            "cancelled": true,
        });
        for (part, expected) in expected.as_object().unwrap() {
            assert_eq!(&story[part], expected, "{way}: {part} in {story}");
        }
        assert!(!story["progress"].as_array().unwrap().is_empty(), "{way}: {story}");
        until("the call was cancelled at the server too", async || {
            let (_, runs) = api(&self.server, Method::GET, "runs?kind=tool&limit=1", None).await;
            let run = &runs["items"][0];
            (run["subject"] == "slow" && run["status"] != "RUNNING").then_some(())
        })
        .await;
    }

    /// What the Inspector prints.
    fn inspects(&self, target: &[&str], args: &[&str]) -> Output {
        let mut command = Command::new(self.peers.node());
        command.arg(self.peers.file("@modelcontextprotocol/inspector/clients/launcher/build/index.js"));
        command.args(["--cli", "--format", "json"]).args(args).args(target);
        self.run(command)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_typescript_sdk() {
    let scene = Scene::start().await;
    for way in ["http", "stdio"] {
        let mut client = Command::new(scene.peers.node());
        client.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/mcp/clients/sdk.cjs"));
        scene.tells(client, way).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_python_sdk() {
    let scene = Scene::start().await;
    for way in ["http", "stdio"] {
        let mut client = Command::new(scene.peers.python());
        client.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/mcp/clients/sdk.py"));
        scene.tells(client, way).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_inspector() {
    let scene = Scene::start().await;
    let (url, key) = (format!("{}/mcp", scene.server.url), format!("Authorization: Bearer {ADMIN_KEY}"));
    let http = ["--server-url", &url, "--transport", "http", "--header", &key];
    let (at, key) = (format!("TOOLWRIGHT_URL={}", scene.server.url), format!("TOOLWRIGHT_API_KEY={ADMIN_KEY}"));
    let stdio = ["-e", &at, "-e", &key, "--", BINARY, "mcp"];
    for target in [&http[..], &stdio[..]] {
        for (args, part) in [
            (&["--method", "tools/list"][..], "calculator"),
            (&["--method", "tools/call", "--tool-name", "calculator", "--tool-arg", "expression=6*7"], "42"),
            (&["--method", "prompts/get", "--prompt-name", "greeting", "--prompt-args", "who=Ada"], "hello to Ada"),
            (&["--method", "resources/list"], "toolwright://runs/"),
        ] {
            let output = scene.inspects(target, args);
            let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
            assert!(output.status.success() && out.contains(part), "{target:?} {args:?}\n{out}\n{err}");
        }
    }
    let refused = scene.inspects(&http, &["--method", "tools/call", "--tool-name", "nobody-has-this"]);
    assert!(!refused.status.success());
}
