//! The protocol between server and worker: JSON messages with a length prefix, over pipes.
//!
//! The server reads and writes in async tasks. A worker blocks its only thread. So reading and writing exist in two
//! variants. Neither side trusts a length prefix. A frame over the reader's limit is rejected before it is read, and
//! memory is allocated only for bytes that have arrived.

use std::io::{Read, Write};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use toolwright_budget::JsonError;

use crate::{Isolation, Job, JobError, JobLimits, JobOutput};

/// The maximum nesting of a transferred value. The JSON parser accepts 128 levels, and the frame around a value uses
/// some of them.
pub const MAX_NESTING: usize = 100;

/// The bytes that a frame may use in addition to the inputs and results of the code: names, a message, a line number.
const FRAME_OVERHEAD: u64 = 64 << 10;

/// A message from the server to a worker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ToWorker {
    /// Run this job.
    Run(Job),
    /// The result of the host call that the worker waits for.
    Answer(Result<Value, String>),
}

/// A message from a worker to the server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum FromWorker {
    /// The first frame: the worker is confined and waits for a job.
    Ready(Isolation),
    /// The code calls a function of its host.
    Call {
        /// The name of the function.
        function: String,
        /// The arguments.
        arguments: Value,
    },
    /// The job has ended. If this is the first frame, the worker cannot run jobs.
    Finished(Result<JobOutput, JobError>),
}

/// The reason why a frame could not be transferred.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// The peer closed the pipe, possibly in the middle of a frame.
    #[error("the peer closed the pipe")]
    Closed,
    /// The frame is longer than the reader allows.
    #[error("a frame must not exceed {allowed} bytes, got {length}")]
    TooLong {
        /// The length that the frame announces.
        length: u64,
        /// The allowed length.
        allowed: u64,
    },
    /// The frame has too many JSON nodes.
    #[error(transparent)]
    TooLarge(toolwright_budget::LimitExceeded),
    /// The frame is not a valid message.
    #[error("malformed frame: {0}")]
    Malformed(serde_json::Error),
    /// The pipe failed.
    #[error(transparent)]
    Pipe(#[from] std::io::Error),
}

/// Returns the maximum length of a frame that a worker may send during a job. The frame contains the result and the
/// printed text. One byte of printed text may take six characters in JSON.
pub fn max_frame_from_worker(limits: &JobLimits) -> u64 {
    limits.output.saturating_mul(7).saturating_add(FRAME_OVERHEAD)
}

/// Returns the maximum length of a frame to a worker. Code cannot run with more data than its memory limit allows.
pub fn max_frame_to_worker(limits: &JobLimits) -> u64 {
    limits.memory.saturating_add(FRAME_OVERHEAD)
}

/// Returns whether a value is nested at most [`MAX_NESTING`] levels deep.
pub fn is_within_max_nesting(value: &Value) -> bool {
    fn is_within(value: &Value, levels: usize) -> bool {
        match value {
            Value::Array(items) => levels > 0 && items.iter().all(|item| is_within(item, levels - 1)),
            Value::Object(fields) => levels > 0 && fields.values().all(|field| is_within(field, levels - 1)),
            _ => true,
        }
    }
    is_within(value, MAX_NESTING)
}

/// Encodes a message as a frame: a length of four bytes, big-endian, and the JSON.
pub fn encode(message: &impl Serialize) -> Result<Vec<u8>, FrameError> {
    let mut frame = vec![0; 4];
    serde_json::to_writer(&mut frame, message).map_err(FrameError::Malformed)?;
    let length = (frame.len() - 4) as u64;
    let header = u32::try_from(length).map_err(|_| FrameError::TooLong { length, allowed: u32::MAX.into() })?;
    frame.splice(..4, header.to_be_bytes());
    Ok(frame)
}

/// Reads a message and blocks the thread until it is complete.
pub fn read_blocking<T: DeserializeOwned>(input: &mut impl Read, allowed: u64) -> Result<T, FrameError> {
    let mut header = [0; 4];
    input.read_exact(&mut header).map_err(from_io_error)?;
    let length = parse_length(header, allowed)?;
    let mut body = Vec::new();
    input.take(length).read_to_end(&mut body)?;
    check_complete(&body, length)?;
    serde_json::from_slice(&body).map_err(FrameError::Malformed)
}

/// Writes a message and blocks the thread until it is written.
pub fn write_blocking(output: &mut impl Write, message: &impl Serialize) -> Result<(), FrameError> {
    output.write_all(&encode(message)?).map_err(from_io_error)?;
    output.flush().map_err(from_io_error)
}

/// Reads a message.
pub async fn read<T>(input: &mut (impl AsyncRead + Unpin), allowed: u64) -> Result<T, FrameError>
where
    T: DeserializeOwned + Send + 'static,
{
    let mut header = [0; 4];
    input.read_exact(&mut header).await.map_err(from_io_error)?;
    let length = parse_length(header, allowed)?;
    let mut body = Vec::new();
    input.take(length).read_to_end(&mut body).await?;
    check_complete(&body, length)?;
    toolwright_budget::parse(body.into()).await.map_err(|error| match error {
        JsonError::Limit(limit) => FrameError::TooLarge(limit),
        JsonError::Malformed(error) => FrameError::Malformed(error),
        JsonError::Stopped(stopped) => FrameError::Pipe(std::io::Error::other(stopped)),
    })
}

/// Writes a frame that [`encode`] returned.
pub async fn write(output: &mut (impl AsyncWrite + Unpin), frame: &[u8]) -> Result<(), FrameError> {
    output.write_all(frame).await.map_err(from_io_error)?;
    output.flush().await.map_err(from_io_error)
}

fn parse_length(header: [u8; 4], allowed: u64) -> Result<u64, FrameError> {
    let length = u64::from(u32::from_be_bytes(header));
    if length > allowed { Err(FrameError::TooLong { length, allowed }) } else { Ok(length) }
}

fn check_complete(body: &[u8], length: u64) -> Result<(), FrameError> {
    if body.len() as u64 == length { Ok(()) } else { Err(FrameError::Closed) }
}

fn from_io_error(error: std::io::Error) -> FrameError {
    use std::io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
    match error.kind() {
        UnexpectedEof | BrokenPipe | ConnectionReset => FrameError::Closed,
        _ => FrameError::Pipe(error),
    }
}
