//! The MCP server: one rmcp handler for all realms, and the HTTP endpoint around it.

mod agents;
mod batch;
mod calls;
mod consent;
mod endpoint;
mod fast_path;
mod handler;
mod invalid_message;
mod list_changes;
mod progress;
mod prompts;
mod resources;
mod results;
mod session_limit;
mod shown_input;
mod tool_listing;

use std::sync::{Arc, Mutex, PoisonError};

use rmcp::ErrorData;
use rmcp::RoleServer;
use rmcp::model::MetaObject;
use rmcp::service::RequestContext;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use serde_json::{Map, Value};
use tokio::sync::watch;
use toolwright_catalog::Session;
use toolwright_engine::Engine;

pub use endpoint::{Endpoint, HostPolicy, McpResponse, ServerOptions};

use crate::fixtures::Fixtures;
use crate::{correlation, hops};
use consent::ConsentTokens;
use fast_path::InFlightCalls;
use tool_listing::ToolListingCache;

/// Handles requests of MCP clients. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Server(Arc<Inner>, Arc<GenerationWatch>);

/// A receiver of catalog generations. It is created when the server announces to a client that it sends change
/// notifications, so that no later change is missed.
type GenerationWatch = Mutex<Option<watch::Receiver<u64>>>;

struct Inner {
    engine: Engine,
    /// The id of the deployment, as a JSON string.
    deployment: Value,
    listings: ToolListingCache,
    consent_tokens: ConsentTokens,
    fixtures: Option<Fixtures>,
    fast_path: InFlightCalls,
    sessions: Arc<LocalSessionManager>,
}

/// The session of a request. `None` for a request without an API key, which can use only fixtures.
#[derive(Clone)]
struct RequestSession(Option<Session>);

impl Server {
    /// Returns the `_meta` that identifies the deployment. A server uses it to detect an import of its own tools.
    fn deployment_meta(&self) -> MetaObject {
        MetaObject::from(Map::from_iter([(hops::DEPLOYMENT_META_KEY.to_owned(), self.0.deployment.clone())]))
    }

    fn new(engine: Engine, sessions: Arc<LocalSessionManager>, fixtures: bool) -> Self {
        let consent_tokens = ConsentTokens::new(engine.signing_key());
        let fixtures = fixtures.then(|| Fixtures::new(engine.signing_key()));
        let inner = Inner {
            deployment: engine.deployment_id().into(),
            engine,
            listings: ToolListingCache::default(),
            consent_tokens,
            fixtures,
            fast_path: InFlightCalls::default(),
            sessions,
        };
        Self(Arc::new(inner), Arc::default())
    }

    /// Returns a handle to the same server for another MCP session or request. Each handle watches generations
    /// separately.
    fn for_session(&self) -> Self {
        Self(Arc::clone(&self.0), Arc::default())
    }

    /// Starts watching catalog generations, so that no change after this call is missed.
    fn watch_generations(&self) {
        let generations = self.engine().registry.catalog().generations();
        *self.1.lock().unwrap_or_else(PoisonError::into_inner) = Some(generations);
    }

    /// Returns the receiver that [`Server::watch_generations`] created, or creates one.
    fn take_generation_watch(&self) -> watch::Receiver<u64> {
        let watch = self.1.lock().unwrap_or_else(PoisonError::into_inner).take();
        watch.unwrap_or_else(|| self.engine().registry.catalog().generations())
    }

    fn engine(&self) -> &Engine {
        &self.0.engine
    }
}

/// Returns the session of a request, if the request was sent with an API key.
fn optional_session(extensions: &rmcp::model::Extensions) -> Option<Session> {
    let parts = extensions.get::<http::request::Parts>()?;
    parts.extensions.get::<RequestSession>()?.0.clone()
}

/// Returns the session of a request. Fails if the request was sent without an API key.
fn session(cx: &RequestContext<RoleServer>) -> Result<Session, ErrorData> {
    let missing = || ErrorData::invalid_request("an API key is required; send it as `Authorization: Bearer KEY`", None);
    let session = optional_session(&cx.extensions).ok_or_else(missing)?;
    let correlation = correlation::from_meta(&cx.meta).or(session.correlation);
    Ok(Session { hops: hops::from_meta(&cx.meta), correlation, ..session })
}

/// Creates the JSON-RPC error for the failure of a component of this server. The cause is logged and not sent to the
/// client.
fn unavailable(error: impl std::error::Error + 'static) -> ErrorData {
    tracing::error!(error = &error as &dyn std::error::Error, "MCP request failed");
    ErrorData::internal_error("the server cannot answer at the moment; the cause is in its log", None)
}
