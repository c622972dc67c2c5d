//! The MCP server.

mod agents;
mod batch;
mod calls;
mod consent;
mod endpoint;
mod handler;
mod news;
mod offer;
mod plain;
mod progress;
mod prompts;
mod resources;
mod results;
mod unread;

use std::sync::{Arc, Mutex, PoisonError};

use rmcp::ErrorData;
use rmcp::RoleServer;
use rmcp::service::RequestContext;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use tokio::sync::watch;
use toolwright_engine::{Engine, Session};

pub use endpoint::{Answer, Endpoint, Reach, ServerOptions};

use crate::fixtures::Fixtures;
use consent::Consents;
use offer::Offers;
use plain::UnderWay;

/// Answers requests of MCP clients. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Server(Arc<Inner>, Arc<Begun>);

/// The edition of the catalog before a session or a listener was promised news.
type Begun = Mutex<Option<watch::Receiver<u64>>>;

struct Inner {
    engine: Engine,
    offers: Offers,
    consents: Consents,
    fixtures: Option<Fixtures>,
    plain: UnderWay,
    sessions: Arc<LocalSessionManager>,
}

/// Who sends a request; nobody in particular where only fixtures are asked for.
#[derive(Clone)]
struct Visitor(Option<Session>);

impl Server {
    fn new(engine: Engine, sessions: Arc<LocalSessionManager>, fixtures: bool) -> Self {
        let consents = Consents::new(engine.signing_key());
        let fixtures = fixtures.then(|| Fixtures::new(engine.signing_key()));
        let inner =
            Inner { engine, offers: Offers::default(), consents, fixtures, plain: UnderWay::default(), sessions };
        Self(Arc::new(inner), Arc::default())
    }

    /// The same server, for another session or request.
    fn anew(&self) -> Self {
        Self(Arc::clone(&self.0), Arc::default())
    }

    /// From here on, no change may go by unheard.
    fn promise_news(&self) {
        let editions = self.engine().registry.catalog().editions();
        *self.1.lock().unwrap_or_else(PoisonError::into_inner) = Some(editions);
    }

    /// The editions since the promise.
    fn promised(&self) -> watch::Receiver<u64> {
        let promised = self.1.lock().unwrap_or_else(PoisonError::into_inner).take();
        promised.unwrap_or_else(|| self.engine().registry.catalog().editions())
    }

    fn engine(&self) -> &Engine {
        &self.0.engine
    }
}

/// The session of whoever sent a request, if it came with a key.
fn visitor(extensions: &rmcp::model::Extensions) -> Option<Session> {
    let parts = extensions.get::<http::request::Parts>()?;
    parts.extensions.get::<Visitor>()?.0.clone()
}

/// The session of whoever sent a request, for what needs one.
fn session(cx: &RequestContext<RoleServer>) -> Result<Session, ErrorData> {
    let missing = || ErrorData::invalid_request("send your API key as `Authorization: Bearer KEY`", None);
    visitor(&cx.extensions).ok_or_else(missing)
}

/// What a client is told when a part of the server did not answer; the cause is for the log.
fn unavailable(error: impl std::error::Error + 'static) -> ErrorData {
    tracing::error!(error = &error as &dyn std::error::Error, "an MCP request could not be answered");
    ErrorData::internal_error("the server is not able to answer now; its log has the cause", None)
}
