//! One worker process, from its start to its end.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::io::AsyncReadExt;
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

use super::AsyncHost;
use super::exchange::{Broken, Exchange};
use crate::{Assignment, Done, Failure, Isolation, Job, Limit};

/// How much of what a worker complains about is kept for the log.
const COMPLAINTS: usize = 4 << 10;

/// All there is in the environment of a worker. The allocator of the product would take a gigabyte at once that counts as used;
/// so it takes what it needs.
const LAZY_ALLOCATOR: (&str, &str) = ("MIMALLOC_ARENA_EAGER_COMMIT", "0");

/// A worker that closed its pipe is about to end.
const ENDING: Duration = Duration::from_secs(1);

/// A worker, and the pipes to it. Dropped, it is killed with all it may have started, and the runtime reaps it.
pub(super) struct Process {
    child: Child,
    exchange: Exchange<ChildStdin, ChildStdout>,
    complaints: Complaints,
    jobs: u32,
    sound: bool,
}

impl Process {
    /// Starts a worker without waiting for it.
    pub(super) fn start(program: &Path, arguments: &[String], assignment: &Assignment) -> Result<Self, Failure> {
        let unavailable = |error: &dyn std::fmt::Display| Failure::Unavailable {
            reason: format!("the worker `{}` cannot be started: {error}", program.display()),
        };
        let assignment = serde_json::to_string(assignment).map_err(|error| unavailable(&error))?;
        let mut child = Command::new(program)
            .args(arguments)
            .arg(assignment)
            .env_clear()
            .env(LAZY_ALLOCATOR.0, LAZY_ALLOCATOR.1)
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| unavailable(&error))?;
        let (Some(input), Some(output), Some(errors)) = (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err(unavailable(&"it has no pipes"));
        };
        let complaints = Complaints { pipe: Some(errors), text: Vec::new() };
        Ok(Self { child, exchange: Exchange::new(input, output), complaints, jobs: 0, sound: true })
    }

    /// Runs a job. Whatever the worker does, the outcome is one that the code's author can act on.
    pub(super) async fn run(&mut self, job: Job, host: &dyn AsyncHost) -> Result<Done, Failure> {
        self.jobs += 1;
        // Whoever drops this future leaves a worker that is in the middle of something.
        self.sound = false;
        let outcome = tokio::select! {
            outcome = self.exchange.run(job, host) => outcome,
            () = self.complaints.collect() => Err(Broken::Gone),
        };
        match outcome {
            Ok(outcome) => {
                self.sound = !matches!(outcome, Err(Failure::Limit { .. } | Failure::Unavailable { .. }));
                outcome
            }
            Err(broken) => Err(self.explain(broken).await),
        }
    }

    /// What the worker has given up.
    pub(super) async fn isolation(&mut self) -> Result<Isolation, Failure> {
        match self.exchange.ready().await {
            Ok(isolation) => isolation,
            Err(broken) => Err(self.explain(broken).await),
        }
    }

    /// Whether it can be given another job.
    pub(super) fn is_sound(&self) -> bool {
        self.sound
    }

    /// How many jobs it was given.
    pub(super) fn jobs(&self) -> u32 {
        self.jobs
    }

    /// Whether it still runs.
    pub(super) fn is_alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Ends it, and waits until it is gone.
    pub(super) async fn end(mut self) {
        self.kill();
        if let Err(error) = self.child.wait().await {
            tracing::warn!(%error, "a worker of the sandbox could not be waited for");
        }
    }

    async fn explain(&mut self, broken: Broken) -> Failure {
        let ended = match &broken {
            Broken::Gone => timeout(ENDING, self.child.wait()).await.ok().and_then(Result::ok),
            _ => None,
        };
        self.kill();
        let complaints = self.complaints.last_words().await;
        if !self.exchange.has_begun() {
            // Nobody's code is to blame.
            tracing::warn!(?broken, ?ended, complaints, "a worker of the sandbox does not start");
            let reason = "a worker of the sandbox does not start; the server's log says why".to_owned();
            return Failure::Unavailable { reason };
        }
        tracing::debug!(?broken, ?ended, complaints, "a worker of the sandbox is given up");
        match broken {
            Broken::Limit(limit) => Failure::Limit { limit },
            Broken::Unfit(message) => exception(message),
            Broken::Gone => autopsy(ended, &complaints),
        }
    }

    fn kill(&mut self) {
        // Only until it is reaped is the number certainly its own.
        let group = self.child.id().and_then(|id| i32::try_from(id).ok());
        if let Some(group) = group {
            let _ = killpg(Pid::from_raw(group), Signal::SIGKILL);
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// What a worker died of, as far as its author can be helped.
fn autopsy(ended: Option<ExitStatus>, complaints: &str) -> Failure {
    let signal = ended.and_then(|status| status.signal()).and_then(|signal| Signal::try_from(signal).ok());
    let of_memory = complaints.contains("memory") || complaints.contains("Memory");
    match signal {
        Some(Signal::SIGXCPU) => Failure::Limit { limit: Limit::Time },
        // The kernel kills who takes too much; allocators abort.
        Some(Signal::SIGKILL) => Failure::Limit { limit: Limit::Memory },
        Some(Signal::SIGABRT) if of_memory => Failure::Limit { limit: Limit::Memory },
        Some(Signal::SIGSYS) => exception("the code tried to do what the sandbox forbids"),
        Some(signal) => exception(format!("the interpreter ended ({signal})")),
        None => exception("the interpreter ended"),
    }
}

fn exception(message: impl Into<String>) -> Failure {
    Failure::Exception { message: message.into(), line: None, stdout: String::new() }
}

/// What a worker writes to its standard error. It is for the log: code has a hand in it.
struct Complaints {
    pipe: Option<ChildStderr>,
    text: Vec<u8>,
}

impl Complaints {
    /// Reads for as long as it is polled, so that no worker waits for its complaints to be read.
    async fn collect(&mut self) {
        self.drain().await;
        std::future::pending().await
    }

    /// The rest, once the worker is killed. What it has started may keep the pipe open for a moment.
    async fn last_words(&mut self) -> String {
        let _ = timeout(Duration::from_millis(50), self.drain()).await;
        String::from_utf8_lossy(&self.text).into_owned()
    }

    async fn drain(&mut self) {
        let mut part = [0; 1024];
        while let Some(pipe) = &mut self.pipe {
            match pipe.read(&mut part).await {
                Ok(length @ 1..) => {
                    let fits = length.min(COMPLAINTS.saturating_sub(self.text.len()));
                    self.text.extend(part.iter().take(fits));
                }
                _ => self.pipe = None,
            }
        }
    }
}
