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
use super::connection::{Connection, WorkerError};
use crate::{Isolation, Job, JobError, JobOutput, Limit, WorkerConfig};

/// The number of bytes of a worker's standard error that are kept for the log.
const MAX_STDERR: usize = 4 << 10;

/// The only environment variable of a worker. By default mimalloc commits a gigabyte when it starts, which counts
/// against the memory limit. With this setting it commits memory on demand.
const MIMALLOC_COMMIT_ON_DEMAND: (&str, &str) = ("MIMALLOC_ARENA_EAGER_COMMIT", "0");

/// The time that a worker gets to exit after it closed its pipe.
const EXIT_TIMEOUT: Duration = Duration::from_secs(1);

/// A worker and the pipes to it. Dropping it kills the process group of the worker, and the runtime reaps the process.
pub(super) struct WorkerProcess {
    child: Child,
    connection: Connection<ChildStdin, ChildStdout>,
    stderr: StderrBuffer,
    jobs: u32,
    reusable: bool,
}

impl WorkerProcess {
    /// Starts a worker, without waiting until it is ready.
    pub(super) fn start(program: &Path, arguments: &[String], config: &WorkerConfig) -> Result<Self, JobError> {
        let unavailable = |error: &dyn std::fmt::Display| JobError::Unavailable {
            reason: format!("the worker `{}` could not be started: {error}", program.display()),
        };
        let config = serde_json::to_string(config).map_err(|error| unavailable(&error))?;
        let mut child = Command::new(program)
            .args(arguments)
            .arg(config)
            .env_clear()
            .env(MIMALLOC_COMMIT_ON_DEMAND.0, MIMALLOC_COMMIT_ON_DEMAND.1)
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
        let stderr = StderrBuffer { pipe: Some(errors), text: Vec::new() };
        Ok(Self { child, connection: Connection::new(input, output), stderr, jobs: 0, reusable: true })
    }

    /// Runs a job. If the worker misbehaves, kills it and returns an error that tells the author of the code what
    /// happened.
    pub(super) async fn run(&mut self, job: Job, host: &dyn AsyncHost) -> Result<JobOutput, JobError> {
        self.jobs += 1;
        // The worker is not reusable until the job ends. If this future is dropped, the worker is still in the middle
        // of the job.
        self.reusable = false;
        let outcome = tokio::select! {
            outcome = self.connection.run(job, host) => outcome,
            () = self.stderr.collect() => Err(WorkerError::Disconnected),
        };
        match outcome {
            Ok(outcome) => {
                self.reusable = !matches!(outcome, Err(JobError::Limit { .. } | JobError::Unavailable { .. }));
                outcome
            }
            Err(error) => Err(self.kill_and_explain(error).await),
        }
    }

    /// Waits until the worker is ready and returns its isolation.
    pub(super) async fn isolation(&mut self) -> Result<Isolation, JobError> {
        match self.connection.ready().await {
            Ok(isolation) => isolation,
            Err(error) => Err(self.kill_and_explain(error).await),
        }
    }

    /// Returns whether the worker can run another job.
    pub(super) fn is_reusable(&self) -> bool {
        self.reusable
    }

    /// Returns the number of jobs that were sent to the worker.
    pub(super) fn jobs(&self) -> u32 {
        self.jobs
    }

    /// Returns whether the process is still running.
    pub(super) fn is_alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Kills the process and waits until it is gone.
    pub(super) async fn end(mut self) {
        self.kill();
        if let Err(error) = self.child.wait().await {
            tracing::warn!(%error, "could not wait for a sandbox worker");
        }
    }

    /// Kills the process and turns the error of the worker into an error of its job.
    async fn kill_and_explain(&mut self, error: WorkerError) -> JobError {
        let status = match &error {
            WorkerError::Disconnected => timeout(EXIT_TIMEOUT, self.child.wait()).await.ok().and_then(Result::ok),
            _ => None,
        };
        self.kill();
        let stderr = self.stderr.finish().await;
        if !self.connection.was_ready() {
            // The code has not run yet, so the cause is the configuration of the server or machine.
            tracing::warn!(?error, ?status, stderr, "sandbox worker did not start");
            let reason = "the sandbox worker did not start; see the server's log".to_owned();
            return JobError::Unavailable { reason };
        }
        tracing::debug!(?error, ?status, stderr, "sandbox worker was killed");
        match error {
            WorkerError::Limit(limit) => JobError::Limit { limit },
            WorkerError::Rejected(message) => exception(message),
            WorkerError::Disconnected => error_for_exit(status, &stderr),
        }
    }

    fn kill(&mut self) {
        // `id` is `None` after the process is reaped, because then another process may have the same id.
        let group = self.child.id().and_then(|id| i32::try_from(id).ok());
        if let Some(group) = group {
            let _ = killpg(Pid::from_raw(group), Signal::SIGKILL);
        }
    }
}

impl Drop for WorkerProcess {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Returns the error of a job whose worker exited, from its exit status and its standard error.
fn error_for_exit(status: Option<ExitStatus>, stderr: &str) -> JobError {
    let signal = status.and_then(|status| status.signal()).and_then(|signal| Signal::try_from(signal).ok());
    let mentions_memory = stderr.contains("memory") || stderr.contains("Memory");
    match signal {
        Some(Signal::SIGXCPU) => JobError::Limit { limit: Limit::Time },
        // The kernel sends SIGKILL to a process that uses too much memory. An allocator that gets no memory aborts the
        // process.
        Some(Signal::SIGKILL) => JobError::Limit { limit: Limit::Memory },
        Some(Signal::SIGABRT) if mentions_memory => JobError::Limit { limit: Limit::Memory },
        Some(Signal::SIGSYS) => exception("the code made a system call that the sandbox forbids"),
        Some(signal) => exception(format!("the interpreter exited unexpectedly ({signal})")),
        None => exception("the interpreter exited unexpectedly"),
    }
}

fn exception(message: impl Into<String>) -> JobError {
    JobError::Exception { message: message.into(), line: None, stdout: String::new() }
}

/// The beginning of a worker's standard error. It is only logged and never returned, because code can write to it.
struct StderrBuffer {
    pipe: Option<ChildStderr>,
    text: Vec<u8>,
}

impl StderrBuffer {
    /// Reads until the future is dropped, so that a worker does not block on a full pipe. Never returns.
    async fn collect(&mut self) {
        self.drain().await;
        std::future::pending().await
    }

    /// Reads the remaining output after the worker was killed. Waits only briefly, because a process that the worker
    /// started may keep the pipe open.
    async fn finish(&mut self) -> String {
        let _ = timeout(Duration::from_millis(50), self.drain()).await;
        String::from_utf8_lossy(&self.text).into_owned()
    }

    async fn drain(&mut self) {
        let mut chunk = [0; 1024];
        while let Some(pipe) = &mut self.pipe {
            match pipe.read(&mut chunk).await {
                Ok(length @ 1..) => {
                    let fits = length.min(MAX_STDERR.saturating_sub(self.text.len()));
                    self.text.extend(chunk.iter().take(fits));
                }
                _ => self.pipe = None,
            }
        }
    }
}
