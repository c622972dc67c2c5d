//! A small CRM similar to HubSpot: companies, deals in a pipeline, search, batch update.
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
//! A client that does not know whether its write took effect can repeat the write, look it up, or do neither. To test
//! all cases, this CRM has three kinds of writes:
//!
//! | writes | effect of sending twice with one `Idempotency-Key` | can be looked up |
//! |---|---|---|
//! | deals | the second request gets the first reply, marked `Idempotent-Replayed: true` | – |
//! | notes | two notes | by `reference`, which is the idempotency key |
//! | emails | two e-mails | never |
//!
//! For deals, a different request with the same key is rejected with 422. The key of a rejected request can be used
//! again.
//!
//! [`Builder::deals`] adds deals, for example so that a search has several pages. The CRM refuses to change deals that
//! [`Builder::locked`] names, with 423.
//!
//! Not implemented: associations, owners as records, property definitions, more than one pipeline.

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

pub use crate::token_bucket::RateLimit;

use crate::audit::{self, Audit, Audited};
use crate::definitions::HUBSPOT_TOKEN;
use crate::record_store::RecordStore;
use crate::server;
use crate::token_bucket::TokenBucket;
use error::Error;
use model::Records;

/// A running CRM.
pub type Handle = server::Handle<Crm>;

/// The CRM; see the [module](self).
pub struct Crm {
    authorization: String,
    token_bucket: TokenBucket,
    record_store: RecordStore<Records>,
}

/// The options of a [`Crm`] before it starts.
#[derive(Clone, Debug)]
pub struct Builder {
    token: String,
    rate_limit: RateLimit,
    more_deals: Vec<(String, u64)>,
    locked: Vec<u64>,
}

impl Crm {
    /// Returns the options of a CRM with the demo's token and HubSpot's usual rate limit.
    pub fn builder() -> Builder {
        Builder {
            token: HUBSPOT_TOKEN.to_owned(),
            rate_limit: RateLimit::default(),
            more_deals: Vec::new(),
            locked: Vec::new(),
        }
    }
}

impl Builder {
    /// Sets the bearer token that clients must send.
    #[must_use]
    pub fn token(mut self, token: impl Into<String>) -> Self {
        self.token = token.into();
        self
    }

    /// Sets the request rate above which the response is 429.
    #[must_use]
    pub fn rate_limit(mut self, limit: RateLimit) -> Self {
        self.rate_limit = limit;
        self
    }

    /// Adds `count` deals of a company to the seed data, in the first stage of the pipeline. The id of the first added
    /// deal is 201.
    #[must_use]
    pub fn deals(mut self, company: impl Into<String>, count: u64) -> Self {
        self.more_deals.push((company.into(), count));
        self
    }

    /// Locks a deal, so that it cannot be updated or deleted.
    #[must_use]
    pub fn locked(mut self, deal: u64) -> Self {
        self.locked.push(deal);
        self
    }

    /// Starts the CRM with its seed data. [`crate::LOOPBACK`] selects a free port.
    pub async fn start(self, bind: SocketAddr) -> Result<Handle, io::Error> {
        let mut records = Records::seeded();
        for (company, count) in &self.more_deals {
            records.add_deals(company, *count);
        }
        records.locked.extend(self.locked);
        let crm = Arc::new(Crm {
            authorization: format!("Bearer {}", self.token),
            token_bucket: TokenBucket::full(self.rate_limit, Instant::now()),
            record_store: RecordStore::new(records),
        });
        let app = routes(&crm);
        server::start(bind, crm, app, CancellationToken::new()).await
    }
}

impl Audited for Crm {
    fn audit(&self) -> Audit {
        self.record_store.audit()
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

/// Checks authentication before the rate limit, so that unauthenticated requests do not count against the limit.
async fn admit(State(crm): State<Arc<Crm>>, request: Request, next: Next) -> Result<Response, Error> {
    let sent = request.headers().get(AUTHORIZATION);
    if sent.is_none_or(|value| value.as_bytes() != crm.authorization.as_bytes()) {
        return Err(Error::Unauthenticated);
    }
    if !crm.token_bucket.take(Instant::now()) {
        return Err(Error::RateLimited);
    }
    Ok(next.run(request).await)
}
