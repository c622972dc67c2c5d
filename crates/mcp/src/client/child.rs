//! The connection to an MCP server that is a child process. Messages from the server are limited by the budget for
//! foreign data.

use std::pin::Pin;
use std::process::ExitStatus;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use process_wrap::tokio::ChildWrapper;
use rmcp::RoleClient;
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use rmcp::transport::async_rw::AsyncRwTransport;
use tokio::io::{AsyncRead, ReadBuf};
use tokio::process::{ChildStdin, ChildStdout};
use tokio::sync::Mutex;
use toolwright_budget::{LimitExceeded, NodeCounter};

/// How long a server has to exit after its input is closed.
pub(super) const EXIT_TIMEOUT: Duration = Duration::from_secs(3);

/// A child process without its pipes. The process is killed when the last clone is dropped.
#[derive(Clone)]
pub(super) struct Process(Arc<Mutex<Box<dyn ChildWrapper>>>);

impl Process {
    /// Waits until the process ends. Returns `None` if it is still running after [`EXIT_TIMEOUT`].
    pub(super) async fn exit_status(&self) -> Option<ExitStatus> {
        let wait = async { self.0.lock().await.wait().await };
        tokio::time::timeout(EXIT_TIMEOUT, wait).await.ok()?.ok()
    }
}

/// A child process and its pipes.
pub(super) struct Child {
    process: Process,
    transport: AsyncRwTransport<RoleClient, BoundedLines<ChildStdout>, ChildStdin>,
}

impl Child {
    /// Takes the pipes of a process that was started with `KillOnDrop`.
    pub(super) fn new(mut process: Box<dyn ChildWrapper>) -> std::io::Result<Self> {
        let missing = || std::io::Error::other("the process has no pipes");
        let stdin = process.stdin().take().ok_or_else(missing)?;
        let stdout = process.stdout().take().ok_or_else(missing)?;
        let reader = BoundedLines { reader: stdout, counter: NodeCounter::default() };
        let process = Process(Arc::new(Mutex::new(process)));
        Ok(Self { process, transport: AsyncRwTransport::new(reader, stdin) })
    }

    pub(super) fn process(&self) -> Process {
        self.process.clone()
    }
}

impl Transport<RoleClient> for Child {
    type Error = std::io::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        self.transport.send(message)
    }

    fn receive(&mut self) -> impl Future<Output = Option<RxJsonRpcMessage<RoleClient>>> + Send {
        self.transport.receive()
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.transport.close().await?;
        let mut process = self.process.0.lock().await;
        match tokio::time::timeout(EXIT_TIMEOUT, process.wait()).await {
            Ok(exit) => exit.map(drop),
            Err(_elapsed) => Box::into_pin(process.kill()).await,
        }
    }
}

/// A reader that fails at a line with too many JSON nodes.
struct BoundedLines<R> {
    reader: R,
    counter: NodeCounter,
}

impl<R> BoundedLines<R> {
    fn count(&mut self, read: &[u8]) -> Result<(), LimitExceeded> {
        for part in read.split_inclusive(|byte| *byte == b'\n') {
            self.counter.add(part)?;
            if part.ends_with(b"\n") {
                self.counter = NodeCounter::default();
            }
        }
        Ok(())
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for BoundedLines<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.reader).poll_read(cx, buffer))?;
        let read = buffer.filled().get(before..).unwrap_or_default();
        let counted = self.count(read);
        if counted.is_err() {
            // A reader that returns an error must leave the buffer unchanged.
            buffer.set_filled(before);
        }
        Poll::Ready(counted.map_err(std::io::Error::other))
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;
    use toolwright_budget::MAX_NODES;

    use super::*;

    #[tokio::test]
    async fn reader_fails_at_a_line_with_too_many_json_nodes() {
        let lines = "[],".repeat(MAX_NODES / 2 - 1) + "\n" + &"[],".repeat(MAX_NODES / 2 - 1) + "\n";
        let mut reader = BoundedLines { reader: lines.as_bytes(), counter: NodeCounter::default() };
        assert_eq!(reader.read_to_end(&mut Vec::new()).await.unwrap(), lines.len());
        let line = "[],".repeat(MAX_NODES);
        let mut reader = BoundedLines { reader: line.as_bytes(), counter: NodeCounter::default() };
        assert!(reader.read_to_end(&mut Vec::new()).await.is_err());
    }
}
