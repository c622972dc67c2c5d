//! The process: how it starts, what it prints, how it ends.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};

use serde_json::{Value, json};
use toolwright_testkit::{Faults, LOOPBACK};

const KEY: &str = "0123456789012345";

struct Server {
    child: Child,
    stdout: BufReader<std::process::ChildStdout>,
    url: String,
}

fn command(data: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_toolwright"));
    command.args(["serve", "--bind", "127.0.0.1:0", "--data"]).arg(data);
    command.env("TOOLWRIGHT_EGRESS_ALLOW", "127.0.0.0/8").env("RUST_LOG", "info");
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

impl Server {
    fn start(command: &mut Command) -> Self {
        let mut child = command.spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        let url = line.trim_end().strip_prefix("listening on ").map(str::to_owned);
        let url = url.unwrap_or_else(|| panic!("not ready: {line:?} {}", rest(child.stderr.take().unwrap())));
        Self { child, stdout, url }
    }

    fn terminate(&self) {
        assert!(Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status().unwrap().success());
    }

    /// Waits for the end; gives the status, what else was on stdout, and stderr.
    fn ended(mut self) -> (ExitStatus, String, String) {
        let errors = rest(self.child.stderr.take().unwrap());
        let more = rest(&mut self.stdout);
        (self.child.wait().unwrap(), more, errors)
    }

    async fn send(&self, method: reqwest::Method, path: &str, body: Value) -> Value {
        // Building a client needs a TLS provider, which the server's own crates install elsewhere.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        let request = client.request(method, format!("{}/api/v1/ai/{path}", self.url)).bearer_auth(KEY).json(&body);
        request.send().await.unwrap().json().await.unwrap()
    }
}

/// A test that fails leaves no server behind.
impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn rest(mut from: impl Read) -> String {
    let mut text = String::new();
    from.read_to_string(&mut text).unwrap();
    text
}

/// What a start that must fail says.
fn refused(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(!output.status.success());
    assert!(output.stdout.is_empty(), "{}", String::from_utf8_lossy(&output.stdout));
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn stdout_has_one_line_and_sigterm_ends_cleanly() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(command(data.path()).env("TOOLWRIGHT_ADMIN_KEY", KEY));
    assert!(server.url.starts_with("http://127.0.0.1:"));
    server.terminate();
    let (status, more, _) = server.ended();
    assert!(status.success(), "{status}");
    assert_eq!(more, "");
}

#[test]
fn the_first_start_shows_a_key_once() {
    let data = tempfile::tempdir().unwrap();
    let errors_of = |mut command: Command| {
        let server = Server::start(&mut command);
        server.terminate();
        server.ended().2
    };
    let first = errors_of(command(data.path()));
    assert!(first.contains("tw_"), "{first}");
    let second = errors_of(command(data.path()));
    assert!(!second.contains("tw_"), "{second}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_demo_start_changes_nothing() {
    let data = tempfile::tempdir().unwrap();
    let mut seen = Vec::new();
    for _ in 0..2 {
        let server = Server::start(command(data.path()).arg("--demo").env("TOOLWRIGHT_ADMIN_KEY", KEY));
        let tools = server.send(reqwest::Method::GET, "tools?limit=100", json!({})).await;
        let providers = server.send(reqwest::Method::GET, "tool-providers", json!({})).await;
        let secrets = server.send(reqwest::Method::GET, "secrets", json!({})).await;
        let stages = server.send(reqwest::Method::POST, "tools/hubspot%2Fdeal-stages/execute", json!({})).await;
        assert_eq!(stages["error"], json!(null), "{stages}");
        seen.push((tools, providers, secrets, stages["output"].clone()));
        server.terminate();
        assert!(server.ended().0.success());
    }
    assert_eq!(seen[0], seen[1]);
    assert!(seen[0].0["items"].as_array().unwrap().len() >= 11);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shutdown_finishes_the_call_under_way() {
    let data = tempfile::tempdir().unwrap();
    let faults = Faults::builder().start(LOOPBACK).await.unwrap();
    let server = Server::start(command(data.path()).env("TOOLWRIGHT_ADMIN_KEY", KEY));
    let tool =
        json!({ "refName": "slow", "toolType": "EXTERNAL_REST", "invocation": { "path": faults.url("/slow/700") } });
    server.send(reqwest::Method::POST, "tools", tool).await;
    let call = server.send(reqwest::Method::POST, "tools/slow/execute", json!({}));
    let stop = async {
        while faults.hits("/slow") == 0 {
            tokio::task::yield_now().await;
        }
        server.terminate();
    };
    let (envelope, ()) = tokio::join!(call, stop);
    assert_eq!(envelope["error"], json!(null), "{envelope}");
    assert!(server.ended().0.success());
    faults.shutdown().await;
}

/// The lines of a log in JSON that say `message`.
fn lines(log: &str, message: &str) -> Vec<Value> {
    let lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    lines.filter(|line| line["message"] == message).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_is_one_line_of_the_log_and_what_fails_in_it_names_its_call() {
    let data = tempfile::tempdir().unwrap();
    let faults = Faults::builder().start(LOOPBACK).await.unwrap();
    let mut command = command(data.path());
    let server = Server::start(command.args(["--log-format", "json"]).env("TOOLWRIGHT_ADMIN_KEY", KEY));
    let tool = json!({ "refName": "broken", "toolType": "EXTERNAL_REST", "invocation": { "path": faults.url("/status/500") } });
    server.send(reqwest::Method::POST, "tools", tool).await;
    server.send(reqwest::Method::POST, "tools/echo/execute", json!({})).await;
    let receipt = server.send(reqwest::Method::POST, "tools/broken/execute", json!({})).await;
    server.terminate();
    let (_, _, log) = server.ended();
    faults.shutdown().await;

    let answered = lines(&log, "answered");
    let said = |line: &Value, fields: &[&str]| fields.iter().map(|field| line[field].clone()).collect::<Vec<_>>();
    let asked = ["method", "path", "principal", "realm", "status"];
    assert_eq!(answered.len(), 3, "{log}");
    assert_eq!(
        json!(said(&answered[1], &asked)),
        json!(["POST", "/api/v1/ai/tools/echo/execute", "admin", "default", 200])
    );
    let failed = &lines(&log, "tool attempt failed")[0];
    assert_eq!(json!(said(failed, &["code", "status", "attempt"])), json!(["PROVIDER_ERROR", 500, 1]));
    let named = said(&failed["span"], &["name", "tool", "call", "principal"]);
    assert_eq!(json!(named), json!(["attempt", "broken", receipt["call_id"], "admin"]));
    let request = |line: &Value| line["spans"][0]["id"].as_str().map(str::to_owned).unwrap();
    assert_eq!(request(failed), request(&answered[2]));
    assert_ne!(request(&answered[1]), request(&answered[2]));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_written_survives_a_kill() {
    let data = tempfile::tempdir().unwrap();
    let mut server = Server::start(command(data.path()).env("TOOLWRIGHT_ADMIN_KEY", KEY));
    let tool =
        json!({ "refName": "kept", "description": "Stays.", "toolType": "FUNCTION", "invocation": { "path": "echo" } });
    let created = server.send(reqwest::Method::POST, "tools", tool).await;
    server.child.kill().unwrap();
    server.child.wait().unwrap();
    let server = Server::start(command(data.path()).env("TOOLWRIGHT_ADMIN_KEY", KEY));
    assert_eq!(server.send(reqwest::Method::GET, "tools/kept", json!({})).await, created);
    server.terminate();
    server.ended();
}

#[test]
fn starts_that_make_no_sense_are_refused_with_a_reason() {
    let data = tempfile::tempdir().unwrap();
    let file = data.path().join("odd.toml");
    std::fs::write(&file, "[agent]\nmax_iterations = 3\n").unwrap();
    let with = |variables: &[(&str, &str)], arguments: &[&str]| {
        let mut command = command(data.path());
        command.env("TOOLWRIGHT_ADMIN_KEY", KEY).envs(variables.iter().copied()).args(arguments);
        refused(&mut command)
    };
    for (error, because) in [
        (with(&[("TOOLWRIGHT_ADMIN_KEY", "short")], &[]), "at least 16 characters"),
        (with(&[("TOOLWRIGHT_EGRESS_ALLOW", "everything")], &[]), "`everything` in egress_allow is no CIDR"),
        (with(&[], &["--config", "missing.toml"]), "missing.toml"),
        (with(&[], &["--config", file.to_str().unwrap()]), "max_iterations"),
        (with(&[("TOOLWRIGHT_SEAL_KEY", "x")], &[]), "key"),
        (with(&[("TOOLWRIGHT_DATABASE_URL", "postgres://nobody@127.0.0.1:1/x")], &[]), "Postgres"),
        (with(&[("TOOLWRIGHT_REDIS_URL", "redis://127.0.0.1:1")], &[]), "Redis"),
    ] {
        assert!(error.contains(because), "{because}: {error}");
    }
    let mut wide = Command::new(env!("CARGO_BIN_EXE_toolwright"));
    wide.args(["serve", "--bind", "0.0.0.0:0", "--data"]).arg(data.path()).env_remove("TOOLWRIGHT_ADMIN_KEY");
    assert!(refused(&mut wide).contains("TOOLWRIGHT_ADMIN_KEY"));
}

#[test]
fn flags_win_over_the_environment_and_that_over_the_file() {
    let data = tempfile::tempdir().unwrap();
    let file = data.path().join("toolwright.toml");
    std::fs::write(&file, "log_format = \"json\"\nbind = \"127.0.0.1:1\"\n[agent]\ndefault_max_iterations = 3\n")
        .unwrap();
    let server = Server::start(
        command(data.path())
            .arg("--config")
            .arg(&file)
            .env("TOOLWRIGHT_LOG_FORMAT", "text")
            .env("TOOLWRIGHT_ADMIN_KEY", KEY),
    );
    server.terminate();
    let (status, _, errors) = server.ended();
    assert!(status.success());
    assert!(!errors.contains("{\""), "text, as the environment says: {errors}");
}
