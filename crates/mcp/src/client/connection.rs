//! A connection to one MCP server.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rmcp::model::{CallToolRequestParams, JsonObject, PaginatedRequestParams, ProtocolVersion};
use rmcp::service::{ClientCacheConfig, ClientInitializeError, RunningService, ServiceError};
use rmcp::transport::IntoTransport;
use rmcp::transport::streamable_http_client::{AuthRequiredError, InsufficientScopeError, StreamableHttpError};
use rmcp::{ClientLifecycleMode, RoleClient, serve_client_with_lifecycle};
use tokio::sync::{Mutex, Notify};
use tokio::time::Instant;
use toolwright_tools::ToolFailure;
use toolwright_tools::executor::{Attempt, Reply};
use toolwright_tools::http::Refused;
use toolwright_types::{ErrorCode, ToolError};

use super::answers::Answers;
use super::following::{self, Followed};
use super::listing::{Listing, MOST_TOOLS};
use super::{reply, unreachable};

/// How old what a server says about its tools may be when one of them is called.
const FRESH: Duration = Duration::from_secs(60);
/// More pages than this are not turned.
const MOST_PAGES: usize = 200;

/// A connection that calls share.
pub(super) struct Connection {
    service: RunningService<RoleClient, Answers>,
    stale: Arc<AtomicBool>,
    /// Whether it is of no use although it is open.
    spoiled: AtomicBool,
    listing: Mutex<Option<(Instant, Arc<Listing>)>>,
    born: Instant,
}

impl Connection {
    /// Connects, with the newest version of the protocol that both know.
    pub async fn open<T, E, A>(transport: T, changed: Arc<Notify>) -> Result<Self, ToolFailure>
    where
        T: IntoTransport<RoleClient, E, A>,
        E: std::error::Error + Send + Sync + 'static,
    {
        let stale = Arc::new(AtomicBool::new(false));
        let answers = Answers { stale: Arc::clone(&stale), changed, followed: Followed::default() };
        let service = serve_client_with_lifecycle(answers, transport, lifecycle()).await.map_err(not_connected)?;
        // How long a listing counts is decided here, not by the server that it is held against.
        service.peer().set_response_cache_config(ClientCacheConfig::disabled()).await;
        Ok(Self { service, stale, spoiled: AtomicBool::new(false), listing: Mutex::default(), born: Instant::now() })
    }

    pub fn is_closed(&self) -> bool {
        self.spoiled.load(Ordering::Acquire) || self.service.is_closed() || self.service.peer().is_transport_closed()
    }

    pub fn age(&self) -> Duration {
        self.born.elapsed()
    }

    /// What the server said about its tools not long ago.
    pub async fn listing(&self) -> Result<Arc<Listing>, ToolFailure> {
        let mut kept = self.listing.lock().await;
        if let Some((at, listing)) = kept.as_ref()
            && at.elapsed() < FRESH
            && !self.stale.load(Ordering::Acquire)
        {
            return Ok(Arc::clone(listing));
        }
        // Before the server is asked: what it changes meanwhile makes the listing stale again.
        self.stale.store(false, Ordering::Release);
        let listing = Arc::new(self.list().await?);
        *kept = Some((Instant::now(), Arc::clone(&listing)));
        Ok(listing)
    }

    /// What the server says about its tools now.
    pub async fn fresh_listing(&self) -> Result<Arc<Listing>, ToolFailure> {
        self.stale.store(true, Ordering::Release);
        self.listing().await
    }

    async fn list(&self) -> Result<Listing, ToolFailure> {
        let mut tools = Vec::new();
        let mut wanted = PaginatedRequestParams::default();
        for _ in 0..MOST_PAGES {
            let page = self.service.peer().list_tools(Some(wanted)).await;
            let page = page.map_err(|error| self.failed(error))?;
            tools.extend(page.tools);
            match page.next_cursor {
                Some(next) if tools.len() <= MOST_TOOLS => {
                    wanted = PaginatedRequestParams::default().with_cursor(Some(next));
                }
                _ => return Listing::new(tools),
            }
        }
        let message = format!("the server's list of tools has more than {MOST_PAGES} pages");
        Err(ToolFailure::fatal(ErrorCode::ProviderError, message).reason("too_many_tools"))
    }

    /// Calls a tool.
    pub async fn call(&self, name: &str, arguments: JsonObject, attempt: &Attempt<'_>) -> Result<Reply, ToolFailure> {
        let request = CallToolRequestParams::new(name.to_owned()).with_arguments(arguments);
        let result = following::call(&self.service, request, |step| attempt.tell(step)).await;
        reply::of_result(result.map_err(|error| self.failed(error))?)
    }

