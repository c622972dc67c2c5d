//! Tests servers whose disk is full. Reads are still served, nothing is written partially, and runs continue when space
//! is available again.
//!
//! The server's data folder is a tmpfs of 6 MB. It is mounted in a mount namespace of its own, so it disappears when
//! the last process of the namespace exits.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, also in its helpers"
)]

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use toolwright_tools::http::{EgressPolicy, HttpClient};

const ADMIN_KEY: &str = "the-admin-key-of-a-small-disk";
/// How long a run may take to end.
const TIMEOUT: Duration = Duration::from_secs(60);

struct Server {
    child: Child,
    url: String,
    /// The data folder inside the server's mount namespace, as a path under `/proc` that the test can open.
    data: PathBuf,
}

impl Server {
    fn start(folder: &Path) -> Self {
        // `exec` replaces the shell with the server, so the child's process id is the server's process id.
        let script = r#"mount -t tmpfs -o size=6m tmpfs "$0" && exec "$@""#;
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--mount", "sh", "-c", script]).arg(folder);
        Self::serve(command, folder)
    }

    /// Starts a server in the mount namespace of the process `keeper`.
    fn start_beside(keeper: u32, folder: &Path) -> Self {
        let mut command = Command::new("nsenter");
        command.args(["--target", &keeper.to_string(), "--user", "--mount", "--preserve-credentials", "--"]);
        Self::serve(command, folder)
    }

    fn serve(mut command: Command, folder: &Path) -> Self {
        let mut child = command
            .args([env!("CARGO_BIN_EXE_toolwright"), "serve", "--bind", "127.0.0.1:0", "--data"])
            .arg(folder.join("data"))
            .env("TOOLWRIGHT_ADMIN_KEY", ADMIN_KEY)
            .env("TOOLWRIGHT_EGRESS_ALLOW", "127.0.0.0/8")
            .env("RUST_LOG", "off")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let url = line
            .trim()
            .strip_prefix("listening on ")
            .unwrap_or_else(|| panic!("expected `listening on URL`, got `{line}`"))
            .to_owned();
        let data = PathBuf::from(format!("/proc/{}/root{}", child.id(), folder.display()));
        Self { child, url, data }
    }

    fn ballast(&self) -> PathBuf {
        self.data.join("ballast")
    }

    /// Sends a signal to the server and waits until it has exited.
    fn stop(mut self, signal: &str) {
        let sent = Command::new("kill").args([signal, &self.child.id().to_string()]).status().unwrap();
        assert!(sent.success());
        self.child.wait().unwrap();
    }

    /// Writes to the ballast file until the disk is full.
    fn fill(&self) {
        Self::fill_folder(&self.data);
    }

    fn fill_folder(folder: &Path) {
        let mut ballast = File::create(folder.join("ballast")).unwrap();
        for size in [1 << 16, 1 << 12, 1] {
            while ballast.write_all(&vec![0; size]).is_ok() {}
        }
    }

    async fn api(&self, method: reqwest::Method, path: &str, body: Option<Value>) -> (u16, Value) {
        let client = HttpClient::new(EgressPolicy::unrestricted()).unrestricted_client().unwrap();
        let mut request = client.request(method, format!("{}/api/v1/ai/{path}", self.url)).bearer_auth(ADMIN_KEY);
        if let Some(body) = body {
            request = request.json(&body);
        }
        let response = request.send().await.unwrap();
        (response.status().as_u16(), response.json().await.unwrap())
    }

    async fn post(&self, path: &str, body: Value) -> (u16, Value) {
        self.api(reqwest::Method::POST, path, Some(body)).await
    }

    async fn get(&self, path: &str) -> (u16, Value) {
        self.api(reqwest::Method::GET, path, None).await
    }

