//! The server's side of the frame protocol with one worker.
//!
//! The server does not trust a worker, because the code may have taken control of the worker's process. This module
//! checks every message against the job: which functions the job may call, how often, how much data it may send, and
//! how long it may run.

use std::future::Future;
use std::io;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, timeout};

use super::AsyncHost;
use crate::frame::{self, FrameError, FromWorker, ToWorker};
use crate::{Isolation, Job, JobError, JobLimits, JobOutput, Limit};

/// A worker has this long after the time limit to report that its job exceeded the limit. Then the server kills the
/// worker.
const GRACE_PERIOD: Duration = Duration::from_millis(500);

/// The time that a worker may take to start.
const START_TIMEOUT: Duration = Duration::from_secs(30);

/// The maximum length of an error message of the code, in characters.
const MAX_MESSAGE_CHARS: usize = 4_000;

/// The maximum length of the first frame of a worker.
const MAX_FIRST_FRAME: u64 = 64 << 10;

/// The reason why a worker cannot be used any longer.
#[derive(Debug)]
pub(super) enum WorkerError {
    /// The worker's job exceeded a limit.
    Limit(Limit),
    /// The worker sent a message that is not allowed, or the job cannot be sent to it.
    Rejected(&'static str),
    /// The worker closed its pipe, or did not start in time.
    Disconnected,
}

impl From<FrameError> for WorkerError {
    fn from(error: FrameError) -> Self {
        match error {
            FrameError::Closed | FrameError::Pipe(_) => WorkerError::Disconnected,
            FrameError::TooLong { .. } | FrameError::TooLarge(_) => WorkerError::Limit(Limit::Output),
            FrameError::Malformed(_) => WorkerError::Rejected("the code interfered with the interpreter"),
        }
    }
}

/// The two pipes of a worker.
pub(super) struct Connection<I, O> {
    input: I,
    output: O,
    isolation: Option<Isolation>,
}

impl<I: AsyncWrite + Unpin, O: AsyncRead + Unpin> Connection<I, O> {
    pub(super) fn new(input: I, output: O) -> Self {
        Self { input, output, isolation: None }
    }

    /// Waits until the worker is ready for a job. Returns the inner error if the worker cannot run jobs.
    pub(super) async fn ready(&mut self) -> Result<Result<Isolation, JobError>, WorkerError> {
        if let Some(isolation) = self.isolation {
            return Ok(Ok(isolation));
        }
        let first = timeout(START_TIMEOUT, frame::read(&mut self.output, MAX_FIRST_FRAME)).await;
        match first.map_err(|_| WorkerError::Disconnected)?? {
            FromWorker::Ready(isolation) => {
                tracing::debug!(?isolation, "sandbox worker is ready");
                self.isolation = Some(isolation);
                Ok(Ok(isolation))
            }
            FromWorker::Finished(Err(error)) => Ok(Err(error)),
            _ => Err(WorkerError::Rejected("the worker sent an unexpected first message")),
        }
    }

    /// Returns whether the worker has ever been ready.
    pub(super) fn was_ready(&self) -> bool {
        self.isolation.is_some()
    }

