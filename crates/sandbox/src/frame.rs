//! What server and worker say to each other: JSON with its length before it, over pipes.
//!
//! The server speaks from tasks, a worker from the one thread it has, so there are two ways to read and to write. Neither believes
//! a length: what is longer than the reader allows is not read, and memory grows with what has arrived.

use std::io::{Read, Write};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::{Done, Failure, Isolation, Job, Limits};

/// How deeply values that cross may be nested. The reader of JSON stops at 128, and a frame is around each value.
pub const MAX_NESTING: usize = 100;

/// What a frame takes beside what the code made: names, a message, a line.
const AROUND: u64 = 64 << 10;

/// Above this, a frame is parsed on a thread that may be busy for a while.
const PARSED_AT_ONCE: usize = 256 << 10;

/// From the server to a worker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ToWorker {
    /// Run this.
    Run(Job),
    /// What came of the call that the worker is waiting for.
    Answer(Result<Value, String>),
}

/// From a worker to the server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum FromWorker {
    /// The first frame: the worker has given up what it could, and waits for a job.
    Ready(Isolation),
    /// The code calls a function of its host.
    Call {
        /// Its name.
        function: String,
        /// What it is called with.
        arguments: Value,
    },
    /// The job is over. As the first frame: there will be none.
    Finished(Result<Done, Failure>),
}

/// Why a frame did not come through.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// The other side is gone, perhaps in the middle of a frame.
    #[error("the other side is gone")]
    Closed,
    /// It is longer than the reader allows.
    #[error("a frame of {length} bytes, where {allowed} are allowed")]
    TooLong {
        /// What was announced.
        length: u64,
        /// What is allowed.
        allowed: u64,
    },
    /// It is not what was expected.
    #[error("not a frame: {0}")]
    Malformed(serde_json::Error),
    /// The pipe failed.
    #[error(transparent)]
    Pipe(#[from] std::io::Error),
}

/// The longest frame that a worker may send while it runs a job: the result, and what was printed. JSON may take six bytes for
/// one that is printed.
pub fn longest_from_worker(limits: &Limits) -> u64 {
    limits.output.saturating_mul(7).saturating_add(AROUND)
}

/// The longest frame that a worker may be sent: code that is given more than it may hold cannot run.
pub fn longest_to_worker(limits: &Limits) -> u64 {
    limits.memory.saturating_add(AROUND)
}

/// Whether a value can cross.
pub fn is_shallow(value: &Value) -> bool {
    fn within(value: &Value, levels: usize) -> bool {
        match value {
            Value::Array(items) => levels > 0 && items.iter().all(|item| within(item, levels - 1)),
            Value::Object(fields) => levels > 0 && fields.values().all(|field| within(field, levels - 1)),
            _ => true,
        }
    }
    within(value, MAX_NESTING)
}

/// A message as it goes over the pipe.
pub fn encode(message: &impl Serialize) -> Result<Vec<u8>, FrameError> {
    let mut frame = vec![0; 4];
    serde_json::to_writer(&mut frame, message).map_err(FrameError::Malformed)?;
    let length = (frame.len() - 4) as u64;
    let header = u32::try_from(length).map_err(|_| FrameError::TooLong { length, allowed: u32::MAX.into() })?;
    frame.splice(..4, header.to_be_bytes());
    Ok(frame)
}

/// Reads a message, waiting for it with the whole thread.
pub fn read_blocking<T: DeserializeOwned>(input: &mut impl Read, allowed: u64) -> Result<T, FrameError> {
    let mut header = [0; 4];
    input.read_exact(&mut header).map_err(closed)?;
    let length = announced(header, allowed)?;
    let mut body = Vec::new();
    input.take(length).read_to_end(&mut body)?;
    complete(&body, length)?;
    serde_json::from_slice(&body).map_err(FrameError::Malformed)
}

/// Writes a message, waiting with the whole thread.
pub fn write_blocking(output: &mut impl Write, message: &impl Serialize) -> Result<(), FrameError> {
    output.write_all(&encode(message)?).map_err(closed)?;
    output.flush().map_err(closed)
}

/// Reads a message.
pub async fn read<T>(input: &mut (impl AsyncRead + Unpin), allowed: u64) -> Result<T, FrameError>
where
    T: DeserializeOwned + Send + 'static,
{
    let mut header = [0; 4];
    input.read_exact(&mut header).await.map_err(closed)?;
    let length = announced(header, allowed)?;
    let mut body = Vec::new();
    input.take(length).read_to_end(&mut body).await?;
    complete(&body, length)?;
    if body.len() <= PARSED_AT_ONCE {
        return serde_json::from_slice(&body).map_err(FrameError::Malformed);
    }
    let parsed = tokio::task::spawn_blocking(move || serde_json::from_slice(&body)).await;
    parsed.map_err(std::io::Error::other)?.map_err(FrameError::Malformed)
}

/// Writes a frame that was encoded before.
pub async fn write(output: &mut (impl AsyncWrite + Unpin), frame: &[u8]) -> Result<(), FrameError> {
    output.write_all(frame).await.map_err(closed)?;
    output.flush().await.map_err(closed)
}

fn announced(header: [u8; 4], allowed: u64) -> Result<u64, FrameError> {
    let length = u64::from(u32::from_be_bytes(header));
    if length > allowed { Err(FrameError::TooLong { length, allowed }) } else { Ok(length) }
}

fn complete(body: &[u8], length: u64) -> Result<(), FrameError> {
    if body.len() as u64 == length { Ok(()) } else { Err(FrameError::Closed) }
}

fn closed(error: std::io::Error) -> FrameError {
    use std::io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
    match error.kind() {
        UnexpectedEof | BrokenPipe | ConnectionReset => FrameError::Closed,
        _ => FrameError::Pipe(error),
    }
}
