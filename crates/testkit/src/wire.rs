//! The TCP side of every system: connections without Nagle's delay, which a handler may cut.
//!
//! Cutting is how [`crate::faults`] closes or resets a connection for real on its ordinary port: the handler
//! marks the connection, and the first attempt to write the reply ends it.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use axum::extract::connect_info::Connected;
use axum::serve::{IncomingStream, Listener};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};

/// Accepts the connections of one system.
pub(crate) struct Wire(TcpListener);

/// Lets a handler end its own connection instead of answering.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cut(Arc<OnceLock<Ending>>);

/// One accepted connection.
pub(crate) struct Line {
    stream: TcpStream,
    cut: Cut,
}

/// How a connection ends that is cut.
#[derive(Clone, Copy, Debug)]
enum Ending {
    /// An orderly end of stream (FIN).
    Close,
    /// A reset (RST), by closing with a linger time of zero.
    Reset,
}

impl Wire {
    pub(crate) fn new(listener: TcpListener) -> Self {
        Self(listener)
    }
}

impl Cut {
    /// Ends the connection with an orderly close; nothing of the reply is sent.
    pub(crate) fn close(&self) {
        self.0.get_or_init(|| Ending::Close);
    }

    /// Ends the connection with a reset; nothing of the reply is sent.
    pub(crate) fn reset(&self) {
        self.0.get_or_init(|| Ending::Reset);
    }
}

impl Listener for Wire {
    type Io = Line;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Line, SocketAddr) {
        let (stream, peer) = Listener::accept(&mut self.0).await;
        // A connection that cannot have the option still works, only slower.
        let _ = stream.set_nodelay(true);
        let line = Line { stream, cut: Cut::default() };
        (line, peer)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }
}

impl Connected<IncomingStream<'_, Wire>> for Cut {
    fn connect_info(incoming: IncomingStream<'_, Wire>) -> Self {
        incoming.io().cut.clone()
    }
}

impl Line {
    /// Fails once the connection is cut; hyper then drops it, and the socket's options decide how it ends.
    fn check(&self) -> io::Result<()> {
        match self.cut.0.get() {
            None => Ok(()),
            Some(Ending::Close) => Err(io::ErrorKind::ConnectionAborted.into()),
            Some(Ending::Reset) => {
                self.stream.set_zero_linger()?;
                Err(io::ErrorKind::ConnectionReset.into())
            }
        }
    }
}

impl AsyncRead for Line {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Line {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.check()?;
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.check()?;
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.check()?;
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.check()?;
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
