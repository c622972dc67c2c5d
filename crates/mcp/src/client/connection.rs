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
use toolwright_budget::{LimitExceeded, Share};
use toolwright_tools::ToolFailure;
use toolwright_tools::executor::{Attempt, BackendReply, Redactor};
use toolwright_tools::http::EgressDenied;
use toolwright_types::{ErrorCode, ToolError};

use super::call::{self, ProgressSubscriptions};
use super::handler::PeerHandler;
use super::listing::{Listing, MAX_TOOLS};
use super::{reply, unreachable_server};
use crate::{correlation, hops};

/// How long a listing of the server's tools is used before it is fetched again.
const LISTING_TTL: Duration = Duration::from_secs(60);
/// The largest number of pages of one listing.
const MAX_PAGES: usize = 200;

/// The error of a connection that could not be opened.
pub(super) struct OpenError {
    pub failure: ToolFailure,
    /// Whether the server closed the connection before it answered.
    pub disconnected: bool,
}

impl From<OpenError> for ToolFailure {
    fn from(error: OpenError) -> Self {
        error.failure
    }
}

/// A connection that several calls share.
pub(super) struct Connection {
    service: RunningService<RoleClient, PeerHandler>,
    stale: Arc<AtomicBool>,
    /// Whether the connection has failed although its transport is still open.
    broken: AtomicBool,
    listing: Mutex<Option<(Instant, Arc<Listing>)>>,
    opened_at: Instant,
    /// Redacts the secrets of the connection in logged errors.
    redactor: Redactor,
    /// Counts the child process against the limits of its realm and its principal. `None` if the server is not a child
    /// process.
    _shares: Option<[Share; 2]>,
}

impl Connection {
    /// Connects with the given handshake.
    pub(super) async fn open<T, E, A>(
        lifecycle: ClientLifecycleMode,
        transport: T,
        changed: Arc<Notify>,
        redactor: Redactor,
    ) -> Result<Self, OpenError>
    where
        T: IntoTransport<RoleClient, E, A>,
        E: std::error::Error + Send + Sync + 'static,
    {
        let stale = Arc::new(AtomicBool::new(false));
        let handler = PeerHandler { stale: Arc::clone(&stale), changed, progress: ProgressSubscriptions::default() };
        let service = serve_client_with_lifecycle(handler, transport, lifecycle).await;
        let service = service.map_err(|error| {
            let disconnected = is_disconnected(&error);
            OpenError { failure: connect_failure(error, &redactor), disconnected }
        })?;
        // rmcp's response cache is disabled, because the server decides how long responses stay in that cache. The
        // listing must be fresh, because it is used to check the server.
        service.peer().set_response_cache_config(ClientCacheConfig::disabled()).await;
        Ok(Self {
            service,
            stale,
            broken: AtomicBool::new(false),
            listing: Mutex::default(),
            opened_at: Instant::now(),
            redactor,
            _shares: None,
        })
    }

    /// Counts the child process against the limits of its realm and its principal until the connection is dropped.
    pub(super) fn holding(self, shares: [Share; 2]) -> Self {
        Self { _shares: Some(shares), ..self }
    }

    pub(super) fn is_closed(&self) -> bool {
        self.broken.load(Ordering::Acquire) || self.service.is_closed() || self.service.peer().is_transport_closed()
    }

    pub(super) fn age(&self) -> Duration {
        self.opened_at.elapsed()
    }

    /// Returns the server's tools, at most [`LISTING_TTL`] old.
    pub(super) async fn listing(&self) -> Result<Arc<Listing>, ToolFailure> {
        let mut cached = self.listing.lock().await;
        if let Some((fetched_at, listing)) = cached.as_ref()
            && fetched_at.elapsed() < LISTING_TTL
            && !self.stale.load(Ordering::Acquire)
        {
            return Ok(Arc::clone(listing));
        }
        // The flag is cleared before the request, so that a change during the request sets it again.
        self.stale.store(false, Ordering::Release);
        let listing = Arc::new(self.list().await?);
        *cached = Some((Instant::now(), Arc::clone(&listing)));
        Ok(listing)
    }

    /// Fetches the server's tools.
    pub(super) async fn fresh_listing(&self) -> Result<Arc<Listing>, ToolFailure> {
        self.stale.store(true, Ordering::Release);
        self.listing().await
    }

