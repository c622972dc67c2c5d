//! The MCP server as a service over HTTP, for whoever has found out who is asking.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderName, Request, Response, StatusCode};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use toolwright_engine::{Engine, Session, Viewer};

use super::plain::PlainCall;
use super::{Server, Visitor, batch, plain, unread};

pub(super) const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
/// How long a session of an older client may be silent.
const SILENCE: Duration = Duration::from_secs(60 * 60);

/// An answer over HTTP.
pub type Answer = Response<BoxBody<Bytes, Infallible>>;

/// How the server is set up.
pub struct ServerOptions {
    /// From where it is reached.
    pub reach: Reach,
    /// Whether the fixtures of the conformance suite are offered, to anybody.
    pub fixtures: bool,
    /// The largest body a request may have.
    pub largest_body: usize,
}

/// From where the server is reached: a page in a browser must not be able to talk to it under another name.
#[derive(Debug, Clone, Default)]
pub struct Reach {
    /// The names it may be called by, with or without a port; any when empty.
    hosts: Vec<String>,
    /// The origins that pages may come from; none when empty.
    origins: Vec<String>,
}

impl Reach {
    /// From this machine.
    pub fn loopback() -> Self {
        let hosts = ["localhost", "127.0.0.1", "[::1]"];
        let origins = hosts.iter().flat_map(|host| [format!("http://{host}:*"), format!("https://{host}:*")]);
        Self { hosts: ["localhost", "127.0.0.1", "::1"].map(str::to_owned).to_vec(), origins: origins.collect() }
    }

    /// From anywhere, under any name, by no page.
    pub fn anywhere() -> Self {
        Self::default()
    }

    /// Also under these names, and by pages of these origins.
    pub fn and(mut self, hosts: impl IntoIterator<Item = String>, origins: impl IntoIterator<Item = String>) -> Self {
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
    /// The names that it may be called by.
    hosts: Vec<String>,
    service: StreamableHttpService<Server, LocalSessionManager>,
    /// Who began which session: it is nobody else's to listen to.
    owners: moka::sync::Cache<String, Arc<Owner>>,
    sessions: Arc<LocalSessionManager>,
    open: bool,
}

/// Who began a session.
struct Owner {
    viewer: Option<Viewer>,
    began: Instant,
    /// When the session last had something to do, in seconds after it began.
    heard: AtomicU64,
}

impl Owner {
    fn new(viewer: Option<Viewer>) -> Self {
        Self { viewer, began: Instant::now(), heard: AtomicU64::new(0) }
    }

    fn hear(&self) {
        self.heard.store(self.began.elapsed().as_secs(), Ordering::Relaxed);
    }

    /// Whether the session will not end soon for want of something to do.
    fn was_heard(&self) -> bool {
        self.began.elapsed().as_secs() < self.heard.load(Ordering::Relaxed) + SILENCE.as_secs() / 4
    }
}

impl Endpoint {
    /// An endpoint for `engine`.
    pub fn new(engine: Engine, options: ServerOptions) -> Self {
        let mut sessions = LocalSessionManager::default();
        sessions.session_config.keep_alive = Some(SILENCE);
        let sessions = Arc::new(sessions);
        let config = StreamableHttpServerConfig::default()
            .with_json_response(true)
            .with_cancellation_token(engine.stopping())
            .with_max_request_body_bytes(options.largest_body)
            .with_allowed_hosts(options.reach.hosts.clone())
            .with_allowed_origins(options.reach.origins)
            .enforce_origin_validation();
        let server = Server::new(engine, Arc::clone(&sessions), options.fixtures);
        let owners = moka::sync::Cache::builder().max_capacity(100_000).time_to_idle(2 * SILENCE).build();
        let anew = server.clone();
        let service = StreamableHttpService::new(move || Ok(anew.anew()), Arc::clone(&sessions), config);
        let hosts = options.reach.hosts;
        Self(Arc::new(Inner { server, hosts, service, owners, sessions, open: options.fixtures }))
    }

    /// Whether somebody without a key is answered too, about fixtures only.
    pub fn is_open(&self) -> bool {
        self.0.open
    }

    /// Answers a request of `session`.
    pub async fn answer(&self, session: Option<Session>, request: Request<Bytes>) -> Answer {
        if let Some(session) = &session
            && let Some(call) = plain::read(&request, &self.0.hosts)
            && self.is_free_for(session, &call).await
            && let Some(answer) = self.0.server.answer_plainly(session, call).await
        {
            return answer;
        }
        // Boxed, because it is many times larger than what is above, and would be moved with it.
        Box::pin(self.converse(session, request)).await
    }

    /// Whether a call need not go through its session: the session is there, it is this visitor's, and it was heard of lately.
    async fn is_free_for(&self, session: &Session, call: &PlainCall) -> bool {
        if self.0.open {
            return false;
        }
        let Some(id) = call.session() else { return true };
        let viewer = Some(Viewer::of(&session.principal, &session.realm));
        let Some(owner) = self.0.owners.get(id).filter(|owner| owner.viewer == viewer) else { return false };
        owner.was_heard() && self.0.sessions.sessions.read().await.contains_key(id)
    }

    /// Answers what may take more than an answer.
    async fn converse(&self, session: Option<Session>, mut request: Request<Bytes>) -> Answer {
        let viewer = session.as_ref().map(|session| Viewer::of(&session.principal, &session.realm));
        let named = request.headers().get(SESSION_ID).map(|id| id.to_str().unwrap_or_default().to_owned());
        if let Some(id) = &named {
            match self.0.owners.get(id).filter(|owner| owner.viewer == viewer) {
                Some(owner) => owner.hear(),
                None => return refused(StatusCode::NOT_FOUND, "there is no such session; initialize a new one"),
            }
            self.take_back(id, request.body());
        }
        request.extensions_mut().insert(Visitor(session));
        let (is_json, body) = (unread::is_json(request.headers()), request.body().clone());
        let response = match is_json && batch::is_one(&request) {
            true => self.answer_all(request).await,
            false => self.0.service.handle(request.map(Full::new)).await,
        };
        if is_json && let Some(answer) = unread::instead_of(&response, &body) {
            return answer;
        }
        if named.is_none()
            && let Some(id) = response.headers().get(SESSION_ID).and_then(|id| id.to_str().ok())
        {
            self.0.owners.insert(id.to_owned(), Arc::new(Owner::new(viewer)));
        }
        response
    }

    /// Cancels the plain call that a message of a session takes back, if it is such a message.
    fn take_back(&self, session: &str, message: &[u8]) {
        if let Some(request) = plain::taken_back(message) {
            self.0.server.take_back(session, request);
        }
    }

    async fn answer_all(&self, request: Request<Bytes>) -> Answer {
        let (parts, body) = request.into_parts();
        let messages = match batch::messages(&parts, &body) {
            Ok(messages) => messages,
            Err(refusal) => return refusal,
        };
        let session = parts.headers.get(SESSION_ID).and_then(|id| id.to_str().ok());
        let mut answers = batch::Answers::default();
        for message in messages {
            let alone = Bytes::from(message.to_string());
            if let Some(session) = session {
                self.take_back(session, &alone);
            }
            let answer = self.0.service.handle(Request::from_parts(parts.clone(), Full::new(alone))).await;
            if let Err(refusal) = answers.add(&message, answer) {
                return refusal;
            }
        }
        answers.joined()
    }
}

fn refused(status: StatusCode, text: &'static str) -> Answer {
    let mut response = Response::new(Full::new(Bytes::from_static(text.as_bytes())).boxed());
    *response.status_mut() = status;
    response
}
