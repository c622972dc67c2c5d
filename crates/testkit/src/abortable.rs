//! The TCP listener of every fixture system. It disables Nagle's algorithm, and a request handler can abort the
//! connection of its request.
//!
//! The handlers of [`crate::faults`] use this to close or reset TCP connections. The handler marks the connection as
//! aborted. The first attempt to write the response then fails, and the connection ends.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use axum::extract::connect_info::Connected;
use axum::serve::{IncomingStream, Listener};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};

/// A listener whose connections a request handler can abort.
pub(crate) struct AbortableListener(TcpListener);

/// Aborts a connection without a response.
#[derive(Clone, Debug, Default)]
pub(crate) struct ConnectionAborter(Arc<OnceLock<AbortKind>>);

/// One accepted connection.
pub(crate) struct AbortableStream {
    stream: TcpStream,
    aborter: ConnectionAborter,
}

/// The way in which a connection is aborted.
#[derive(Clone, Copy, Debug)]
enum AbortKind {
    /// An orderly end of stream (FIN).
    Close,
    /// A reset (RST), by closing with a linger time of zero.
    Reset,
}

impl AbortableListener {
    pub(crate) fn new(listener: TcpListener) -> Self {
        Self(listener)
    }
}

impl ConnectionAborter {
    /// Closes the connection in an orderly way. No byte of the response is sent.
    pub(crate) fn close(&self) {
        self.0.get_or_init(|| AbortKind::Close);
    }

    /// Resets the connection. No byte of the response is sent.
    pub(crate) fn reset(&self) {
        self.0.get_or_init(|| AbortKind::Reset);
    }
}

impl Listener for AbortableListener {
    type Io = AbortableStream;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (AbortableStream, SocketAddr) {
        let (stream, peer) = Listener::accept(&mut self.0).await;
        // If the option cannot be set, the connection is only slower, so the error is ignored.
        let _ = stream.set_nodelay(true);
        let stream = AbortableStream { stream, aborter: ConnectionAborter::default() };
        (stream, peer)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }
}

impl Connected<IncomingStream<'_, AbortableListener>> for ConnectionAborter {
    fn connect_info(incoming: IncomingStream<'_, AbortableListener>) -> Self {
        incoming.io().aborter.clone()
    }
}

impl AbortableStream {
    /// Fails if the connection was aborted. Hyper then drops the stream. Whether this sends FIN or RST depends on the
    /// linger option of the socket.
    fn check_not_aborted(&self) -> io::Result<()> {
        match self.aborter.0.get() {
            None => Ok(()),
            Some(AbortKind::Close) => Err(io::ErrorKind::ConnectionAborted.into()),
            Some(AbortKind::Reset) => {
                self.stream.set_zero_linger()?;
                Err(io::ErrorKind::ConnectionReset.into())
            }
        }
    }
}

impl AsyncRead for AbortableStream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for AbortableStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.check_not_aborted()?;
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.check_not_aborted()?;
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.check_not_aborted()?;
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.check_not_aborted()?;
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
