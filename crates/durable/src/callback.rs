//! This server as Restate reaches it: an endpoint with the services, and their registration.

use std::net::SocketAddr;
use std::time::Duration;

use restate_sdk::prelude::{Endpoint, HttpServer};
use serde_json::json;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use toolwright_engine::Runs;
use toolwright_tools::http::{Egress, HttpClient};

use crate::ingress::Address;
use crate::services::{RunObject, StepService};

/// How long Restate may take to come up when this server starts.
const PATIENCE: Duration = Duration::from_secs(15);
/// How long it may take until Restate reaches this server.
const WAY_BACK: Duration = Duration::from_secs(5);
/// How long to wait before asking once more.
const PAUSE: Duration = Duration::from_millis(200);
/// How long one registration may take: Restate calls back before it answers.
const ANSWER: Duration = Duration::from_secs(15);
/// A run of which nothing was heard for so long is looked at.
const QUIET: Duration = Duration::from_secs(60);

/// Where Restate reaches this server.
#[derive(Debug, Clone)]
pub struct CallbackOptions {
    /// Where to listen.
    pub bind: SocketAddr,
    /// The address that Restate calls, where it is another; all servers behind one address share it.
    pub advertise: Option<Address>,
    /// Restate's admin API.
    pub admin: Address,
    /// The key that Restate signs its requests with.
    pub identity_key: Option<String>,
}

/// Why Restate cannot reach this server.
#[derive(Debug, thiserror::Error)]
pub enum CallbackError {
    /// Anyone could make steps here.
    #[error(
        "the callback address {0} is not on loopback, so anyone who reaches it could let runs make steps; set \
         TOOLWRIGHT_RESTATE_IDENTITY_KEY to the public key that Restate signs its requests with, or bind \
         TOOLWRIGHT_RESTATE_BIND to loopback"
    )]
    Open(SocketAddr),
    /// Not a key.
    #[error("TOOLWRIGHT_RESTATE_IDENTITY_KEY is no public key of Restate's like `publickeyv1_…`: {0}")]
    Key(String),
    /// The address is taken, or is not one of this machine's.
    #[error("listen for Restate on {0} (TOOLWRIGHT_RESTATE_BIND)")]
    Listen(SocketAddr, #[source] std::io::Error),
    /// The admin API does not answer.
    #[error("reach Restate's admin API at `{0}` (TOOLWRIGHT_RESTATE_ADMIN_URL)")]
    Admin(Address, #[source] reqwest::Error),
    /// Restate knows nothing of this server.
    #[error(
        "Restate did not register this server at `{uri}`: {status} {body}; it must be able to reach that address, which \
         TOOLWRIGHT_RESTATE_ADVERTISE sets"
    )]
    Registration {
        /// The address that was advertised.
        uri: String,
        /// The status of Restate's answer.
        status: u16,
        /// The answer.
        body: String,
    },
    /// No client.
    #[error("make an HTTP client: {0}")]
    Client(String),
}

/// The endpoint, listening.
pub struct Callback {
    listener: TcpListener,
    endpoint: Endpoint,
    runs: Runs,
    uri: String,
    admin: Address,
    http: reqwest::Client,
}

impl Callback {
    /// Listens for Restate. Nothing is served yet.
    pub async fn listen(options: CallbackOptions, runs: Runs) -> Result<Self, CallbackError> {
        let CallbackOptions { bind, advertise, admin, identity_key } = options;
        let mut endpoint = Endpoint::builder().bind(RunObject(runs.clone())).bind(StepService(runs.clone()));
        match identity_key {
            Some(key) => {
                endpoint = endpoint.identity_key(&key).map_err(|error| CallbackError::Key(error.to_string()))?;
            }
            None if !bind.ip().is_loopback() => return Err(CallbackError::Open(bind)),
            None => {}
        }
        let listener = TcpListener::bind(bind).await.map_err(|source| CallbackError::Listen(bind, source))?;
        let here = listener.local_addr().map_err(|source| CallbackError::Listen(bind, source))?;
        let uri = advertise.map_or_else(|| format!("http://{here}"), |address| address.to_string());
        let http = HttpClient::new(Egress::everything()).unguarded();
        let http = http.map_err(|failure| CallbackError::Client(failure.error.message))?;
        Ok(Self { listener, endpoint: endpoint.build(), runs, uri, admin, http })
    }

    /// The work of the endpoint until `stop`, and of letting Restate know of it, which ends when Restate does.
    pub fn serve(
        self,
        stop: CancellationToken,
    ) -> (impl Future<Output = ()> + Send, impl Future<Output = Result<(), CallbackError>> + Send) {
        let Self { listener, endpoint, runs, uri, admin, http } = self;
        let serving = {
            let stop = stop.clone();
            async move {
                let served = HttpServer::new(endpoint).serve_with_cancel(listener, stop.clone().cancelled_owned());
                tokio::join!(served, look_after(runs, stop));
            }
        };
        (serving, register(http, admin, uri))
    }
}

/// Lets Restate look at runs that it should have looked at: one that began while it could not be reached, or that it has
/// forgotten.
async fn look_after(runs: Runs, stop: CancellationToken) {
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(QUIET) => {}
        }
        runs.wake_quiet(QUIET).await;
    }
}

async fn register(http: reqwest::Client, admin: Address, uri: String) -> Result<(), CallbackError> {
    let begun = tokio::time::Instant::now();
    loop {
        // Other releases of this server at the same address replace each other: what runs are told does not change.
        let request = http.post(format!("{admin}/deployments")).json(&json!({ "uri": uri, "force": true }));
        let failure = match request.timeout(ANSWER).send().await {
            Ok(response) if response.status().is_success() => return Ok(()),
            Ok(response) => {
                let status = response.status().as_u16();
                let body = response.text().await.unwrap_or_default();
                CallbackError::Registration { uri: uri.clone(), status, body }
            }
            Err(source) => CallbackError::Admin(admin.clone(), source),
        };
        let refused = matches!(failure, CallbackError::Registration { .. });
        if begun.elapsed() + PAUSE > if refused { WAY_BACK } else { PATIENCE } {
            return Err(failure);
        }
        tracing::debug!(error = &failure as &dyn std::error::Error, "Restate is not there yet");
        tokio::time::sleep(PAUSE).await;
    }
}
