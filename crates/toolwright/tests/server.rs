//! Tests the server process: start-up, output, logging, configuration and shutdown.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, also in its helpers"
)]

use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
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
        let url = url.unwrap_or_else(|| {
            panic!("expected `listening on URL`, got {line:?} {}", read_to_end(child.stderr.take().unwrap()))
        });
        Self { child, stdout, url }
    }

    fn terminate(&self) {
        assert!(Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status().unwrap().success());
    }

    /// Waits for the process to exit. Returns its status, its unread standard output and its standard error.
    fn wait(mut self) -> (ExitStatus, String, String) {
        let errors = read_to_end(self.child.stderr.take().unwrap());
        let more = read_to_end(&mut self.stdout);
        (self.child.wait().unwrap(), more, errors)
    }

    async fn send(&self, method: reqwest::Method, path: &str, body: Value) -> Value {
        // Building a client requires a TLS provider. The server installs one in its own process, so the test must
        // install one too.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        let request = client.request(method, format!("{}/api/v1/ai/{path}", self.url)).bearer_auth(KEY).json(&body);
        request.send().await.unwrap().json().await.unwrap()
    }
}

// Kills the server even if the test panics.
impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn read_to_end(mut reader: impl Read) -> String {
    let mut text = String::new();
    reader.read_to_string(&mut text).unwrap();
    text
}

/// Runs a server that must fail to start and returns its standard error.
fn failed_start_stderr(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(!output.status.success());
    assert!(output.stdout.is_empty(), "{}", String::from_utf8_lossy(&output.stdout));
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn server_prints_only_its_url_and_exits_with_0_on_sigterm() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(command(data.path()).env("TOOLWRIGHT_ADMIN_KEY", KEY));
    assert!(server.url.starts_with("http://127.0.0.1:"));
    server.terminate();
    let (status, more, _) = server.wait();
    assert!(status.success(), "{status}");
    assert_eq!(more, "");
}

#[test]
fn admin_key_is_printed_on_first_start_only() {
    let data = tempfile::tempdir().unwrap();
    let stderr_of = |mut command: Command| {
        let server = Server::start(&mut command);
        server.terminate();
        (server.url.clone(), server.wait().2)
    };
    let (url, first) = stderr_of(command(data.path()));
    assert!(first.contains("tw_") && first.contains(&format!("export TOOLWRIGHT_URL={url}\n")), "{first}");
    let (_, second) = stderr_of(command(data.path()));
    assert!(!second.contains("tw_"), "{second}");
}

#[tokio::test(flavor = "multi_thread")]
async fn demo_restart_keeps_tools_providers_and_secrets() {
    let data = tempfile::tempdir().unwrap();
    let mut snapshots = Vec::new();
    for _ in 0..2 {
        let server = Server::start(command(data.path()).arg("--demo").env("TOOLWRIGHT_ADMIN_KEY", KEY));
        let tools = server.send(reqwest::Method::GET, "tools?limit=100", json!({})).await;
        let providers = server.send(reqwest::Method::GET, "tool-providers", json!({})).await;
        let secrets = server.send(reqwest::Method::GET, "secrets", json!({})).await;
        let stages = server.send(reqwest::Method::POST, "tools/hubspot%2Fdeal-stages/execute", json!({})).await;
        assert_eq!(stages["error"], json!(null), "{stages}");
        snapshots.push((tools, providers, secrets, stages["output"].clone()));
        server.terminate();
        assert!(server.wait().0.success());
    }
    assert_eq!(snapshots[0], snapshots[1]);
    assert!(snapshots[0].0["items"].as_array().unwrap().len() >= 11);
}

#[tokio::test(flavor = "multi_thread")]
async fn shutdown_waits_for_the_call_in_progress() {
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
    assert!(server.wait().0.success());
    faults.shutdown().await;
}

/// Returns the lines of a JSON log whose message is `message`.
fn lines(log: &str, message: &str) -> Vec<Value> {
    let lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    lines.filter(|line| line["message"] == message).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn each_request_is_logged_once_and_log_line_of_a_failed_attempt_names_its_call() {
    let data = tempfile::tempdir().unwrap();
    let faults = Faults::builder().start(LOOPBACK).await.unwrap();
    let mut command = command(data.path());
    let server = Server::start(command.args(["--log-format", "json"]).env("TOOLWRIGHT_ADMIN_KEY", KEY));
    let tool = json!({ "refName": "broken", "toolType": "EXTERNAL_REST", "invocation": { "path": faults.url("/status/500") } });
    server.send(reqwest::Method::POST, "tools", tool).await;
    server.send(reqwest::Method::POST, "tools/echo/execute", json!({})).await;
    let envelope = server.send(reqwest::Method::POST, "tools/broken/execute", json!({})).await;
    server.terminate();
    let (_, _, log) = server.wait();
    faults.shutdown().await;

    let answered = lines(&log, "answered");
    let values = |line: &Value, fields: &[&str]| fields.iter().map(|field| line[field].clone()).collect::<Vec<_>>();
    let fields = ["method", "path", "principal", "realm", "status"];
    assert_eq!(answered.len(), 3, "{log}");
    assert_eq!(
        json!(values(&answered[1], &fields)),
        json!(["POST", "/api/v1/ai/tools/echo/execute", "admin", "default", 200])
    );
    let failed = &lines(&log, "tool attempt failed")[0];
    assert_eq!(json!(values(failed, &["code", "status", "attempt"])), json!(["PROVIDER_ERROR", 500, 1]));
    assert_eq!(failed["tag"], "[broken_ExecuteAsync__Exception]");
    assert!(failed["error"].as_str().unwrap().contains("the upstream answered 500"), "{failed}");
    let span = values(&failed["span"], &["name", "tool", "call", "principal"]);
    assert_eq!(json!(span), json!(["attempt", "broken", envelope["call_id"], "admin"]));
    let request = |line: &Value| line["spans"][0]["id"].as_str().map(str::to_owned).unwrap();
    assert_eq!(request(failed), request(&answered[2]));
    assert_ne!(request(&answered[1]), request(&answered[2]));
}

#[tokio::test(flavor = "multi_thread")]
async fn definition_survives_a_server_kill() {
    let data = tempfile::tempdir().unwrap();
    let mut server = Server::start(command(data.path()).env("TOOLWRIGHT_ADMIN_KEY", KEY));
    let tool = json!({ "refName": "kept", "description": "Survives restarts.", "toolType": "FUNCTION", "invocation": { "path": "echo" } });
    let created = server.send(reqwest::Method::POST, "tools", tool).await;
    server.child.kill().unwrap();
    server.child.wait().unwrap();
    let server = Server::start(command(data.path()).env("TOOLWRIGHT_ADMIN_KEY", KEY));
    assert_eq!(server.send(reqwest::Method::GET, "tools/kept", json!({})).await, created);
    server.terminate();
    server.wait();
}

#[test]
fn second_server_on_the_same_data_directory_is_refused() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(command(data.path()).env("TOOLWRIGHT_ADMIN_KEY", KEY));
    let stderr = failed_start_stderr(command(data.path()).env("TOOLWRIGHT_ADMIN_KEY", KEY));
    assert!(stderr.contains("another server uses the data directory"), "{stderr}");
    server.terminate();
    assert!(server.wait().0.success());
}

