//! A small web of fictional companies, with a search API, a scraper and a PDF extractor, for tools that do research.
//!
//! | route | operation in the audit |
//! |---|---|
//! | `GET /search?q&page` | `search` |
//! | `POST /scrape` with `{"url"}` | `scrape` |
//! | `POST /extract` with `{"url"}` | `extract` |
//! | `GET /sites/{host}/{path}`, without authentication | `sites.get` |
//! | `GET /audit`, `GET /requests`, without authentication | – |
//!
//! The pages have addresses such as `https://brambleforge.example/pricing`, which are the same after every start. The
//! scraper and the extractor know the pages by these addresses and send no requests. A browser shows them under `/sites/`.
//!
//! Some pages are difficult: one is a redirect, one answers 500, one is a PDF, and one contains a prompt injection, an
//! instruction for the model that reads it.
//!
//! Not implemented: JavaScript, robots.txt, compressed PDFs.

mod error;
mod handlers;
mod html;
mod pdf;
mod search;
mod site;

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::Router;
use axum::extract::{Request, State};
use axum::http::header::AUTHORIZATION;
use axum::middleware::{self, Next};
use axum::response::Response;
use axum::routing::{get, post};
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use crate::audit::{self, Audit, Audited};
use crate::definitions::WEB_KEY;
use crate::server;
use error::Error;

/// The maximum number of requests that are kept. Older requests are removed.
const JOURNAL_CAPACITY: usize = 10_000;

/// A running web.
pub type Handle = server::Handle<Web>;

/// The web; see the [module](self).
pub struct Web {
    authorization: String,
    journal: Mutex<Journal>,
}

/// The options of a [`Web`] before it starts.
#[derive(Clone, Debug)]
pub struct Builder {
    key: String,
}

/// A request that the web received.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WebRequest {
    /// The operation, as it is named in the audit.
    pub operation: &'static str,
    /// The query of a search, or the address of the requested page.
    pub subject: String,
}

#[derive(Default)]
struct Journal {
    audit: Audit,
    requests: VecDeque<WebRequest>,
}

impl Web {
    /// Returns the options of a web with the demo's key.
    pub fn builder() -> Builder {
        Builder { key: WEB_KEY.to_owned() }
    }

    fn record(&self, operation: &'static str, subject: &str) {
        let mut journal = self.lock();
        journal.audit.record_read(operation);
        if journal.requests.len() == JOURNAL_CAPACITY {
            journal.requests.pop_front();
        }
        journal.requests.push_back(WebRequest { operation, subject: subject.to_owned() });
    }

    fn lock(&self) -> MutexGuard<'_, Journal> {
        self.journal.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Builder {
    /// Sets the key that clients must send as a bearer token.
    #[must_use]
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = key.into();
        self
    }

    /// Starts the web. [`crate::LOOPBACK`] selects a free port.
    pub async fn start(self, bind: SocketAddr) -> Result<Handle, io::Error> {
        let web = Arc::new(Web { authorization: format!("Bearer {}", self.key), journal: Mutex::default() });
        let app = routes(&web);
        server::start(bind, web, app, CancellationToken::new()).await
    }
}

impl Handle {
    /// The requests since the start, oldest first. At most the newest ten thousand.
    pub fn requests(&self) -> Vec<WebRequest> {
        self.system.lock().requests.iter().cloned().collect()
    }
}

impl Audited for Web {
    fn audit(&self) -> Audit {
        self.lock().audit.clone()
    }
}

fn routes(web: &Arc<Web>) -> Router {
    Router::new()
        .route("/search", get(handlers::search))
        .route("/scrape", post(handlers::scrape))
        .route("/extract", post(handlers::extract))
        .route_layer(middleware::from_fn_with_state(Arc::clone(web), admit))
        .route("/sites/{*address}", get(handlers::page))
        .route("/requests", get(handlers::requests))
        .merge(audit::routes())
        .fallback(|| async { Error::NoRoute })
        .method_not_allowed_fallback(|| async { Error::MethodNotAllowed })
        .with_state(Arc::clone(web))
}

async fn admit(State(web): State<Arc<Web>>, request: Request, next: Next) -> Result<Response, Error> {
    match request.headers().get(AUTHORIZATION) {
        Some(sent) if sent.as_bytes() == web.authorization.as_bytes() => Ok(next.run(request).await),
        _ => Err(Error::Unauthenticated),
    }
}
