//! The frames of one job. A worker is not believed: what it may say, how often and for how long is decided here.

use std::future::Future;
use std::io;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, timeout};

use super::AsyncHost;
use crate::frame::{self, FrameError, FromWorker, ToWorker};
use crate::{Done, Failure, Isolation, Job, Limit, Limits};

/// What a worker gets beyond its time, to say by itself that it is over.
const GRACE: Duration = Duration::from_millis(500);

/// How long a worker may take to start.
const STARTING: Duration = Duration::from_secs(30);

/// How much of what code says about its failure is told, in letters.
const LONGEST_MESSAGE: usize = 4_000;

/// The first frame of a worker.
const GREETING: u64 = 64 << 10;

/// Why a worker is given up.
#[derive(Debug)]
pub(super) enum Broken {
    /// Its job went beyond a limit.
    Limit(Limit),
    /// It said what it must not say, or was to be told what it cannot hear.
    Unfit(&'static str),
    /// It closed its pipe, or never used it.
    Gone,
}

impl From<FrameError> for Broken {
    fn from(error: FrameError) -> Self {
        match error {
            FrameError::Closed | FrameError::Pipe(_) => Broken::Gone,
            FrameError::TooLong { .. } => Broken::Limit(Limit::Output),
            FrameError::Malformed(_) => Broken::Unfit("the code interfered with the interpreter"),
        }
    }
}

/// The two pipes of a worker.
pub(super) struct Exchange<I, O> {
    input: I,
    output: O,
    greeted: Option<Isolation>,
}

impl<I: AsyncWrite + Unpin, O: AsyncRead + Unpin> Exchange<I, O> {
    pub(super) fn new(input: I, output: O) -> Self {
        Self { input, output, greeted: None }
    }

    /// Waits until the worker is ready for a job, or says that it never will be.
    pub(super) async fn ready(&mut self) -> Result<Result<Isolation, Failure>, Broken> {
        if let Some(isolation) = self.greeted {
            return Ok(Ok(isolation));
        }
        let greeting = timeout(STARTING, frame::read(&mut self.output, GREETING)).await;
        match greeting.map_err(|_| Broken::Gone)?? {
            FromWorker::Ready(isolation) => {
                tracing::debug!(?isolation, "a worker of the sandbox is ready");
                self.greeted = Some(isolation);
                Ok(Ok(isolation))
            }
            FromWorker::Finished(Err(failure)) => Ok(Err(failure)),
            _ => Err(Broken::Unfit("the worker does not speak as a worker does")),
        }
    }

    /// Whether the worker has ever been ready.
    pub(super) fn has_begun(&self) -> bool {
        self.greeted.is_some()
    }