    /// Waits until the run has ended and returns it.
    async fn wait_for_end(&self, run: &str) -> Value {
        let polling = tokio::time::timeout(TIMEOUT, async {
            loop {
                let (status, run_view) = self.get(&format!("runs/{run}")).await;
                if status == 200 && run_view["status"] != "RUNNING" {
                    return run_view;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        });
        polling.await.expect("the run must end in time")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An HTTP service that waits before each response until the test adds a permit to `open`.
struct Gate {
    arrived: Semaphore,
    open: Semaphore,
}

async fn start_gate() -> (Arc<Gate>, String) {
    let gate = Arc::new(Gate { arrived: Semaphore::new(0), open: Semaphore::new(0) });
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let at_gate = Arc::clone(&gate);
    let answer = move || {
        let gate = Arc::clone(&at_gate);
        async move {
            gate.arrived.add_permits(1);
            gate.open.acquire().await.unwrap().forget();
            axum::Json(json!({ "through": true }))
        }
    };
    #[expect(clippy::disallowed_methods, reason = "the task ends with the runtime of the test")]
    tokio::spawn(async move { axum::serve(listener, Router::new().route("/", get(answer))).await });
    (gate, url)
}

fn scripted_model(calls: &Value) -> Value {
    let rules = json!([{ "when": { "turn": 0 }, "reply": { "toolCalls": calls } }]);
    json!({ "provider": "scripted", "model": "x", "extraParams": { "script": { "rules": rules, "otherwise": { "text": "Done." } } } })
}

#[tokio::test(flavor = "multi_thread")]
async fn server_with_a_full_disk_loses_no_run_and_still_serves_reads() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    let (gate, url) = start_gate().await;
    let tool = json!({ "refName": "gate", "toolType": "EXTERNAL_REST", "outputJsonSchema": {}, "invocation": { "method": "GET", "path": url } });
    assert_eq!(server.post("tools", tool).await.0, 201);
    for (name, calls) in [("quick", json!([])), ("held", json!([{ "name": "gate", "arguments": {} }]))] {
        let agent = json!({ "refName": name, "toolRefs": ["gate"], "llmConfig": scripted_model(&calls), "executionConfig": { "durable": true } });
        assert_eq!(server.post("agents", agent).await.0, 201);
    }
    let (status, before) = server.post("agents/quick/execute", json!({ "userMessage": "go" })).await;
    assert_eq!((status, &before["status"]), (200, &json!("COMPLETED")), "{before}");
    let (status, held) = server.post("agents/held/execute/durable", json!({ "userMessage": "go" })).await;
    assert_eq!(status, 202, "{held}");
    gate.arrived.acquire().await.unwrap().forget();

    server.fill();
    gate.open.add_permits(1);
    // SQLite may still have unused space in pages that it allocated before the disk was full. The message is much
    // larger than that space.
    let message = "x".repeat(200_000);
    let (status, rejected) = server.post("agents/quick/execute", json!({ "userMessage": message })).await;
    assert_eq!((status, &rejected["code"]), (507, &json!("disk-full")), "{rejected}");
    let (status, rejected) = server.post("tools", json!({ "refName": "big", "toolType": "FUNCTION", "description": message, "invocation": { "path": "echo" } })).await;
    assert_eq!((status, &rejected["code"]), (507, &json!("disk-full")), "{rejected}");
    let (status, still) = server.get(&format!("runs/{}", before["runId"].as_str().unwrap())).await;
    assert_eq!((status, &still["status"]), (200, &json!("COMPLETED")), "existing runs stay readable");
    assert_eq!(server.get("tools/gate").await.0, 200);

    std::fs::remove_file(server.ballast()).unwrap();
    // The server repeats the read if it could not record the outcome, so the service gets permits for more than one
    // response.
    gate.open.add_permits(100);
    let run = held["runId"].as_str().unwrap();
    let ended = server.wait_for_end(run).await;
    assert_eq!((&ended["status"], &ended["responseText"]), (&json!("COMPLETED"), &json!("Done.")), "{ended}");
    let (_, runs) = server.get("runs?limit=100").await;
    for run in runs["items"].as_array().unwrap() {
        let id = run["id"].as_str().unwrap();
        let ended = server.wait_for_end(id).await;
        let (_, verified) = server.get(&format!("runs/{id}/verify")).await;
        assert_eq!(verified["intact"], true, "{ended} {verified}");
    }
    let (status, after) = server.post("agents/quick/execute", json!({ "userMessage": message })).await;
    assert_eq!((status, &after["status"]), (200, &json!("COMPLETED")), "{after}");
}

/// A process that keeps a mount namespace with a small disk. Servers start and stop in this namespace.
struct SmallDisk(Child);

impl SmallDisk {
    fn mount(folder: &Path) -> Self {
        let script = r#"mount -t tmpfs -o size=6m tmpfs "$0" && echo mounted && exec cat"#;
        let mut keeper = Command::new("unshare")
            .args(["--user", "--map-root-user", "--mount", "sh", "-c", script])
            .arg(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(keeper.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "mounted\n");
        Self(keeper)
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn server_restarts_on_a_full_disk_after_a_stop_or_crash_and_serves_reads() {
    for signal in ["-TERM", "-KILL"] {
        let folder = tempfile::tempdir().unwrap();
        let disk = SmallDisk::mount(folder.path());
        let server = Server::start_beside(disk.0.id(), folder.path());
        let agent = json!({ "refName": "quick", "llmConfig": scripted_model(&json!([])) });
        assert_eq!(server.post("agents", agent).await.0, 201);
        let (_, run) = server.post("agents/quick/execute", json!({ "userMessage": "go" })).await;
        let run = run["runId"].as_str().unwrap().to_owned();
        assert_eq!(server.wait_for_end(&run).await["status"], "COMPLETED");
        server.stop(signal);

        Server::fill_folder(&PathBuf::from(format!("/proc/{}/root{}", disk.0.id(), folder.path().display())));
        // The second start has only the space that the first start left.
        for _ in 0..2 {
            let server = Server::start_beside(disk.0.id(), folder.path());
            let (status, read) = server.get(&format!("runs/{run}")).await;
            assert_eq!((status, &read["status"]), (200, &json!("COMPLETED")), "after {signal}: {read}");
            let message = "x".repeat(200_000);
            let (status, rejected) = server.post("agents/quick/execute", json!({ "userMessage": message })).await;
            assert_eq!((status, &rejected["code"]), (507, &json!("disk-full")), "after {signal}: {rejected}");
            server.stop(signal);
        }
        let server = Server::start_beside(disk.0.id(), folder.path());
        std::fs::remove_file(server.ballast()).unwrap();
        let (status, after) = server.post("agents/quick/execute", json!({ "userMessage": "go" })).await;
        assert_eq!((status, &after["status"]), (200, &json!("COMPLETED")), "after {signal}: {after}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_owner_can_access_the_data_folder_and_the_database() {
    use std::os::unix::fs::PermissionsExt as _;
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let files =
        ["toolwright.db", "toolwright.db-wal", "toolwright.db-shm", "seal.key", "reserve"].map(|name| data.join(name));
    let shell = || {
        let mut command = Command::new("sh");
        command.args(["-c", r#"umask 000; exec "$@""#, "sh"]);
        command
    };
    let server = Server::serve(shell(), folder.path());
    for file in &files {
        assert_eq!(mode(file), 0o600, "{}", file.display());
    }
    assert_eq!((mode(&data), mode(&data.join("blobs"))), (0o700, 0o700));
    server.stop("-KILL");

    // A database of an earlier release may be readable by everyone.
    for file in files.iter().take(3) {
        std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o644)).unwrap();
    }
    let _server = Server::serve(shell(), folder.path());
    for file in &files {
        assert_eq!(mode(file), 0o600, "{}", file.display());
    }
}