    /// What a request that got no result means. The words of transports may hold addresses and stay in the log.
    fn failed(&self, error: ServiceError) -> ToolFailure {
        match error {
            ServiceError::McpError(said) => {
                let code = said.code.0;
                let error = ToolError::new(ErrorCode::ProviderError, said.message).reason("mcp_error");
                ToolFailure { retryable: false, ..error.detail("code", code).into() }
            }
            ServiceError::TransportSend(cause) => {
                self.spoiled.store(true, Ordering::Release);
                tracing::warn!(error = %cause, "an MCP server cannot be sent to");
                if challenge(cause.error.as_ref()).is_some() {
                    return not_authorized();
                }
                of_cause(cause.error.as_ref()).unwrap_or_else(lost)
            }
            ServiceError::TransportClosed | ServiceError::Cancelled { .. } => {
                self.spoiled.store(true, Ordering::Release);
                lost()
            }
            ServiceError::Timeout { .. } => ToolError::new(ErrorCode::Timeout, "the MCP server did not answer").into(),
            other => ToolFailure::fatal(ErrorCode::ProviderError, other.to_string()).reason("mcp_protocol"),
        }
    }
}

/// The newest version first; a server that does not know it is greeted as older ones want it.
pub(crate) fn lifecycle() -> ClientLifecycleMode {
    let preferred_versions = ProtocolVersion::KNOWN_VERSIONS.iter().rev().cloned().collect();
    ClientLifecycleMode::Auto { preferred_versions, legacy_version: None }
}

fn not_connected(error: ClientInitializeError) -> ToolFailure {
    tracing::warn!(%error, "an MCP server cannot be connected to");
    if error.is_authorization_required() {
        return not_authorized();
    }
    if let Some(failure) = cause(&error).and_then(of_cause) {
        return failure;
    }
    match error {
        ClientInitializeError::JsonRpcError(said) => {
            let message = format!("the MCP server refuses to begin: {}", said.message);
            ToolFailure::fatal(ErrorCode::ProviderError, message).reason("mcp_protocol")
        }
        ClientInitializeError::NoCompatibleProtocolVersion { .. } => {
            let message = "the MCP server speaks no version of the protocol that is known here";
            ToolFailure::fatal(ErrorCode::ProviderError, message).reason("mcp_version")
        }
        _ => unreachable("the MCP server cannot be reached, or does not speak the protocol", "connect"),
    }
}

/// What the transport said; it is not among the sources of the error.
fn cause(error: &ClientInitializeError) -> Option<&(dyn std::error::Error + 'static)> {
    match error {
        ClientInitializeError::TransportError { error, .. } => Some(error.error.as_ref()),
        ClientInitializeError::LegacyFallbackFailed { discover, fallback } => {
            cause(fallback).or_else(|| cause(discover))
        }
        _ => None,
    }
}

/// What is behind a failure of HTTP, where that says more than that there was one.
fn of_cause(error: &(dyn std::error::Error + 'static)) -> Option<ToolFailure> {
    let mut causes = std::iter::successors(Some(error), |cause| cause.source());
    match causes.find_map(|cause| cause.downcast_ref::<StreamableHttpError<reqwest::Error>>())? {
        StreamableHttpError::Client(error) => {
            let mut causes = std::iter::successors(std::error::Error::source(error), |cause| cause.source());
            let refused = causes.find_map(|cause| cause.downcast_ref::<Refused>())?;
            Some(ToolFailure::fatal(ErrorCode::PolicyDenied, refused.to_string()).reason("egress"))
        }
        StreamableHttpError::HttpStatus(answer) => {
            let after = answer.retry_after.as_deref().and_then(|text| text.trim().parse().ok());
            let mut failure = ToolFailure::retry(format!("the MCP server answered {}", answer.status), None);
            if answer.status == 429 {
                failure.error.code = ErrorCode::RateLimit;
            }
            failure.error.retry_after_s = after;
            failure.http_status = Some(answer.status);
            Some(failure)
        }
        error if is_refused(error) => Some(not_authorized()),
        _ => None,
    }
}

/// Whether a server does not let us in, be it without a word about what it wants.
pub(crate) fn is_refused(error: &StreamableHttpError<reqwest::Error>) -> bool {
    match error {
        StreamableHttpError::AuthRequired(_) | StreamableHttpError::InsufficientScope(_) => true,
        StreamableHttpError::UnexpectedServerResponse(said) => {
            ["HTTP 401", "HTTP 403"].iter().any(|status| said.starts_with(status))
        }
        _ => false,
    }
}

/// What a server wants to know, where that is behind a failure.
pub(crate) fn challenge(error: &(dyn std::error::Error + 'static)) -> Option<String> {
    std::iter::successors(Some(error), |cause| cause.source()).find_map(|cause| {
        let required = cause.downcast_ref::<AuthRequiredError>().map(|error| error.www_authenticate_header.clone());
        let scope = cause.downcast_ref::<InsufficientScopeError>().map(|error| error.www_authenticate_header.clone());
        required.or(scope)
    })
}

fn not_authorized() -> ToolFailure {
    let message = "the MCP server wants other credentials than those of the provider's `auth`";
    ToolFailure::fatal(ErrorCode::AuthRequired, message).reason("mcp_auth")
}

fn lost() -> ToolFailure {
    unreachable("the connection to the MCP server was lost", "connection_lost")
}
