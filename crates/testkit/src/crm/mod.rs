//! A small CRM in HubSpot's spirit: companies, deals in a pipeline, search, batch update.
//!
//! | route | operation in the audit |
//! |---|---|
//! | `GET /crm/v3/pipelines/deals` | `pipelines.get` |
//! | `GET /crm/v3/companies`, `GET /crm/v3/companies/{id}` | `companies.list`, `companies.get` |
//! | `POST /crm/v3/deals/search` | `deals.search` (a read) |
//! | `POST /crm/v3/deals` | `deals.create` |
//! | `GET`, `PATCH`, `DELETE /crm/v3/deals/{id}` | `deals.get`, `deals.update`, `deals.delete` |
//! | `POST /crm/v3/deals/batch/update` | `deals.batchUpdate` |
//! | `POST /crm/v3/deals/{id}/notes` | `notes.create` |
//! | `GET /crm/v3/notes?reference` | `notes.find` (a read) |
//! | `POST /crm/v3/deals/{id}/emails` | `emails.send` |
//! | `GET /audit`, without authentication | – |
//!
//! Real systems differ in what a client can do that does not know whether its write was made. Here are the three kinds:
//!
//! | writes | sent twice with one `Idempotency-Key` | found again |
//! |---|---|---|
//! | deals | the second gets the first reply, marked `Idempotent-Replayed: true` | – |
//! | notes | two notes | by their `reference`, which is the key they were sent with |
//! | emails | two e-mails | never |
//!
//! For deals, the same key with another request is refused with 422, and a rejected request leaves its key free.
//!
//! Not here: associations, owners as records, property definitions, more than one pipeline.

mod companies;
mod deals;
mod engagements;
mod error;
mod model;
mod search;
mod seed;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::header::AUTHORIZATION;
use axum::middleware::{self, Next};
use axum::response::Response;
use axum::routing::{get, post};
use tokio_util::sync::CancellationToken;

pub use crate::bucket::RateLimit;

use crate::audit::{self, Audit, Audited};
use crate::bucket::Bucket;
use crate::definitions::HUBSPOT_TOKEN;
use crate::ledger::Ledger;
use crate::server;
use error::Error;
use model::Records;

/// A running CRM.
pub type Handle = server::Handle<Crm>;

/// The CRM; see the [module](self).
pub struct Crm {
    authorization: String,
    bucket: Bucket,
    ledger: Ledger<Records>,
}

/// What to decide before a [`Crm`] starts.
#[derive(Clone, Debug)]
pub struct Builder {
    token: String,
    rate_limit: RateLimit,
}

impl Crm {
    /// A CRM with the demo's token and HubSpot's usual rate limit.
    pub fn builder() -> Builder {
        Builder { token: HUBSPOT_TOKEN.to_owned(), rate_limit: RateLimit::default() }
    }
}

impl Builder {
    /// The bearer token that clients must send.
    #[must_use]
    pub fn token(mut self, token: impl Into<String>) -> Self {
        self.token = token.into();
        self
    }

    /// How many requests are admitted before the answer is 429.
    #[must_use]
    pub fn rate_limit(mut self, limit: RateLimit) -> Self {
        self.rate_limit = limit;
        self
    }

    /// Starts the CRM with its seed data; [`crate::LOOPBACK`] picks a free port.
    pub async fn start(self, bind: SocketAddr) -> Result<Handle, io::Error> {
        let crm = Arc::new(Crm {
            authorization: format!("Bearer {}", self.token),
            bucket: Bucket::full(self.rate_limit, Instant::now()),
            ledger: Ledger::new(Records::seeded()),
        });
        let app = routes(&crm);
        server::start(bind, crm, app, CancellationToken::new()).await
    }
}

impl Audited for Crm {
    fn audit(&self) -> Audit {
        self.ledger.audit()
    }
}

fn routes(crm: &Arc<Crm>) -> Router {
    Router::new()
        .route("/crm/v3/pipelines/deals", get(deals::pipeline))
        .route("/crm/v3/companies", get(companies::list))
        .route("/crm/v3/companies/{id}", get(companies::fetch))
        .route("/crm/v3/deals", post(deals::create))
        .route("/crm/v3/deals/search", post(deals::find))
        .route("/crm/v3/deals/batch/update", post(deals::batch_update))
        .route("/crm/v3/deals/{id}", get(deals::fetch).patch(deals::update).delete(deals::delete))
        .route("/crm/v3/deals/{id}/notes", post(engagements::add_note))
        .route("/crm/v3/notes", get(engagements::find_notes))
        .route("/crm/v3/deals/{id}/emails", post(engagements::send_email))
        .route_layer(middleware::from_fn_with_state(Arc::clone(crm), admit))
        .merge(audit::routes())
        .fallback(|| async { Error::NoRoute })
        .method_not_allowed_fallback(|| async { Error::MethodNotAllowed })
        .with_state(Arc::clone(crm))
}

/// Authentication first, so that strangers cannot use up the rate of a client.
async fn admit(State(crm): State<Arc<Crm>>, request: Request, next: Next) -> Result<Response, Error> {
    let sent = request.headers().get(AUTHORIZATION);
    if sent.is_none_or(|value| value.as_bytes() != crm.authorization.as_bytes()) {
        return Err(Error::Unauthenticated);
    }
    if !crm.bucket.take(Instant::now()) {
        return Err(Error::RateLimited);
    }
    Ok(next.run(request).await)
}
