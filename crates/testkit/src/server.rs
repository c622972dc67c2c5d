//! Starts and stops a fixture system. The routes are defined in the module of each system.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use tokio::net::TcpListener;
use tokio::task::AbortHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::abortable::{AbortableListener, ConnectionAborter};
use crate::audit::{Audit, Audited};

/// The default bind address of a fixture system: loopback with any free port.
pub const LOOPBACK: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0));

/// How long pending requests may take after [`Handle::shutdown`].
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(2);

/// A handle to a running fixture system. It returns the address and the audit, and can shut the system down.
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
    /// The address that the system listens on, with the actual port.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The address as a URL without a trailing slash, e.g. `http://127.0.0.1:40123`.
    pub fn base_url(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// The URL of a path, which must start with `/`.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.addr)
    }

    /// Stops accepting connections, waits up to two seconds for pending requests, and returns when the port is free.
    pub async fn shutdown(&self) {
        self.shutdown.cancel();
        if tokio::time::timeout(SHUTDOWN_TIMEOUT, self.tasks.wait()).await.is_err() {
            self.server.abort();
            self.tasks.wait().await;
        }
    }
}

impl<S: Audited> Handle<S> {
    /// The number of record changes since the start.
    pub fn writes(&self) -> u64 {
        self.audit().writes
    }

    /// The audit, as `GET /audit` returns it.
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

/// Binds the address and serves `app` until `shutdown` is cancelled.
pub(crate) async fn start<S>(
    bind: SocketAddr,
    system: Arc<S>,
    app: Router,
    shutdown: CancellationToken,
) -> Result<Handle<S>, io::Error> {
    let listener = TcpListener::bind(bind).await?;
    let addr = listener.local_addr()?;
    let serve =
        axum::serve(AbortableListener::new(listener), app.into_make_service_with_connect_info::<ConnectionAborter>())
            .with_graceful_shutdown(shutdown.clone().cancelled_owned());

    let tasks = TaskTracker::new();
    let server = tasks.spawn(async move { serve.await }).abort_handle();
    tasks.close();
    Ok(Handle { addr, system, shutdown, tasks, server })
}
