//! Starting and stopping a system. What it serves is the business of the system's own module.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use tokio::net::TcpListener;
use tokio::task::AbortHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::audit::{Audit, Audited};
use crate::wire::{Cut, Wire};

/// The address to start a fixture on when nothing else is asked for: loopback, any free port.
pub const LOOPBACK: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0));

/// How long requests under way may go on after [`Handle::shutdown`].
const GRACE: Duration = Duration::from_secs(2);

/// A running system: where it listens, what it saw, and how to stop it.
///
/// Clones refer to the same system. Dropping a handle does not stop the system; [`Handle::shutdown`] does.
pub struct Handle<S> {
    addr: SocketAddr,
    pub(crate) system: Arc<S>,
    shutdown: CancellationToken,
    tasks: TaskTracker,
    server: AbortHandle,
}

impl<S> Handle<S> {
    /// The address that was bound, with the real port.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The address as a URL without a trailing slash, e.g. `http://127.0.0.1:40123`.
    pub fn base_url(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// The URL of one path, which starts with `/`.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.addr)
    }

    /// Stops accepting, lets requests under way finish for up to two seconds, and returns when the port is free.
    pub async fn shutdown(&self) {
        self.shutdown.cancel();
        if tokio::time::timeout(GRACE, self.tasks.wait()).await.is_err() {
            self.server.abort();
            self.tasks.wait().await;
        }
    }
}

impl<S: Audited> Handle<S> {
    /// How many records were changed since the start.
    pub fn writes(&self) -> u64 {
        self.audit().writes
    }

    /// What `GET /audit` answers, without the detour over HTTP.
    pub fn audit(&self) -> Audit {
        self.system.audit()
    }
}

impl<S> Clone for Handle<S> {
    fn clone(&self) -> Self {
        Self {
            addr: self.addr,
            system: Arc::clone(&self.system),
            shutdown: self.shutdown.clone(),
            tasks: self.tasks.clone(),
            server: self.server.clone(),
        }
    }
}

impl<S> std::fmt::Debug for Handle<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Handle").field("addr", &self.addr).finish_non_exhaustive()
    }
}

/// Binds and serves `app` until `shutdown` is cancelled.
pub(crate) async fn start<S>(
    bind: SocketAddr,
    system: Arc<S>,
    app: Router,
    shutdown: CancellationToken,
) -> Result<Handle<S>, io::Error> {
    let listener = TcpListener::bind(bind).await?;
    let addr = listener.local_addr()?;
    let serve = axum::serve(Wire::new(listener), app.into_make_service_with_connect_info::<Cut>())
        .with_graceful_shutdown(shutdown.clone().cancelled_owned());

    let tasks = TaskTracker::new();
    let server = tasks.spawn(async move { serve.await }).abort_handle();
    tasks.close();
    Ok(Handle { addr, system, shutdown, tasks, server })
}