#[tokio::test(flavor = "multi_thread")]
async fn server_start_reports_the_number_of_secrets_sealed_with_another_key() {
    let data = tempfile::tempdir().unwrap();
    let start = || Server::start(command(data.path()).env("TOOLWRIGHT_ADMIN_KEY", KEY));
    let server = start();
    let secret = json!({ "name": "token", "scope": "realm", "value": "a-value-to-keep" });
    server.send(reqwest::Method::POST, "secrets", secret).await;
    server.terminate();
    server.wait();
    std::fs::remove_file(data.path().join("seal.key")).unwrap();
    let server = start();
    server.terminate();
    let (_, _, stderr) = server.wait();
    assert!(stderr.contains("1 secrets were sealed with another key"), "{stderr}");
}

#[test]
fn invalid_setting_aborts_startup_and_names_the_setting() {
    let data = tempfile::tempdir().unwrap();
    let file = data.path().join("odd.toml");
    std::fs::write(&file, "[agent]\nmax_iterations = 3\n").unwrap();
    let start_error = |variables: &[(&str, &str)], arguments: &[&str]| {
        let mut command = command(data.path());
        command.env("TOOLWRIGHT_ADMIN_KEY", KEY).envs(variables.iter().copied()).args(arguments);
        failed_start_stderr(&mut command)
    };
    for (error, expected) in [
        (start_error(&[("TOOLWRIGHT_ADMIN_KEY", "short")], &[]), "at least 16 characters"),
        (
            start_error(&[("TOOLWRIGHT_EGRESS_ALLOW", "everything")], &[]),
            "each entry of egress_allow must be a network such as `10.0.0.0/8` or an address such as `10.0.0.1`, got `everything`",
        ),
        (start_error(&[], &["--config", "missing.toml"]), "missing.toml"),
        (start_error(&[], &["--config", file.to_str().unwrap()]), "max_iterations"),
        (start_error(&[("TOOLWRIGHT_SEAL_KEY", "x")], &[]), "key"),
        (start_error(&[("TOOLWRIGHT_DATABASE_URL", "postgres://nobody@127.0.0.1:1/x")], &[]), "Postgres"),
        (start_error(&[("TOOLWRIGHT_REDIS_URL", "redis://127.0.0.1:1")], &[]), "Redis"),
    ] {
        assert!(error.contains(expected), "{expected}: {error}");
    }
    let mut all_interfaces = Command::new(env!("CARGO_BIN_EXE_toolwright"));
    all_interfaces.args(["serve", "--bind", "0.0.0.0:0", "--data"]).arg(data.path()).env_remove("TOOLWRIGHT_ADMIN_KEY");
    assert!(failed_start_stderr(&mut all_interfaces).contains("TOOLWRIGHT_ADMIN_KEY"));
}

#[test]
fn flags_and_environment_override_the_configuration_file() {
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
    let (status, _, errors) = server.wait();
    assert!(status.success());
    assert!(!errors.contains("{\""), "the environment selects the text format: {errors}");
}

/// Returns the paths in a directory that users other than the owner may access.
fn paths_open_to_others(folder: &Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let (path, metadata) = entry.map(|entry| (entry.path(), entry.metadata().unwrap())).unwrap();
        if metadata.is_dir() {
            found.extend(paths_open_to_others(&path));
        }
        if metadata.permissions().mode() & 0o077 != 0 {
            found.push(path);
        }
    }
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_owner_can_access_the_files_in_the_data_folder() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(command(data.path()).arg("--demo").env("TOOLWRIGHT_ADMIN_KEY", KEY));
    let tool =
        json!({ "refName": "large", "toolType": "FUNCTION", "maxOutputBytes": 100, "invocation": { "path": "echo" } });
    server.send(reqwest::Method::POST, "tools", tool).await;
    let input = json!({ "input": { "text": "x".repeat(1000) } });
    let envelope = server.send(reqwest::Method::POST, "tools/large/execute", input).await;
    assert_eq!(envelope["attachments"].as_array().unwrap().len(), 1, "{envelope}");
    let open = paths_open_to_others(data.path());
    assert!(open.is_empty(), "{open:?}");
    server.terminate();
    server.wait();
}