    /// Runs a job and answers its calls.
    pub(super) async fn run(&mut self, job: Job, host: &dyn AsyncHost) -> Result<Result<Done, Failure>, Broken> {
        let (limits, functions) = (job.limits, job.functions.clone());
        if let Err(failure) = self.ready().await? {
            return Ok(Err(failure));
        }
        if !frame::is_shallow(&job.inputs) {
            return Err(Broken::Unfit("the inputs are nested more deeply than a sandbox can be given"));
        }
        let first = told(&ToWorker::Run(job), &limits)?.ok_or(Broken::Limit(Limit::Memory))?;
        let mut clock = Clock { left: limits.time.saturating_add(GRACE) };
        let mut calls = 0;
        clock.run(frame::write(&mut self.input, &first)).await??;
        loop {
            let heard = clock.run(frame::read(&mut self.output, frame::longest_from_worker(&limits))).await??;
            match heard {
                FromWorker::Finished(outcome) => return Ok(within(outcome, &limits)),
                FromWorker::Call { function, arguments } if functions.contains(&function) => {
                    calls += 1;
                    if calls > limits.host_calls {
                        return Err(Broken::Limit(Limit::HostCalls));
                    }
                    if length(&arguments) > limits.output {
                        return Err(Broken::Limit(Limit::Output));
                    }
                    // The clock stands still.
                    let answer = host.call(&function, arguments).await;
                    clock.run(frame::write(&mut self.input, &answered(answer, &limits)?)).await??;
                }
                FromWorker::Call { .. } => {
                    return Err(Broken::Unfit("the code called a function that it was not granted"));
                }
                FromWorker::Ready(_) => return Err(Broken::Unfit("the code interfered with the interpreter")),
            }
        }
    }
}

/// The time that the code has used, rather than its host.
struct Clock {
    left: Duration,
}

impl Clock {
    async fn run<T>(&mut self, work: impl Future<Output = T>) -> Result<T, Broken> {
        let begun = Instant::now();
        let done = timeout(self.left, work).await;
        self.left = self.left.saturating_sub(begun.elapsed());
        done.map_err(|_| Broken::Limit(Limit::Time))
    }
}

/// A frame, unless it is more than the code may hold.
fn told(message: &ToWorker, limits: &Limits) -> Result<Option<Vec<u8>>, FrameError> {
    let frame = frame::encode(message)?;
    Ok((frame.len() as u64 <= frame::longest_to_worker(limits)).then_some(frame))
}

fn answered(answer: Result<Value, String>, limits: &Limits) -> Result<Vec<u8>, FrameError> {
    let answer = match answer {
        Ok(value) if !frame::is_shallow(&value) => Err("the answer is nested too deeply for a sandbox".to_owned()),
        answer => answer,
    };
    match told(&ToWorker::Answer(answer), limits)? {
        Some(frame) => Ok(frame),
        None => frame::encode(&ToWorker::Answer(Err("the answer is larger than the memory of the code".to_owned()))),
    }
}

/// What a worker made of a job, if it kept to the limits. Code may have written this by itself: it speaks for itself, and not
/// for the server.
fn within(outcome: Result<Done, Failure>, limits: &Limits) -> Result<Done, Failure> {
    let (said, printed) = match &outcome {
        Ok(done) => (length(&done.result), done.stdout.len()),
        Err(Failure::Exception { message, stdout, .. }) => (message.len() as u64, stdout.len()),
        Err(Failure::Code { message, .. }) => (message.len() as u64, 0),
        Err(Failure::Unavailable { reason }) => (reason.len() as u64, 0),
        Err(Failure::Limit { .. }) => (0, 0),
    };
    if said > limits.output || printed as u64 > limits.output {
        return Err(Failure::Limit { limit: Limit::Output });
    }
    match outcome {
        Ok(done) if !frame::is_shallow(&done.result) => {
            let message = format!("the result is nested more than {} deep", frame::MAX_NESTING);
            Err(Failure::Exception { message, line: None, stdout: done.stdout })
        }
        Ok(done) => Ok(done),
        Err(Failure::Code { message, line }) => Err(Failure::Code { message: shortened(message), line }),
        Err(Failure::Exception { message, line, stdout }) => {
            Err(Failure::Exception { message: shortened(message), line, stdout })
        }
        Err(Failure::Unavailable { reason }) => {
            Err(Failure::Exception { message: shortened(reason), line: None, stdout: String::new() })
        }
        Err(limit @ Failure::Limit { .. }) => Err(limit),
    }
}

fn shortened(message: String) -> String {
    match message.char_indices().nth(LONGEST_MESSAGE) {
        Some((end, _)) => format!("{}…", message.get(..end).unwrap_or_default()),
        None => message,
    }
}

/// The length of a value as JSON, without writing it anywhere.
fn length(value: &Value) -> u64 {
    struct Count(u64);
    impl io::Write for Count {
        fn write(&mut self, part: &[u8]) -> io::Result<usize> {
            self.0 += part.len() as u64;
            Ok(part.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    match serde_json::to_writer(&mut count, value) {
        Ok(()) => count.0,
        Err(_) => u64::MAX,
    }
}