    async fn list(&self) -> Result<Listing, ToolFailure> {
        let (mut tools, mut deployment) = (Vec::new(), None);
        let mut params = PaginatedRequestParams::default();
        for _ in 0..MAX_PAGES {
            let page = self.service.peer().list_tools(Some(params)).await;
            let page = page.map_err(|error| self.request_failure(error))?;
            tools.extend(page.tools);
            deployment = deployment.or_else(|| page.meta?.get(hops::DEPLOYMENT_META_KEY)?.as_str().map(str::to_owned));
            match page.next_cursor {
                Some(next) if tools.len() <= MAX_TOOLS => {
                    params = PaginatedRequestParams::default().with_cursor(Some(next));
                }
                _ => return Listing::new(tools, deployment),
            }
        }
        let message = format!("the server's list of tools must have at most {MAX_PAGES} pages");
        Err(ToolFailure::fatal(ErrorCode::ProviderError, message).reason("too_many_tools"))
    }

    /// Calls a tool.
    pub(super) async fn call(
        &self,
        name: &str,
        arguments: JsonObject,
        attempt: &Attempt<'_>,
    ) -> Result<BackendReply, ToolFailure> {
        let mut request = CallToolRequestParams::new(name.to_owned()).with_arguments(arguments);
        let mut meta = hops::next_meta(attempt.cx.hops)?;
        correlation::add_to(&mut meta, attempt.cx);
        request.meta = Some(meta);
        let result = call::call_tool(&self.service, request, |update| attempt.report_progress(update)).await;
        reply::from_result(result.map_err(|error| self.request_failure(error))?)
    }

    /// Converts a failed request to a tool failure. Transport errors may contain addresses, so their text is logged and
    /// not returned.
    fn request_failure(&self, error: ServiceError) -> ToolFailure {
        match error {
            ServiceError::McpError(error) => {
                let code = error.code.0;
                let error = ToolError::new(ErrorCode::ProviderError, error.message).reason("mcp_error");
                ToolFailure { retryable: false, ..error.detail("code", code).into() }
            }
            ServiceError::TransportSend(cause) => {
                self.broken.store(true, Ordering::Release);
                let error = redacted(&cause, &self.redactor);
                tracing::warn!(error, "request to an MCP server failed");
                if challenge(cause.error.as_ref()).is_some() {
                    return not_authorized();
                }
                http_failure(cause.error.as_ref()).unwrap_or_else(connection_lost)
            }
            ServiceError::TransportClosed | ServiceError::Cancelled { .. } => {
                self.broken.store(true, Ordering::Release);
                connection_lost()
            }
            ServiceError::Timeout { .. } => {
                ToolError::new(ErrorCode::Timeout, "the MCP server did not answer in time").into()
            }
            other => ToolFailure::fatal(ErrorCode::ProviderError, other.to_string()).reason("mcp_protocol"),
        }
    }
}

/// Tries the newest protocol version first, then the handshake of older versions.
pub(crate) fn lifecycle() -> ClientLifecycleMode {
    let preferred_versions = ProtocolVersion::KNOWN_VERSIONS.iter().rev().cloned().collect();
    ClientLifecycleMode::Auto { preferred_versions, legacy_version: None }
}

/// Returns the text of an error for the log.
fn redacted(error: &impl std::fmt::Display, redactor: &Redactor) -> String {
    let mut text = error.to_string();
    redactor.text(&mut text);
    text
}

/// Returns the failure of a transport that could not be opened.
pub(super) fn open_failure(error: &StreamableHttpError<reqwest::Error>, redactor: &Redactor) -> ToolFailure {
    tracing::warn!(error = redacted(error, redactor), "connection to an MCP server failed");
    http_failure(error).unwrap_or_else(|| match error {
        StreamableHttpError::UnexpectedServerResponse(message) => ToolFailure::fatal(
            ErrorCode::ProviderError,
            format!("the MCP server did not open an event stream: {message}"),
        )
        .reason("mcp_protocol"),
        _ => not_reachable(),
    })
}

fn not_reachable() -> ToolFailure {
    unreachable_server("the MCP server cannot be reached, or does not speak MCP", "connect")
}

