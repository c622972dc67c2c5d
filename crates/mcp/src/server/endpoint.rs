//! Serves MCP over streamable HTTP. The caller authenticates each request first.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderName, Method, Request, Response, StatusCode};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use serde_json::Value;
use toolwright_catalog::{Session, Viewer};
use toolwright_engine::Engine;

use super::fast_path::FastPathCall;
use super::session_limit::SessionCounter;
use super::{RequestSession, Server, batch, fast_path, invalid_message};

pub(super) const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
/// How long an MCP session may be idle before it is closed.
const SESSION_IDLE_TIMEOUT: Duration = Duration::from_secs(60 * 60);

/// An HTTP response.
pub type McpResponse = Response<BoxBody<Bytes, Infallible>>;

/// Options of the server.
pub struct ServerOptions {
    /// The host names and origins to accept.
    pub host_policy: HostPolicy,
    /// Whether the fixtures of the conformance suite are offered. If so, they are also offered to clients without an
    /// API key.
    pub fixtures: bool,
    /// The largest request body.
    pub max_body_bytes: usize,
    /// The maximum number of MCP sessions of one principal.
    pub max_sessions_per_principal: usize,
}

/// The host names and origins that requests may have. This protects against DNS rebinding, where a web page reaches the
/// server under another host name.
#[derive(Debug, Clone, Default)]
pub struct HostPolicy {
    /// The allowed host names, with or without a port. If empty, every host name is allowed.
    hosts: Vec<String>,
    /// The allowed origins of browser requests. If empty, no browser requests are allowed.
    origins: Vec<String>,
}

impl HostPolicy {
    /// Allows the loopback names and origins.
    pub fn loopback() -> Self {
        let hosts = ["localhost", "127.0.0.1", "[::1]"];
        let origins = hosts.iter().flat_map(|host| [format!("http://{host}:*"), format!("https://{host}:*")]);
        Self { hosts: ["localhost", "127.0.0.1", "::1"].map(str::to_owned).to_vec(), origins: origins.collect() }
    }

    /// Allows any host name, and no browser requests.
    pub fn anywhere() -> Self {
        Self::default()
    }

    /// Allows these host names and origins too.
    pub fn allow(mut self, hosts: impl IntoIterator<Item = String>, origins: impl IntoIterator<Item = String>) -> Self {
        self.hosts.extend(hosts);
        self.origins.extend(origins);
        self
    }
}

/// The MCP server over streamable HTTP. Cheap to clone.
#[derive(Clone)]
pub struct Endpoint(Arc<Inner>);

struct Inner {
    server: Server,
    /// The allowed host names.
    hosts: Vec<String>,
    service: StreamableHttpService<Server, LocalSessionManager>,
    /// The owner of each MCP session. No other principal may use the session.
    owners: moka::sync::Cache<String, Arc<Owner>>,
    sessions: Arc<LocalSessionManager>,
    session_counter: SessionCounter,
    anonymous: bool,
}

/// The owner of an MCP session.
struct Owner {
    viewer: Option<Viewer>,
    created_at: Instant,
    /// The time of the last activity, in seconds after `created_at`.
    last_active_secs: AtomicU64,
}

impl Owner {
    fn new(viewer: Option<Viewer>) -> Self {
        Self { viewer, created_at: Instant::now(), last_active_secs: AtomicU64::new(0) }
    }

    fn touch(&self) {
        self.last_active_secs.store(self.created_at.elapsed().as_secs(), Ordering::Relaxed);
    }

    /// Whether the session was used through rmcp recently. Calls on the fast path do not reset rmcp's idle timeout.
    /// Without this check, a session that is used only on the fast path would expire.
    fn is_active(&self) -> bool {
        self.created_at.elapsed().as_secs()
            < self.last_active_secs.load(Ordering::Relaxed) + SESSION_IDLE_TIMEOUT.as_secs() / 4
    }
}

impl Endpoint {
    /// Creates an endpoint for `engine`.
    pub fn new(engine: Engine, options: ServerOptions) -> Self {
        let mut sessions = LocalSessionManager::default();
        sessions.session_config.keep_alive = Some(SESSION_IDLE_TIMEOUT);
        let sessions = Arc::new(sessions);
        let config = StreamableHttpServerConfig::default()
            .with_json_response(true)
            .with_cancellation_token(engine.shutdown_token())
            .with_max_request_body_bytes(options.max_body_bytes)
            .with_allowed_hosts(options.host_policy.hosts.clone())
            .with_allowed_origins(options.host_policy.origins)
            .enforce_origin_validation();
        let server = Server::new(engine, Arc::clone(&sessions), options.fixtures);
        let owners = moka::sync::Cache::builder().max_capacity(100_000).time_to_idle(2 * SESSION_IDLE_TIMEOUT).build();
        let template = server.clone();
        let service = StreamableHttpService::new(move || Ok(template.for_session()), Arc::clone(&sessions), config);
        let hosts = options.host_policy.hosts;
        let session_counter = SessionCounter::new(options.max_sessions_per_principal, Arc::clone(&sessions));
        let anonymous = options.fixtures;
        Self(Arc::new(Inner { server, hosts, service, owners, sessions, session_counter, anonymous }))
    }

    /// Whether requests without an API key are served. Such requests can use only fixtures.
    pub fn allows_anonymous(&self) -> bool {
        self.0.anonymous
    }

