//! The MCP client: the backend of EXTERNAL_MCP tools.
//!
//! The server of a provider is a child process, or a remote server with a URL. Connections are opened on demand. Calls
//! with the same provider configuration and the same secrets share a connection. If a server hangs or crashes, only the
//! calls to that server are affected.

mod bounded_http;
mod call;
mod child;
mod connection;
mod handler;
mod http_sse;
mod import;
mod import_names;
mod late_discovery;
mod listing;
mod pool;
mod reply;
mod stderr;
mod stream_first;
mod transport;

use std::sync::Arc;

use futures::future::BoxFuture;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use toolwright_budget::Shares;
use toolwright_engine::MCP_LIST_METHOD;
use toolwright_tools::ToolFailure;
use toolwright_tools::executor::{Attempt, Backend, BackendReply};
use toolwright_tools::http::HttpClient;
use toolwright_types::ErrorCode;

pub(crate) use connection::{challenge, connect_failure, http_failure, is_unauthorized, lifecycle};
pub(crate) use handler::identity;
pub use import::{
    AcceptedTools, Discovery, McpImportError, McpImportReport, McpImportSource, McpImports, SkippedMcpTool,
};
pub(crate) use stream_first::StreamFirstClient;

use listing::IMPORT_CATEGORY;
use pool::ConnectionPool;

/// The error reason of a call that was not made because too many MCP servers run as child processes.
const PROCESS_LIMIT: &str = "process_limit";

/// Options of the client.
pub struct ClientOptions {
    /// The HTTP client, which applies the egress rules.
    pub http: HttpClient,
    /// Whether a provider may specify a command that starts its MCP server as a child process.
    pub stdio: bool,
    /// The maximum numbers of MCP servers that run as child processes.
    pub process_limits: ProcessLimits,
    /// The operating system user that runs the commands. `None` for the user of this process. Only root can set another
    /// user.
    pub command_user: Option<CommandUser>,
}

/// A user of the operating system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CommandUser {
    /// The id of the user.
    pub uid: u32,
    /// The id of the user's group.
    pub gid: u32,
}

/// The maximum numbers of MCP servers that run as child processes.
#[derive(Debug, Clone, Copy)]
pub struct ProcessLimits {
    /// The maximum for one realm.
    pub per_realm: usize,
    /// The maximum for one principal. A child process counts for the principal whose call started it.
    pub per_principal: usize,
}

/// The connections to the MCP servers of providers. Cheap to clone.
#[derive(Clone)]
pub struct Client(Arc<Inner>);

struct Inner {
    http: HttpClient,
    stdio: bool,
    command_user: Option<CommandUser>,
    /// Counts the child processes of each realm and of each principal.
    processes: (Shares, Shares),
    pool: ConnectionPool,
    /// Notified when an MCP server reports that its tools changed.
    changed: Arc<Notify>,
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl Client {
    /// Creates a client without connections.
    pub fn new(options: ClientOptions) -> Self {
        Self(Arc::new(Inner {
            http: options.http,
            stdio: options.stdio,
            command_user: options.command_user,
            processes: (
                Shares::new(options.process_limits.per_realm),
                Shares::new(options.process_limits.per_principal),
            ),
            pool: ConnectionPool::default(),
            changed: Arc::default(),
            tasks: TaskTracker::new(),
            stop: CancellationToken::new(),
        }))
    }

    /// Whether a provider may specify a command that starts its MCP server as a child process.
    pub fn allows_stdio(&self) -> bool {
        self.0.stdio
    }

    /// Closes every connection and ends every child process.
    pub async fn close(&self) {
        self.0.stop.cancel();
        self.0.pool.clear();
        self.0.tasks.close();
        self.0.tasks.wait().await;
    }

    async fn call(&self, attempt: Attempt<'_>) -> Result<BackendReply, ToolFailure> {
        let tool = attempt.tool;
        let provider = tool.provider.as_deref().ok_or_else(|| {
            ToolFailure::invalid("`providerRef` is required for an EXTERNAL_MCP tool").reason("no_provider")
        })?;
        let connection = self.connection(provider, &attempt).await?;
        if is_listing(&attempt) {
            return Ok(BackendReply::from_output(connection.fresh_listing().await?.to_json()));
        }
        let name = tool.definition.invocation.path.as_deref().unwrap_or_else(|| tool.definition.ref_name.as_str());
        connection.listing().await?.check_pin(name, &tool.definition)?;
        let arguments = match attempt.arguments()? {
            serde_json::Value::Object(arguments) => arguments,
            _ => {
                return Err(
                    ToolFailure::invalid("the arguments of an MCP tool must be a JSON object").reason("input_shape")
                );
            }
        };
        connection.call(name, arguments, &attempt).await
    }
}

impl Backend for Client {
    fn attempt<'a>(&'a self, attempt: Attempt<'a>) -> BoxFuture<'a, Result<BackendReply, ToolFailure>> {
        Box::pin(self.call(attempt))
    }
}

/// Whether an attempt lists the tools of the server instead of calling one.
fn is_listing(attempt: &Attempt<'_>) -> bool {
    attempt.tool.definition.invocation.method.as_deref() == Some(MCP_LIST_METHOD)
}

/// Returns the failure for a server that cannot be reached at the moment.
fn unreachable_server(message: impl Into<String>, reason: &str) -> ToolFailure {
    let error = toolwright_types::ToolError::new(ErrorCode::NetworkError, message);
    ToolFailure::from(error.reason(reason))
}
