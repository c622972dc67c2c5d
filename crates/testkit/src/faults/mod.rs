//! A server that misbehaves on request, so that every kind of failure can be provoked for real.
//!
//! | route | behaviour |
//! |---|---|
//! | `/status/{code}?retry_after&times&key` | that status (200–599); with `times`, only the first calls of that `key`, then 200 `{"ok", "attempts"}` |
//! | `/slow/{ms}` | 200 after that time |
//! | `/drop`, `/reset` | the TCP connection is closed, or reset, without an answer |
//! | `/truncate` | promises 1000 bytes, sends a few, closes |
//! | `/huge/{bytes}` | a JSON string whose whole body has that size, streamed without Content-Length |
//! | `/binary/{png,pdf,csv,html}`, `/html`, `/text` | other content types |
//! | `/gzip`, `/brotli` | encoded JSON, whatever the client accepts |
//! | `/invalid-json` | says JSON, is not |
//! | `/echo`, `/echo/…` | the request as JSON; any method |
//! | `/count/{key}` | how many times this key was called before |
//! | `/redirect?to&status`, `/redirect-loop` | redirects |
//! | `POST /token`, `/oauth-protected` | OAuth 2 client credentials, and a resource that wants such a token |
//!
//! All routes except `/token` answer any method. Not here: wrong TLS, wrong DNS; those need no server of ours.

mod bodies;
mod failures;
mod mirror;
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

/// The server that misbehaves; see the [module](self).
pub struct Faults {
    client: Client,
    expires_in: u64,
    shutdown: CancellationToken,
    seen: Mutex<Seen>,
}

/// What to decide before [`Faults`] starts.
#[derive(Clone, Debug)]
pub struct Builder {
    client: Client,
    expires_in: u64,
}

/// The OAuth client that `/token` knows.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Client {
    id: String,
    secret: String,
}

#[derive(Default)]
struct Seen {
    hits: BTreeMap<String, u64>,
    counts: HashMap<String, u64>,
    attempts: HashMap<String, u64>,
    tokens: BTreeSet<String>,
    issued: u64,
}

impl Faults {
    /// A faults server that knows the OAuth client `demo-client` with the secret `demo-client-secret-not-real`.
    pub fn builder() -> Builder {
        Builder {
            client: Client { id: "demo-client".to_owned(), secret: "demo-client-secret-not-real".to_owned() },
            expires_in: 3600,
        }
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Builder {
    /// The client id and secret that `/token` accepts.
    #[must_use]
    pub fn client(mut self, id: impl Into<String>, secret: impl Into<String>) -> Self {
        self.client = Client { id: id.into(), secret: secret.into() };
        self
    }

    /// The `expires_in` that `/token` announces, in seconds. Tokens stay valid until [`Handle::revoke_tokens`].
    #[must_use]
    pub fn expires_in(mut self, seconds: u64) -> Self {
        self.expires_in = seconds;
        self
    }

    /// Starts the server; [`crate::LOOPBACK`] picks a free port.
    pub async fn start(self, bind: SocketAddr) -> Result<Handle, io::Error> {
        let shutdown = CancellationToken::new();
        let faults = Arc::new(Faults {
            client: self.client,
            expires_in: self.expires_in,
            shutdown: shutdown.clone(),
            seen: Mutex::default(),
        });
        let app = routes(&faults);
        server::start(bind, faults, app, shutdown).await
    }
}

impl Handle {
    /// How many requests came for paths that start with `path_prefix`, those without an answer included.
    pub fn hits(&self, path_prefix: &str) -> u64 {
        let seen = self.system.seen();
        let matching = seen.hits.iter().filter(|(path, _)| path.starts_with(path_prefix));
        matching.map(|(_, hits)| hits).sum()
    }

    /// How many tokens `/token` has issued.
    pub fn tokens_issued(&self) -> u64 {
        self.system.seen().issued
    }

    /// Makes every token issued so far invalid, as if its time had run out.
    pub fn revoke_tokens(&self) {
        self.system.seen().tokens.clear();
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
        .route("/echo", any(mirror::echo))
        .route("/echo/{*rest}", any(mirror::echo))
        .route("/count/{key}", any(mirror::count))
        .route("/token", post(oauth::token))
        .route("/oauth-protected", any(oauth::protected))
        .layer(middleware::from_fn_with_state(Arc::clone(faults), hit))
        .with_state(Arc::clone(faults))
}

async fn hit(State(faults): State<Arc<Faults>>, request: Request, next: Next) -> Response {
    let path = request.uri().path().to_owned();
    *faults.seen().hits.entry(path).or_default() += 1;
    next.run(request).await
}