    /// Runs a job and answers its calls to host functions.
    pub(super) async fn run(
        &mut self,
        job: Job,
        host: &dyn AsyncHost,
    ) -> Result<Result<JobOutput, JobError>, WorkerError> {
        let (limits, functions) = (job.limits, job.functions.clone());
        if let Err(error) = self.ready().await? {
            return Ok(Err(error));
        }
        if !frame::is_within_max_nesting(&job.inputs) {
            return Err(WorkerError::Rejected("the inputs are nested too deeply for a sandbox"));
        }
        let first = encode_within(&ToWorker::Run(job), &limits)?.ok_or(WorkerError::Limit(Limit::Memory))?;
        let mut time = TimeBudget { remaining: limits.time.saturating_add(GRACE_PERIOD), deadline: host.deadline() };
        let mut calls = 0;
        time.spend(frame::write(&mut self.input, &first)).await??;
        loop {
            let received = time.spend(frame::read(&mut self.output, frame::max_frame_from_worker(&limits))).await??;
            match received {
                FromWorker::Finished(outcome) => return Ok(check_outcome(outcome, &limits)),
                FromWorker::Call { function, arguments } if functions.contains(&function) => {
                    calls += 1;
                    if calls > limits.host_calls {
                        return Err(WorkerError::Limit(Limit::HostCalls));
                    }
                    if json_length(&arguments) > limits.output {
                        return Err(WorkerError::Limit(Limit::Output));
                    }
                    // The time that the host function takes does not count against the job's time limit.
                    let answer = host.call(&function, arguments).await;
                    time.spend(frame::write(&mut self.input, &encode_answer(answer, &limits)?)).await??;
                }
                FromWorker::Call { .. } => {
                    return Err(WorkerError::Rejected("the code called a function that was not granted to it"));
                }
                FromWorker::Ready(_) => return Err(WorkerError::Rejected("the code interfered with the interpreter")),
            }
        }
    }
}

/// The remaining time of a job. The time of host functions does not count.
struct TimeBudget {
    remaining: Duration,
    /// A deadline of the caller that ends the job even if time remains.
    deadline: Option<Instant>,
}

impl TimeBudget {
    async fn spend<T>(&mut self, work: impl Future<Output = T>) -> Result<T, WorkerError> {
        let started = Instant::now();
        let until_deadline = self.deadline.map(|deadline| deadline.saturating_duration_since(started));
        let outcome = timeout(until_deadline.map_or(self.remaining, |until| until.min(self.remaining)), work).await;
        self.remaining = self.remaining.saturating_sub(started.elapsed());
        outcome.map_err(|_| WorkerError::Limit(Limit::Time))
    }
}

/// Encodes a message, or returns `None` if it is larger than the memory limit of the code.
fn encode_within(message: &ToWorker, limits: &JobLimits) -> Result<Option<Vec<u8>>, FrameError> {
    let frame = frame::encode(message)?;
    Ok((frame.len() as u64 <= frame::max_frame_to_worker(limits)).then_some(frame))
}

fn encode_answer(answer: Result<Value, String>, limits: &JobLimits) -> Result<Vec<u8>, FrameError> {
    let answer = match answer {
        Ok(value) if !frame::is_within_max_nesting(&value) => {
            Err("the answer is nested too deeply for a sandbox".to_owned())
        }
        answer => answer,
    };
    match encode_within(&ToWorker::Answer(answer), limits)? {
        Some(frame) => Ok(frame),
        None => {
            frame::encode(&ToWorker::Answer(Err("the answer is larger than the memory limit of the code".to_owned())))
        }
    }
}

/// Checks the outcome that a worker reports against the limits of its job.
///
/// The code may have forged the outcome. So an outcome that reports an unavailable sandbox is converted to an exception
/// of the code.
fn check_outcome(outcome: Result<JobOutput, JobError>, limits: &JobLimits) -> Result<JobOutput, JobError> {
    let (content, printed) = match &outcome {
        Ok(output) => (json_length(&output.result), output.stdout.len()),
        Err(JobError::Exception { message, stdout, .. }) => (message.len() as u64, stdout.len()),
        Err(JobError::Code { message, .. }) => (message.len() as u64, 0),
        Err(JobError::Unavailable { reason }) => (reason.len() as u64, 0),
        Err(JobError::Limit { .. }) => (0, 0),
    };
    if content > limits.output || printed as u64 > limits.output {
        return Err(JobError::Limit { limit: Limit::Output });
    }
    match outcome {
        Ok(output) if !frame::is_within_max_nesting(&output.result) => {
            let message = format!("the result is nested more than {} levels deep", frame::MAX_NESTING);
            Err(JobError::Exception { message, line: None, stdout: output.stdout })
        }
        Ok(output) => Ok(output),
        Err(JobError::Code { message, line }) => Err(JobError::Code { message: truncate(message), line }),
        Err(JobError::Exception { message, line, stdout }) => {
            Err(JobError::Exception { message: truncate(message), line, stdout })
        }
        Err(JobError::Unavailable { reason }) => {
            Err(JobError::Exception { message: truncate(reason), line: None, stdout: String::new() })
        }
        Err(limit @ JobError::Limit { .. }) => Err(limit),
    }
}

fn truncate(message: String) -> String {
    match message.char_indices().nth(MAX_MESSAGE_CHARS) {
        Some((end, _)) => format!("{}…", message.get(..end).unwrap_or_default()),
        None => message,
    }
}

/// Returns the length of a value as JSON, without storing the text.
fn json_length(value: &Value) -> u64 {
    struct Counter(u64);
    impl io::Write for Counter {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len() as u64;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut counter = Counter(0);
    match serde_json::to_writer(&mut counter, value) {
        Ok(()) => counter.0,
        Err(_) => u64::MAX,
    }
}
