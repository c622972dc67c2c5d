//! Starts a real server for each test and runs CLI commands against it.
#![allow(dead_code, reason = "each test binary uses some of these helpers")]

pub(crate) mod restate;
pub(crate) mod runs;
pub(crate) mod terminal;

use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

/// The path of the binary under test, which is both the server and the CLI.
pub(crate) const BINARY: &str = env!("CARGO_BIN_EXE_toolwright");

/// The administrator's API key of every server under test.
pub(crate) const ADMIN_KEY: &str = "the-admin-key-of-this-test";
const LOG: &str = "server.log";

/// A server process that is killed when the value is dropped.
pub(crate) struct Server {
    child: Child,
    /// The URL of the server.
    pub url: String,
    /// The folder for the server's data and for files of the test.
    pub folder: TempDir,
    flags: &'static [&'static str],
    env: Vec<(&'static str, String)>,
}

impl Server {
    /// Starts a server with the demo and waits until it listens.
    pub(crate) fn start() -> Self {
        Self::start_with_env(Vec::new())
    }

    /// Starts a server with the demo and additional environment variables.
    pub(crate) fn start_with_env(env: Vec<(&'static str, String)>) -> Self {
        Self::start_configured(&["--demo"], env)
    }

    /// Starts a server without the demo, with additional environment variables.
    pub(crate) fn start_without_demo(env: Vec<(&'static str, String)>) -> Self {
        Self::start_configured(&[], env)
    }

    /// Starts a server without the demo, with additional flags.
    pub(crate) fn start_with_flags(flags: &'static [&'static str]) -> Self {
        Self::start_configured(flags, Vec::new())
    }

    fn start_configured(flags: &'static [&'static str], env: Vec<(&'static str, String)>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (child, url) = Self::launch(&folder, flags, &env);
        Self { child, url, folder, flags, env }
    }

    /// Kills the server with SIGKILL and starts a new server with the same data folder.
    pub(crate) fn kill_and_restart(&mut self) {
        self.kill();
        self.restart();
    }

    /// Kills the server with SIGKILL.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Starts a new server with the same data folder.
    pub(crate) fn restart(&mut self) {
        (self.child, self.url) = Self::launch(&self.folder, self.flags, &self.env);
    }

    /// Starts a new server with the same data folder and other environment variables.
    pub(crate) fn restart_with_env(&mut self, env: Vec<(&'static str, String)>) {
        self.env = env;
        self.restart();
    }

    /// The process id of the server.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The log of all servers that used this folder.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join(LOG)).unwrap_or_default()
    }

    fn launch(folder: &TempDir, flags: &[&str], env: &[(&'static str, String)]) -> (Child, String) {
        let log = OpenOptions::new().create(true).append(true).open(folder.path().join(LOG)).unwrap();
        let mut child = Command::new(BINARY)
            .args(["serve", "--bind", "127.0.0.1:0"])
            .args(flags)
            .arg("--data")
            .arg(folder.path().join("data"))
            .env("TOOLWRIGHT_ADMIN_KEY", ADMIN_KEY)
            .env("TOOLWRIGHT_EGRESS_ALLOW", "127.0.0.0/8")
            .env("RUST_LOG", "warn")
            .envs(env.iter().cloned())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let url = line
            .trim_end()
            .strip_prefix("listening on ")
            .unwrap_or_else(|| panic!("expected `listening on URL`, got `{line}`"))
            .to_owned();
        (child, url)
    }

    /// Runs a CLI command with the administrator's key and waits for its exit.
    pub(crate) fn run(&self, args: &[&str]) -> CommandOutput {
        self.run_with_stdin(args, "")
    }

    /// Runs a CLI command with the administrator's key and with `stdin` as its standard input.
    pub(crate) fn run_with_stdin(&self, args: &[&str], stdin: &str) -> CommandOutput {
        let mut child = self.spawn(args);
        // Writing fails if the command has exited without reading its input.
        let _ = child.stdin.take().unwrap().write_all(stdin.as_bytes());
        CommandOutput::wait(args, child)
    }

    /// Starts a CLI command with the administrator's key.
    pub(crate) fn spawn(&self, args: &[&str]) -> Child {
        self.spawn_with_key(ADMIN_KEY, args)
    }

    /// Starts a CLI command with another API key.
    pub(crate) fn spawn_with_key(&self, key: &str, args: &[&str]) -> Child {
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
            println!("server log:\n{}", self.log());
        }
    }
}

/// The exit code and the output of a command.
pub(crate) struct CommandOutput {
    command: String,
    code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl CommandOutput {
    /// Waits for a command to exit.
    pub(crate) fn wait(args: &[&str], child: Child) -> Self {
        let output = child.wait_with_output().unwrap();
        Self {
            command: args.join(" "),
            code: output.status.code(),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Asserts the exit code.
    #[track_caller]
    pub(crate) fn expect_exit(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "`{}`\nstdout: {}\nstderr: {}", self.command, self.out, self.err);
        self
    }

    /// Parses standard output as JSON.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.out)
            .unwrap_or_else(|error| panic!("`{}` must print JSON: {error}\n{}", self.command, self.out))
    }
}
