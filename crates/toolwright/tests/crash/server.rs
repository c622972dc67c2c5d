//! The real server as a process of its own, which is never asked to stop.

use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

/// The administrator's key.
pub const ADMIN_KEY: &str = "the-admin-key-of-the-harness";
/// How long a start may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// The folder that all lives of a server share; it goes with the harness.
pub struct Home {
    folder: TempDir,
    settings: Vec<(&'static str, String)>,
}

/// One life of the server.
pub struct Server {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    begun: Instant,
    log: PathBuf,
}

impl Home {
    /// With what the servers are told by their environment.
    pub fn new(settings: Vec<(&'static str, String)>) -> Self {
        Self { folder: tempfile::tempdir().unwrap(), settings }
    }

    pub fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// The last lines of what the servers had to say.
    pub fn last_words(&self) -> String {
        last_lines(&self.log())
    }

    fn log(&self) -> PathBuf {
        self.folder.path().join("server.log")
    }
}

impl Server {
    /// Starts it; [`Server::ready`] waits for it.
    pub fn launch(home: &Home) -> Self {
        let log = OpenOptions::new().create(true).append(true).open(home.log()).unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_toolwright"))
            .args(["serve", "--bind", "127.0.0.1:0", "--data"])
            .arg(home.data())
            .env("TOOLWRIGHT_ADMIN_KEY", ADMIN_KEY)
            .env("TOOLWRIGHT_EGRESS_ALLOW", "127.0.0.0/8")
            .env("RUST_LOG", "warn")
            .envs(home.settings.iter().cloned())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            // A harness that panics leaves no server behind.
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines, begun: Instant::now(), log: home.log() }
    }

    /// Its address and how long it took, once it listens.
    pub async fn ready(&mut self) -> (String, Duration) {
        let line = tokio::time::timeout(PATIENCE, self.lines.next_line()).await;
        let line = line.unwrap_or_else(|_| panic!("the server does not start:\n{}", last_lines(&self.log)));
        let line = line.unwrap().unwrap_or_else(|| panic!("the server ended by itself:\n{}", last_lines(&self.log)));
        let url = line.strip_prefix("listening on ").unwrap_or_else(|| panic!("no address: `{line}`"));
        (url.to_owned(), self.begun.elapsed())
    }

    /// SIGKILL, and nothing of it is left when this returns.
    pub async fn kill(mut self) {
        self.child.start_kill().unwrap();
        self.child.wait().await.unwrap();
    }
}

fn last_lines(path: &Path) -> String {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(40)..].join("\n")
}
