//! An orders API. Its style differs from that of the CRM: an API key header, paging with cursors, status 422 with a
//! list of invalid fields, and amounts in cents.
//!
//! | route | operation in the audit |
//! |---|---|
//! | `GET /orders?status&customerId&limit&cursor` | `orders.list` |
//! | `GET /orders/{id}` | `orders.get` |
//! | `POST /orders` | `orders.create` |
//! | `POST /orders/{id}/cancel` | `orders.cancel` |
//! | `GET /customers/{id}` | `customers.get` |
//! | `GET /audit`, without authentication | – |
//!
//! Writes accept an `Idempotency-Key`. A repeated request gets the first reply, as for deals in [`crate::crm`].
//!
//! Not implemented: payment, stock, status changes other than cancellation.

mod error;
mod handlers;
mod model;
mod seed;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{self, Next};
use axum::response::Response;
use axum::routing::{get, post};
use tokio_util::sync::CancellationToken;

use crate::audit::{self, Audit, Audited};
use crate::definitions::ORDERS_KEY;
use crate::record_store::RecordStore;
use crate::server;
use error::Error;
use model::Records;

/// A running orders API.
pub type Handle = server::Handle<Orders>;

/// The orders API; see the [module](self).
pub struct Orders {
    api_key: String,
    record_store: RecordStore<Records>,
}

/// The options of [`Orders`] before it starts.
#[derive(Clone, Debug)]
pub struct Builder {
    api_key: String,
}

impl Orders {
    /// Returns the options of an orders API with the demo's key.
    pub fn builder() -> Builder {
        Builder { api_key: ORDERS_KEY.to_owned() }
    }
}

impl Builder {
    /// Sets the key that clients must send as `X-Api-Key`.
    #[must_use]
    pub fn api_key(mut self, key: impl Into<String>) -> Self {
        self.api_key = key.into();
        self
    }

    /// Starts the API with its seed data. [`crate::LOOPBACK`] selects a free port.
    pub async fn start(self, bind: SocketAddr) -> Result<Handle, io::Error> {
        let orders = Arc::new(Orders { api_key: self.api_key, record_store: RecordStore::new(Records::seeded()) });
        let app = routes(&orders);
        server::start(bind, orders, app, CancellationToken::new()).await
    }
}

impl Audited for Orders {
    fn audit(&self) -> Audit {
        self.record_store.audit()
    }
}

fn routes(orders: &Arc<Orders>) -> Router {
    Router::new()
        .route("/orders", get(handlers::list).post(handlers::create))
        .route("/orders/{id}", get(handlers::fetch))
        .route("/orders/{id}/cancel", post(handlers::cancel))
        .route("/customers/{id}", get(handlers::customer))
        .route_layer(middleware::from_fn_with_state(Arc::clone(orders), admit))
        .merge(audit::routes())
        .fallback(|| async { Error::NoRoute })
        .method_not_allowed_fallback(|| async { Error::MethodNotAllowed })
        .with_state(Arc::clone(orders))
}

async fn admit(State(orders): State<Arc<Orders>>, request: Request, next: Next) -> Result<Response, Error> {
    match request.headers().get("x-api-key") {
        Some(key) if key.as_bytes() == orders.api_key.as_bytes() => Ok(next.run(request).await),
        _ => Err(Error::Unauthenticated),
    }
}
