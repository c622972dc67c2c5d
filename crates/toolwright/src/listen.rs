//! Accepts connections and serves them, each under a deadline for its first words.
//!
//! `axum::serve` does the same without one: a client that never finishes its headers would hold a connection for ever.

use std::time::Duration;

use axum::Router;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// How long the headers of a request may take to arrive.
const HEADER_PATIENCE: Duration = Duration::from_secs(15);
/// A pause after a failed accept, which is mostly a lack of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves `app` until `stop`, then lets the requests under way finish.
pub async fn serve(listener: TcpListener, app: Router, stop: CancellationToken) {
    let graceful = GracefulShutdown::new();
    let tasks = TaskTracker::new();
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEADER_PATIENCE);
    builder.http2().timer(TokioTimer::new());
    while let Some(accepted) = stop.run_until_cancelled(listener.accept()).await {
        match accepted {
            Ok((stream, _)) => {
                let connection = builder.serve_connection(prepared(stream), TowerToHyperService::new(app.clone()));
                let watched = graceful.watch(connection.into_owned());
                tasks.spawn(async move {
                    // A connection that breaks is the client's affair.
                    if let Err(error) = watched.await {
                        tracing::debug!(%error, "a connection ended early");
                    }
                });
            }
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    drop(listener);
    graceful.shutdown().await;
    tasks.close();
    tasks.wait().await;
}

/// Small answers must not wait for the acknowledgement of the last.
fn prepared(stream: TcpStream) -> TokioIo<TcpStream> {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "TCP_NODELAY could not be set");
    }
    TokioIo::new(stream)
}
