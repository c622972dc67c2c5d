//! Runs the real server in its own process. The harness ends it only with SIGKILL, never with a graceful shutdown.

use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

/// The administrator's key.
pub(crate) const ADMIN_KEY: &str = "the-admin-key-of-the-harness";
/// How long a server may take to start.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The data folder and the environment that all server processes of a round share.
pub(crate) struct ServerConfig {
    folder: TempDir,
    env: Vec<(&'static str, String)>,
}

/// One server process.
pub(crate) struct Server {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    started: Instant,
    log: PathBuf,
}

impl ServerConfig {
    /// Creates a configuration with additional environment variables.
    pub(crate) fn new(env: Vec<(&'static str, String)>) -> Self {
        Self { folder: tempfile::tempdir().unwrap(), env }
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// The last lines of the server log.
    pub(crate) fn log_tail(&self) -> String {
        last_lines(&self.log_path())
    }

    fn log_path(&self) -> PathBuf {
        self.folder.path().join("server.log")
    }
}

impl Server {
    /// Starts a server. [`Server::wait_until_ready`] waits until it listens.
    pub(crate) fn launch(config: &ServerConfig) -> Self {
        let log = OpenOptions::new().create(true).append(true).open(config.log_path()).unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_toolwright"))
            .args(["serve", "--bind", "127.0.0.1:0", "--data"])
            .arg(config.data())
            .env("TOOLWRIGHT_ADMIN_KEY", ADMIN_KEY)
            .env("TOOLWRIGHT_EGRESS_ALLOW", "127.0.0.0/8")
            .env("RUST_LOG", "warn")
            .envs(config.env.iter().cloned())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            // Kills the server even if the harness panics.
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines, started: Instant::now(), log: config.log_path() }
    }

    /// Waits until the server listens. Returns its URL and its start-up time.
    pub(crate) async fn wait_until_ready(&mut self) -> (String, Duration) {
        let line = tokio::time::timeout(TIMEOUT, self.lines.next_line()).await;
        let line = line.unwrap_or_else(|_| panic!("the server did not start in time:\n{}", last_lines(&self.log)));
        let line =
            line.unwrap().unwrap_or_else(|| panic!("the server exited during start-up:\n{}", last_lines(&self.log)));
        let url =
            line.strip_prefix("listening on ").unwrap_or_else(|| panic!("expected `listening on URL`, got `{line}`"));
        (url.to_owned(), self.started.elapsed())
    }

    /// Sends SIGKILL and waits until the process is gone.
    pub(crate) async fn kill(mut self) {
        self.child.start_kill().unwrap();
        self.child.wait().await.unwrap();
    }
}

fn last_lines(path: &Path) -> String {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(40)..].join("\n")
}
