//! The MCP client: the backend of EXTERNAL_MCP tools.
//!
//! A provider's server is a child process or a place in the network; connections are made when they are needed and shared
//! by the calls that may share them. A server that hangs or dies hurts the calls to it and nothing else.

mod answers;
mod connection;
mod following;
mod import;
mod listening;
mod listing;
mod reply;
mod slots;
mod transport;

use std::sync::Arc;

use futures::future::BoxFuture;
use serde_json::json;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use toolwright_tools::ToolFailure;
use toolwright_tools::executor::{Attempt, Backend, Reply};
use toolwright_tools::http::HttpClient;
use toolwright_types::ErrorCode;

pub(crate) use answers::identity;
pub(crate) use connection::{challenge, is_refused, lifecycle};
pub use import::{Accepted, Discovered, ImportError, Imported, Imports, Skipped, Source};
pub(crate) use listening::Listening;

use listing::{ADDED_BY, LIST};
use slots::Slots;

/// What the client may do.
pub struct ClientOptions {
    /// How it reaches the network.
    pub http: HttpClient,
    /// Whether providers may be commands that are run on this machine.
    pub stdio: bool,
}

/// Connections to the MCP servers of providers. Cheap to clone.
#[derive(Clone)]
pub struct Client(Arc<Inner>);

struct Inner {
    http: HttpClient,
    stdio: bool,
    slots: Slots,
    /// Woken when a server says that its tools have changed.
    changed: Arc<Notify>,
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl Client {
    /// A client without connections.
    pub fn new(options: ClientOptions) -> Self {
        Self(Arc::new(Inner {
            http: options.http,
            stdio: options.stdio,
            slots: Slots::default(),
            changed: Arc::default(),
            tasks: TaskTracker::new(),
            stop: CancellationToken::new(),
        }))
    }

    /// Whether providers may be commands that are run on this machine.
    pub fn runs_commands(&self) -> bool {
        self.0.stdio
    }

    /// Ends every connection and every child process.
    pub async fn close(&self) {
        self.0.stop.cancel();
        self.0.slots.clear();
        self.0.tasks.close();
        self.0.tasks.wait().await;
    }

    async fn call(&self, attempt: Attempt<'_>) -> Result<Reply, ToolFailure> {
        let tool = attempt.tool;
        let provider = tool
            .provider
            .as_deref()
            .ok_or_else(|| ToolFailure::invalid("an EXTERNAL_MCP tool needs a `providerRef`").reason("no_provider"))?;
        let connection = self.connection(provider, &attempt).await?;
        if tool.definition.invocation.method.as_deref() == Some(LIST) {
            return Ok(Reply::of(json!({ "tools": connection.fresh_listing().await?.described() })));
        }
        let name = tool.definition.invocation.path.as_deref().unwrap_or_else(|| tool.definition.ref_name.as_str());
        connection.listing().await?.admit(name, &tool.definition)?;
        let arguments = match attempt.arguments()? {
            serde_json::Value::Object(arguments) => arguments,
            _ => return Err(ToolFailure::invalid("the arguments of an MCP tool are an object").reason("input_shape")),
        };
        connection.call(name, arguments, &attempt).await
    }
}

impl Backend for Client {
    fn attempt<'a>(&'a self, attempt: Attempt<'a>) -> BoxFuture<'a, Result<Reply, ToolFailure>> {
        Box::pin(self.call(attempt))
    }
}

/// A server that cannot be reached now.
fn unreachable(message: impl Into<String>, reason: &str) -> ToolFailure {
    let error = toolwright_types::ToolError::new(ErrorCode::NetworkError, message);
    ToolFailure::from(error.reason(reason))
}