/// Returns the tool failure for a connection that could not be opened. The message does not contain the error text of
/// rmcp.
pub(crate) fn connect_failure(error: ClientInitializeError, redactor: &Redactor) -> ToolFailure {
    tracing::warn!(error = redacted(&error, redactor), "connection to an MCP server failed");
    if error.is_authorization_required() {
        return not_authorized();
    }
    if let Some(failure) = transport_error(&error).and_then(http_failure) {
        return failure;
    }
    match error {
        ClientInitializeError::JsonRpcError(error) => {
            let message = format!("the MCP server rejected the initialization: {}", error.message);
            ToolFailure::fatal(ErrorCode::ProviderError, message).reason("mcp_protocol")
        }
        ClientInitializeError::NoCompatibleProtocolVersion { .. } => {
            let message = "the MCP server supports none of the protocol versions of this client";
            ToolFailure::fatal(ErrorCode::ProviderError, message).reason("mcp_version")
        }
        _ => not_reachable(),
    }
}

/// Whether the server closed the connection instead of answering.
fn is_disconnected(error: &ClientInitializeError) -> bool {
    match error {
        ClientInitializeError::ConnectionClosed(_) | ClientInitializeError::TransportError { .. } => true,
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => is_disconnected(fallback),
        _ => false,
    }
}

/// Returns the transport error. It must be extracted explicitly, because it is not part of the error's source chain.
fn transport_error(error: &ClientInitializeError) -> Option<&(dyn std::error::Error + 'static)> {
    match error {
        ClientInitializeError::TransportError { error, .. } => Some(error.error.as_ref()),
        ClientInitializeError::LegacyFallbackFailed { discover, fallback } => {
            transport_error(fallback).or_else(|| transport_error(discover))
        }
        _ => None,
    }
}

/// Returns the failure for an HTTP error with a known cause: a violated egress rule, an HTTP status, or missing
/// authorization.
pub(crate) fn http_failure(error: &(dyn std::error::Error + 'static)) -> Option<ToolFailure> {
    let mut causes = std::iter::successors(Some(error), |cause| cause.source());
    match causes.find_map(|cause| cause.downcast_ref::<StreamableHttpError<reqwest::Error>>())? {
        StreamableHttpError::Client(error) => {
            let mut causes = std::iter::successors(std::error::Error::source(error), |cause| cause.source());
            let denied = causes.find_map(|cause| cause.downcast_ref::<EgressDenied>())?;
            Some(ToolFailure::fatal(ErrorCode::PolicyDenied, denied.to_string()).reason("egress"))
        }
        StreamableHttpError::Io(error) => {
            let limit = error.get_ref()?.downcast_ref::<LimitExceeded>()?;
            Some(ToolFailure::fatal(ErrorCode::ProviderError, limit.to_string()).reason("response_too_large"))
        }
        StreamableHttpError::HttpStatus(response) => {
            let retry_after = response.retry_after.as_deref().and_then(|text| text.trim().parse().ok());
            let mut failure = ToolFailure::retry(format!("the MCP server answered {}", response.status), None);
            if response.status == 429 {
                failure.error.code = ErrorCode::RateLimit;
            }
            failure.error.retry_after_s = retry_after;
            failure.http_status = Some(response.status);
            Some(failure)
        }
        error if is_unauthorized(error) => Some(not_authorized()),
        _ => None,
    }
}

/// Whether the server rejected the credentials, with or without a `WWW-Authenticate` challenge.
pub(crate) fn is_unauthorized(error: &StreamableHttpError<reqwest::Error>) -> bool {
    match error {
        StreamableHttpError::AuthRequired(_) | StreamableHttpError::InsufficientScope(_) => true,
        StreamableHttpError::UnexpectedServerResponse(error) => {
            ["HTTP 401", "HTTP 403"].iter().any(|status| error.starts_with(status))
        }
        _ => false,
    }
}

/// Returns the `WWW-Authenticate` challenge that caused an error.
pub(crate) fn challenge(error: &(dyn std::error::Error + 'static)) -> Option<String> {
    std::iter::successors(Some(error), |cause| cause.source()).find_map(|cause| {
        let required = cause.downcast_ref::<AuthRequiredError>().map(|error| error.www_authenticate_header.clone());
        let scope = cause.downcast_ref::<InsufficientScopeError>().map(|error| error.www_authenticate_header.clone());
        required.or(scope)
    })
}

fn not_authorized() -> ToolFailure {
    let message = "the MCP server rejected the credentials; check `auth` of the provider";
    ToolFailure::fatal(ErrorCode::AuthRequired, message).reason("mcp_auth")
}

fn connection_lost() -> ToolFailure {
    unreachable_server("the connection to the MCP server was lost", "connection_lost")
}
