//! Accepts and serves HTTP connections, with a limit for their number and deadlines for idle connections.
//!
//! `axum::serve` has neither. A client could keep a connection open forever without sending a request, and enough such
//! connections would use all file descriptors of the server.

mod activity;
mod tracked;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::{Builder, Connection};
use hyper_util::service::TowerToHyperService;
use nix::sys::resource::{Resource, getrlimit};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use activity::Activity;
pub(crate) use activity::Deadlines;
use tracked::{TrackedService, TrackedStream};

/// The delay after a failed accept, which is usually caused by a lack of file descriptors.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);
/// The interval at which the server pings an HTTP/2 client, and how long it waits for the response.
const PING_INTERVAL: Duration = Duration::from_secs(20);
/// The maximum number of concurrent requests on one HTTP/2 connection.
const MAX_CONCURRENT_STREAMS: u32 = 128;
/// How long an expired connection may take to close before it is dropped.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// The limits of connections.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ConnectionLimits {
    /// The maximum number of open connections. When this number is reached, new connections wait in the backlog of the
    /// operating system.
    pub max_connections: usize,
    /// When idle connections are closed.
    pub deadlines: Deadlines,
}

/// Serves `app` until `stop` is cancelled, then waits for in-flight requests.
pub(crate) async fn serve(listener: TcpListener, app: Router, limits: ConnectionLimits, stop: CancellationToken) {
    let tasks = TaskTracker::new();
    let slots = Arc::new(Semaphore::new(within_file_limit(limits.max_connections)));
    let builder = builder(limits.deadlines);
    while let Some(slot) = stop.run_until_cancelled(free_slot(&slots)).await {
        match stop.run_until_cancelled(listener.accept()).await {
            Some(Ok((stream, _))) => {
                let activity = Arc::new(Activity::new(limits.deadlines));
                let service = TrackedService::new(app.clone(), Arc::clone(&activity));
                let stream = TokioIo::new(TrackedStream::new(configure_stream(stream), Arc::clone(&activity)));
                let connection = builder.serve_connection(stream, TowerToHyperService::new(service)).into_owned();
                let stop = stop.clone();
                tasks.spawn(async move {
                    serve_connection(connection, &activity, &stop).await;
                    drop(slot);
                });
            }
            Some(Err(error)) => {
                tracing::warn!(%error, "failed to accept a connection");
                tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
            }
            None => break,
        }
    }
    drop(listener);
    tasks.close();
    tasks.wait().await;
}

fn builder(deadlines: Deadlines) -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(deadlines.idle);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_INTERVAL)
        .max_concurrent_streams(MAX_CONCURRENT_STREAMS);
    builder
}

/// Limits `max_connections` to half of the number of files that this process may open. The other half is for the
/// database, for requests to other systems and for worker processes.
fn within_file_limit(max_connections: usize) -> usize {
    let Ok((files, _)) = getrlimit(Resource::RLIMIT_NOFILE) else { return max_connections };
    let available = usize::try_from(files / 2).unwrap_or(usize::MAX).max(1);
    if available < max_connections {
        tracing::warn!(
            max_connections,
            available,
            "the limit of open files allows fewer connections than `http.max_connections`; raise `ulimit -n`"
        );
    }
    max_connections.min(available).min(Semaphore::MAX_PERMITS)
}

/// Waits until a connection may be accepted.
async fn free_slot(slots: &Arc<Semaphore>) -> Option<OwnedSemaphorePermit> {
    if let Ok(slot) = Arc::clone(slots).try_acquire_owned() {
        return Some(slot);
    }
    tracing::warn!("`http.max_connections` connections are open; new connections wait until one is closed");
    Arc::clone(slots).acquire_owned().await.ok()
}

type HttpConnection =
    Connection<'static, TokioIo<TrackedStream<TcpStream>>, TowerToHyperService<TrackedService>, TokioExecutor>;

/// Serves one connection until the client closes it, its deadline passes, or the server stops and its requests have
/// ended.
async fn serve_connection(connection: HttpConnection, activity: &Activity, stop: &CancellationToken) {
    let mut connection = std::pin::pin!(connection);
    let mut stopping = false;
    loop {
        let expired = tokio::select! {
            ended = connection.as_mut() => {
                // Clients cause broken connections, so an error here is no reason for a warning.
                if let Err(error) = ended {
                    tracing::debug!(%error, "connection closed with an error");
                }
                return;
            }
            () = stop.cancelled(), if !stopping => {
                stopping = true;
                connection.as_mut().graceful_shutdown();
                continue;
            }
            () = tokio::time::sleep_until(activity.deadline()) => activity.is_expired(),
        };
        if expired {
            // The graceful shutdown tells the client not to send another request. Dropping the connection would not.
            connection.as_mut().graceful_shutdown();
            if tokio::time::timeout(CLOSE_TIMEOUT, connection.as_mut()).await.is_ok() || activity.is_expired() {
                tracing::debug!("closed an idle connection");
                return;
            }
        }
    }
}

/// Disables Nagle's algorithm. It would delay a small response until the previous response is acknowledged.
fn configure_stream(stream: TcpStream) -> TcpStream {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "failed to set TCP_NODELAY");
    }
    stream
}