    /// Handles a request of the principal in `session`.
    pub async fn handle(&self, session: Option<Session>, request: Request<Bytes>) -> McpResponse {
        if toolwright_budget::check(request.body()).is_err() {
            return text_response(StatusCode::PAYLOAD_TOO_LARGE, "the message has too many JSON nodes; send less data");
        }
        if let Some(session) = &session
            && let Some(call) = fast_path::parse(&request, &self.0.hosts)
            && self.may_skip_session(session, &call).await
            && let Some(answer) = self.0.server.answer_on_fast_path(session, call).await
        {
            return answer;
        }
        match session {
            Some(session) if opens_session(&request) => self.open_session(session, request).await,
            // Boxed, because this future is much larger than that of the fast path. Without the box, calls on the fast
            // path would need a future of the same size.
            session => Box::pin(self.handle_with_library(session, request)).await,
        }
    }

    /// Opens an MCP session, if the principal may have another one. A separate task opens the session, so that the
    /// session is counted even if the client disconnects meanwhile.
    async fn open_session(&self, session: Session, request: Request<Bytes>) -> McpResponse {
        let (sender, response) = tokio::sync::oneshot::channel();
        let endpoint = self.clone();
        self.0.server.engine().spawn_background(async move {
            let response = match endpoint.0.session_counter.reserve(session.principal.id).await {
                Ok(reservation) => {
                    let response = endpoint.handle_with_library(Some(session), request).await;
                    if let Some(id) = response.headers().get(SESSION_ID).and_then(|id| id.to_str().ok()) {
                        reservation.opened(id);
                    }
                    response
                }
                Err(limit) => text_response(StatusCode::TOO_MANY_REQUESTS, limit.to_string()),
            };
            // The client may have disconnected.
            let _ = sender.send(response);
        });
        let failed = |_| text_response(StatusCode::INTERNAL_SERVER_ERROR, "the session could not be opened; try again");
        response.await.unwrap_or_else(failed)
    }

    /// Whether a call may bypass rmcp's session handling. The MCP session must exist, belong to this principal and have
    /// been used recently.
    async fn may_skip_session(&self, session: &Session, call: &FastPathCall) -> bool {
        if self.0.anonymous {
            return false;
        }
        let Some(id) = call.session() else { return true };
        let viewer = Some(Viewer::new(&session.principal, &session.realm));
        let Some(owner) = self.0.owners.get(id).filter(|owner| owner.viewer == viewer) else { return false };
        owner.is_active() && self.0.sessions.sessions.read().await.contains_key(id)
    }

    /// Handles a request with rmcp.
    async fn handle_with_library(&self, session: Option<Session>, mut request: Request<Bytes>) -> McpResponse {
        let viewer = session.as_ref().map(|session| Viewer::new(&session.principal, &session.realm));
        let session_id = request.headers().get(SESSION_ID).map(|id| id.to_str().unwrap_or_default().to_owned());
        if let Some(id) = &session_id {
            match self.0.owners.get(id).filter(|owner| owner.viewer == viewer) {
                Some(owner) => owner.touch(),
                None => {
                    return text_response(StatusCode::NOT_FOUND, "the session does not exist; initialize a new one");
                }
            }
            self.cancel_call(id, request.body());
        }
        request.extensions_mut().insert(RequestSession(session));
        let (is_json, body) = (invalid_message::is_json(request.headers()), request.body().clone());
        let response = match is_json && batch::is_batch(&request) {
            true => self.handle_batch(request).await,
            false => self.handle_message(request).await,
        };
        if is_json && let Some(answer) = invalid_message::replacement(&response, &body) {
            return answer;
        }
        if session_id.is_none()
            && let Some(id) = response.headers().get(SESSION_ID).and_then(|id| id.to_str().ok())
        {
            self.0.owners.insert(id.to_owned(), Arc::new(Owner::new(viewer)));
        }
        response
    }

    /// Handles a request that is not a batch.
    async fn handle_message(&self, request: Request<Bytes>) -> McpResponse {
        let is_delete = request.method() == Method::DELETE;
        let mut response = self.0.service.handle(request.map(Full::new)).await;
        // rmcp answers 202 to the end of a session, although the session has ended. Some clients, such as the Python
        // SDK, accept only 200 and 204.
        if is_delete && response.status() == StatusCode::ACCEPTED {
            *response.status_mut() = StatusCode::NO_CONTENT;
        }
        response
    }

    /// If the message is a cancellation notification for a call on the fast path, cancels that call.
    fn cancel_call(&self, session: &str, message: &[u8]) {
        if let Some(request) = fast_path::cancelled_request(message) {
            self.0.server.cancel_call(session, request);
        }
    }

    async fn handle_batch(&self, request: Request<Bytes>) -> McpResponse {
        let (parts, body) = request.into_parts();
        let messages = match batch::messages(&parts, &body) {
            Ok(messages) => messages,
            Err(rejection) => return rejection,
        };
        let session = parts.headers.get(SESSION_ID).and_then(|id| id.to_str().ok());
        let mut responses = batch::BatchResponses::default();
        for message in messages {
            let body = Bytes::from(message.to_string());
            if let Some(session) = session {
                self.cancel_call(session, &body);
            }
            let response = self.0.service.handle(Request::from_parts(parts.clone(), Full::new(body))).await;
            if let Err(rejection) = responses.add(&message, response) {
                return rejection;
            }
        }
        responses.into_response()
    }
}

/// Whether the message is an `initialize` request, which opens a session.
fn opens_session(request: &Request<Bytes>) -> bool {
    if request.headers().contains_key(SESSION_ID) {
        return false;
    }
    let is_initialize = |message: &Value| message.get("method").and_then(Value::as_str) == Some("initialize");
    match serde_json::from_slice::<Value>(request.body()) {
        Ok(Value::Array(messages)) => messages.iter().any(is_initialize),
        Ok(message) => is_initialize(&message),
        Err(_) => false,
    }
}

fn text_response(status: StatusCode, text: impl Into<Bytes>) -> McpResponse {
    let mut response = Response::new(Full::new(text.into()).boxed());
    *response.status_mut() = status;
    response
}
