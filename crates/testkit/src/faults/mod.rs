//! An HTTP server whose routes fail in a requested way, so that tests can cause every kind of HTTP failure.
//!
//! | route | behaviour |
//! |---|---|
//! | `/status/{code}?retry_after&times&key` | this status (200–599); with `times`, only for the first `times` calls with this `key`, then 200 `{"ok", "attempts"}` |
//! | `/slow/{ms}` | 200 after this delay |
//! | `/drop`, `/reset` | closes or resets the TCP connection without a response |
//! | `/truncate` | announces 1000 bytes, sends a few, closes the connection |
//! | `/huge/{bytes}` | a JSON string of this size, quotes included, streamed without Content-Length |
//! | `/binary/{png,pdf,csv,html}`, `/html`, `/text` | other content types |
//! | `/gzip`, `/brotli` | compressed JSON, regardless of `Accept-Encoding` |
//! | `/invalid-json` | declares JSON, but sends a truncated document |
//! | `/echo`, `/echo/…` | the request as JSON; any method |
//! | `/count/{key}` | the number of earlier calls with this key |
//! | `/redirect?to&status`, `/redirect-loop` | redirects |
//! | `POST /token`, `/oauth-protected` | OAuth 2 client credentials, and a resource that requires such a token |
//!
//! All routes except `/token` accept any method. TLS and DNS failures are not covered, because a test can cause them
//! without an HTTP server.

mod bodies;
mod echo;
mod failures;
mod oauth;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{self, Next};
use axum::response::Response;
use axum::routing::{any, post};
use tokio_util::sync::CancellationToken;

use crate::server;

/// A running faults server.
pub type Handle = server::Handle<Faults>;

/// The server with failing routes; see the [module](self).
pub struct Faults {
    client: Client,
    expires_in: u64,
    shutdown: CancellationToken,
    state: Mutex<FaultState>,
}

/// The options of [`Faults`] before it starts.
#[derive(Clone, Debug)]
pub struct Builder {
    client: Client,
    expires_in: u64,
}

/// The OAuth client that `/token` accepts.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Client {
    id: String,
    secret: String,
}

#[derive(Default)]
struct FaultState {
    hits: BTreeMap<String, u64>,
    counts: HashMap<String, u64>,
    attempts: HashMap<String, u64>,
    tokens: BTreeSet<String>,
    issued: u64,
}

impl Faults {
    /// Returns the options of a server that accepts the OAuth client `demo-client` with the secret
    /// `demo-client-secret-not-real`.
    pub fn builder() -> Builder {
        Builder {
            client: Client { id: "demo-client".to_owned(), secret: "demo-client-secret-not-real".to_owned() },
            expires_in: 3600,
        }
    }

    fn lock(&self) -> MutexGuard<'_, FaultState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Builder {
    /// Sets the client id and secret that `/token` accepts.
    #[must_use]
    pub fn client(mut self, id: impl Into<String>, secret: impl Into<String>) -> Self {
        self.client = Client { id: id.into(), secret: secret.into() };
        self
    }

    /// Sets the `expires_in` that `/token` returns, in seconds. Tokens remain valid until [`Handle::revoke_tokens`].
    #[must_use]
    pub fn expires_in(mut self, seconds: u64) -> Self {
        self.expires_in = seconds;
        self
    }

    /// Starts the server. [`crate::LOOPBACK`] selects a free port.
    pub async fn start(self, bind: SocketAddr) -> Result<Handle, io::Error> {
        let shutdown = CancellationToken::new();
        let faults = Arc::new(Faults {
            client: self.client,
            expires_in: self.expires_in,
            shutdown: shutdown.clone(),
            state: Mutex::default(),
        });
        let app = routes(&faults);
        server::start(bind, faults, app, shutdown).await
    }
}

impl Handle {
    /// The number of requests whose paths start with `path_prefix`, including requests that got no response.
    pub fn hits(&self, path_prefix: &str) -> u64 {
        let state = self.system.lock();
        let matching = state.hits.iter().filter(|(path, _)| path.starts_with(path_prefix));
        matching.map(|(_, hits)| hits).sum()
    }

    /// The number of tokens that `/token` has issued.
    pub fn tokens_issued(&self) -> u64 {
        self.system.lock().issued
    }

    /// Invalidates every token issued so far, as if it had expired.
    pub fn revoke_tokens(&self) {
        self.system.lock().tokens.clear();
    }
}

fn routes(faults: &Arc<Faults>) -> Router {
    Router::new()
        .route("/status/{code}", any(failures::status))
        .route("/slow/{ms}", any(failures::slow))
        .route("/drop", any(failures::close))
        .route("/reset", any(failures::reset))
        .route("/truncate", any(failures::truncate))
        .route("/redirect", any(failures::redirect))
        .route("/redirect-loop", any(failures::redirect_loop))
        .route("/huge/{bytes}", any(bodies::huge))
        .route("/binary/{kind}", any(bodies::binary))
        .route("/gzip", any(bodies::gzip))
        .route("/brotli", any(bodies::brotli))
        .route("/invalid-json", any(bodies::invalid_json))
        .route("/html", any(bodies::html))
        .route("/text", any(bodies::text))
        .route("/echo", any(echo::echo))
        .route("/echo/{*rest}", any(echo::echo))
        .route("/count/{key}", any(echo::count))
        .route("/token", post(oauth::token))
        .route("/oauth-protected", any(oauth::protected))
        .layer(middleware::from_fn_with_state(Arc::clone(faults), count_hit))
        .with_state(Arc::clone(faults))
}

async fn count_hit(State(faults): State<Arc<Faults>>, request: Request, next: Next) -> Response {
    let path = request.uri().path().to_owned();
    *faults.lock().hits.entry(path).or_default() += 1;
    next.run(request).await
}
