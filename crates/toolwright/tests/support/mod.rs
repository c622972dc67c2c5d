//! A real server per test, and commands run against it.
#![allow(dead_code, reason = "each test binary uses its part")]

pub mod restate;
pub mod scene;

use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

/// The binary under test: server and client.
pub const BINARY: &str = env!("CARGO_BIN_EXE_toolwright");

/// The administrator's key on every server of the tests.
pub const ADMIN_KEY: &str = "the-admin-key-of-this-test";
const LOG: &str = "server.log";

/// A server of its own, with the demo's tools, that ends with the test.
pub struct Server {
    child: Child,
    /// Where it listens.
    pub url: String,
    /// Where the server's data is, and the test's files may be.
    pub folder: TempDir,
    /// What it is started with.
    flags: &'static [&'static str],
    settings: Vec<(&'static str, String)>,
}

impl Server {
    /// Starts it and waits until it listens.
    pub fn start() -> Self {
        Self::start_with(Vec::new())
    }

    /// The same with more in its environment.
    pub fn start_with(settings: Vec<(&'static str, String)>) -> Self {
        Self::starting(&["--demo"], settings)
    }

    /// The same without the demo, for one that finds it in a database that it shares.
    pub fn start_bare_with(settings: Vec<(&'static str, String)>) -> Self {
        Self::starting(&[], settings)
    }

    /// The same with these flags, and without the demo.
    pub fn start_flagged(flags: &'static [&'static str]) -> Self {
        Self::starting(flags, Vec::new())
    }

    fn starting(flags: &'static [&'static str], settings: Vec<(&'static str, String)>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (child, url) = Self::launch(&folder, flags, &settings);
        Self { child, url, folder, flags, settings }
    }

    /// Kills it without a word, and starts another one on what is left.
    pub fn crash(&mut self) {
        self.kill();
        self.restart();
    }

    /// Kills it without a word.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Starts another one on what the one that was killed has left.
    pub fn restart(&mut self) {
        (self.child, self.url) = Self::launch(&self.folder, self.flags, &self.settings);
    }

    /// The same with something else in its environment.
    pub fn restart_with(&mut self, settings: Vec<(&'static str, String)>) {
        self.settings = settings;
        self.restart();
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What the servers have said.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join(LOG)).unwrap_or_default()
    }

    fn launch(folder: &TempDir, flags: &[&str], settings: &[(&'static str, String)]) -> (Child, String) {
        let log = OpenOptions::new().create(true).append(true).open(folder.path().join(LOG)).unwrap();
        let mut child = Command::new(BINARY)
            .args(["serve", "--bind", "127.0.0.1:0"])
            .args(flags)
            .arg("--data")
            .arg(folder.path().join("data"))
            .env("TOOLWRIGHT_ADMIN_KEY", ADMIN_KEY)
            .env("TOOLWRIGHT_EGRESS_ALLOW", "127.0.0.0/8")
            .env("RUST_LOG", "warn")
            .envs(settings.iter().cloned())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let url =
            line.trim_end().strip_prefix("listening on ").unwrap_or_else(|| panic!("no address: `{line}`")).to_owned();
        (child, url)
    }

    /// Runs a command as the administrator.
    pub fn run(&self, args: &[&str]) -> Ended {
        self.run_with(args, "")
    }

    /// Runs a command with something on its standard input.
    pub fn run_with(&self, args: &[&str], stdin: &str) -> Ended {
        let mut child = self.spawn(args);
        // A command that reads nothing may have ended before this arrives.
        let _ = child.stdin.take().unwrap().write_all(stdin.as_bytes());
        Ended::of(args, child)
    }

    /// Starts a command as the administrator.
    pub fn spawn(&self, args: &[&str]) -> Child {
        self.spawn_as(ADMIN_KEY, args)
    }

    /// Starts a command as whoever has this key.
    pub fn spawn_as(&self, key: &str, args: &[&str]) -> Child {
        Command::new(BINARY)
            .args(args)
            .env("TOOLWRIGHT_URL", &self.url)
            .env("TOOLWRIGHT_API_KEY", key)
            .env_remove("TOOLWRIGHT_REALM")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }
}

impl Drop for Server {
    #[expect(clippy::print_stdout, reason = "the test harness shows this next to the failure")]
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            println!("the server's log:\n{}", self.log());
        }
    }
}

/// How a command ended, and what it wrote.
pub struct Ended {
    command: String,
    code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl Ended {
    /// Waits for a command.
    pub fn of(args: &[&str], child: Child) -> Self {
        let output = child.wait_with_output().unwrap();
        Self {
            command: args.join(" "),
            code: output.status.code(),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// The same, if it ended with this number.
    #[track_caller]
    pub fn exits(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "`{}`\nstdout: {}\nstderr: {}", self.command, self.out, self.err);
        self
    }

    /// What it wrote, as JSON.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.out)
            .unwrap_or_else(|error| panic!("`{}` printed no JSON: {error}\n{}", self.command, self.out))
    }
}
