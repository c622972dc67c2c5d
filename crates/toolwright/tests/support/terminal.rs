//! Runs CLI commands in a pseudoterminal.
#![allow(dead_code, reason = "each test binary uses some of these helpers")]

use std::fs::File;
use std::io::{Read, Write};
use std::process::{Child, Command};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use nix::pty::{Winsize, openpty};
use regex::Regex;

use super::{ADMIN_KEY, BINARY, Server};

/// How long a test waits for a text on the screen.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A command whose standard streams are a terminal.
pub(crate) struct Terminal {
    child: Child,
    keyboard: File,
    screen: Receiver<Vec<u8>>,
    printed: Vec<u8>,
    /// The position in the printed text after the last match of [`wait_for`](Terminal::wait_for).
    seen: usize,
}

impl Terminal {
    /// Starts a command with the administrator's key.
    pub(crate) fn start(server: &Server, args: &[&str]) -> Self {
        let size = Winsize { ws_row: 40, ws_col: 120, ws_xpixel: 0, ws_ypixel: 0 };
        let terminal = openpty(&size, None).unwrap();
        let slave = || terminal.slave.try_clone().unwrap();
        let child = Command::new(BINARY)
            .args(args)
            .env("TOOLWRIGHT_URL", &server.url)
            .env("TOOLWRIGHT_API_KEY", ADMIN_KEY)
            .env("TERM", "xterm")
            .env("NO_COLOR", "1")
            .env_remove("TOOLWRIGHT_REALM")
            .stdin(slave())
            .stdout(slave())
            .stderr(slave())
            .spawn()
            .unwrap();
        let keyboard = File::from(terminal.master);
        let (sender, screen) = channel();
        let mut reader = keyboard.try_clone().unwrap();
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            // Reading fails when the command has closed the terminal.
            while let Ok(count @ 1..) = reader.read(&mut buffer) {
                if sender.send(buffer[..count].to_vec()).is_err() {
                    break;
                }
            }
        });
        Self { child, keyboard, screen, printed: Vec::new(), seen: 0 }
    }

    /// Waits until the terminal shows a text after the match of the previous call.
    #[track_caller]
    pub(crate) fn wait_for(&mut self, text: &str) {
        loop {
            let shown = self.text();
            if let Some(at) = shown.get(self.seen..).and_then(|rest| rest.find(text)) {
                self.seen += at + text.len();
                return;
            }
            match self.screen.recv_timeout(TIMEOUT) {
                Ok(bytes) => self.printed.extend(bytes),
                Err(error) => panic!("waiting for `{text}`: {error}; the terminal shows:\n{shown}"),
            }
        }
    }

    /// Presses keys.
    pub(crate) fn send(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
    }

    /// Waits for the exit of the command, asserts its exit code and returns the text that it printed.
    #[track_caller]
    pub(crate) fn wait_for_exit(mut self, code: i32) -> String {
        loop {
            match self.screen.recv_timeout(TIMEOUT) {
                Ok(bytes) => self.printed.extend(bytes),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => panic!("the command does not exit; it shows:\n{}", self.text()),
            }
        }
        let status = self.child.wait().unwrap();
        let text = self.text();
        assert_eq!(status.code(), Some(code), "{text}");
        text
    }

    /// The printed text without escape sequences.
    fn text(&self) -> String {
        let escapes = Regex::new("\u{1b}\\[[0-9;?]*[A-Za-z]|\r").unwrap();
        escapes.replace_all(&String::from_utf8_lossy(&self.printed), "").into_owned()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
