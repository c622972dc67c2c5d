//! Accepts and serves HTTP connections with a timeout for request headers.
//!
//! `axum::serve` has no such timeout, so a client that never finishes its headers would keep its connection open
//! forever.

use std::time::Duration;

use axum::Router;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// The maximum time for receiving the headers of a request.
const HEADER_READ_TIMEOUT: Duration = Duration::from_secs(15);
/// The delay after a failed accept, which is usually caused by a lack of file descriptors.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);

/// Serves `app` until `stop` is cancelled, then waits for in-flight requests.
pub(crate) async fn serve(listener: TcpListener, app: Router, stop: CancellationToken) {
    let graceful = GracefulShutdown::new();
    let tasks = TaskTracker::new();
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEADER_READ_TIMEOUT);
    builder.http2().timer(TokioTimer::new());
    while let Some(accepted) = stop.run_until_cancelled(listener.accept()).await {
        match accepted {
            Ok((stream, _)) => {
                let connection =
                    builder.serve_connection(configure_stream(stream), TowerToHyperService::new(app.clone()));
                let watched = graceful.watch(connection.into_owned());
                tasks.spawn(async move {
                    // Clients cause broken connections, so an error here is no reason for a warning.
                    if let Err(error) = watched.await {
                        tracing::debug!(%error, "connection closed with an error");
                    }
                });
            }
            Err(error) => {
                tracing::warn!(%error, "failed to accept a connection");
                tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
            }
        }
    }
    drop(listener);
    graceful.shutdown().await;
    tasks.close();
    tasks.wait().await;
}

/// Disables Nagle's algorithm. It would delay a small response until the previous response is acknowledged.
fn configure_stream(stream: TcpStream) -> TokioIo<TcpStream> {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "failed to set TCP_NODELAY");
    }
    TokioIo::new(stream)
}
