//! Serves the endpoint that Restate calls, and registers it with Restate.

use std::net::SocketAddr;
use std::time::Duration;

use restate_sdk::prelude::Endpoint;
use serde_json::json;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use toolwright_runs::Runs;
use toolwright_tools::http::{EgressPolicy, HttpClient};

use crate::ingress::Address;
use crate::retry::retry;
use crate::serve::serve_endpoint;
use crate::services::{RunObject, TaskService};

/// How long the registration is retried while Restate cannot be reached, because Restate may still be starting.
const ADMIN_RETRY_FOR: Duration = Duration::from_secs(15);
/// How long the registration is retried if Restate rejects it. Restate rejects every registration while it cannot reach
/// this server.
const REGISTRATION_RETRY_FOR: Duration = Duration::from_secs(5);
/// The time limit of one registration request. It is long because Restate calls this server before it answers.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(15);
/// How long a run may be without activity before this server wakes it.
const IDLE: Duration = Duration::from_secs(60);

/// The configuration of the endpoint that Restate calls.
#[derive(Debug, Clone)]
pub struct CallbackOptions {
    /// The address to listen on.
    pub bind: SocketAddr,
    /// The address that Restate calls, if it differs from `bind`. Servers behind a load balancer use the same address.
    pub advertise: Option<Address>,
    /// The address of Restate's admin API.
    pub admin: Address,
    /// The key that Restate signs its requests with.
    pub identity_key: Option<String>,
}

/// The reason why Restate cannot call this server.
#[derive(Debug, thiserror::Error)]
pub enum CallbackError {
    /// Anyone could call the endpoint: it has no identity key and listens on an address other than loopback.
    #[error(
        "the callback address {0} is not on loopback, so anyone who reaches it could execute tasks of runs; set \
         TOOLWRIGHT_RESTATE_IDENTITY_KEY to the public key that Restate signs its requests with, or bind \
         TOOLWRIGHT_RESTATE_BIND to loopback"
    )]
    Open(SocketAddr),
    /// The identity key is invalid.
    #[error("TOOLWRIGHT_RESTATE_IDENTITY_KEY must be a public key of Restate like `publickeyv1_…`: {0}")]
    Key(String),
    /// The address is in use, or does not belong to this host.
    #[error("listen for Restate on {0} (TOOLWRIGHT_RESTATE_BIND)")]
    Listen(SocketAddr, #[source] std::io::Error),
    /// The admin API does not answer.
    #[error("reach Restate's admin API at `{0}` (TOOLWRIGHT_RESTATE_ADMIN_URL)")]
    Admin(Address, #[source] reqwest::Error),
    /// Restate rejected the registration.
    #[error(
        "Restate did not register this server at `{uri}`: {status} {body}; it must be able to reach that address, which \
         TOOLWRIGHT_RESTATE_ADVERTISE sets"
    )]
    Registration {
        /// The address of this server in the registration request.
        uri: String,
        /// The HTTP status of Restate's response.
        status: u16,
        /// The body of the response.
        body: String,
    },
    /// The HTTP client cannot be built.
    #[error("build an HTTP client: {0}")]
    Client(String),
}

/// The endpoint that Restate calls. Its port is open.
pub struct Callback {
    listener: TcpListener,
    endpoint: Endpoint,
    runs: Runs,
    uri: String,
    admin: Address,
    http: reqwest::Client,
}

impl Callback {
    /// Opens the port of the endpoint. Requests are answered once the first future of [`Callback::serve`] runs.
    pub async fn listen(options: CallbackOptions, runs: Runs) -> Result<Self, CallbackError> {
        let CallbackOptions { bind, advertise, admin, identity_key } = options;
        let mut endpoint = Endpoint::builder().bind(RunObject(runs.clone())).bind(TaskService(runs.clone()));
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
        let http = HttpClient::new(EgressPolicy::unrestricted()).unrestricted_client();
        let http = http.map_err(|failure| CallbackError::Client(failure.error.message))?;
        Ok(Self { listener, endpoint: endpoint.build(), runs, uri, admin, http })
    }

    /// Returns two futures. The first serves requests until `stop` is cancelled. The second completes when Restate has
    /// registered this server.
    pub fn serve(
        self,
        stop: CancellationToken,
    ) -> (impl Future<Output = ()> + Send, impl Future<Output = Result<(), CallbackError>> + Send) {
        let Self { listener, endpoint, runs, uri, admin, http } = self;
        let serving = {
            let stop = stop.clone();
            async move {
                tokio::join!(serve_endpoint(endpoint, listener, stop.clone()), wake_idle_runs(runs, stop));
            }
        };
        (serving, register(http, admin, uri))
    }
}

/// Regularly wakes runs that have not changed for [`IDLE`]. Restate may not know such a run, because it could not be
/// reached when the run started, or because it lost its data.
async fn wake_idle_runs(runs: Runs, stop: CancellationToken) {
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(IDLE) => {}
        }
        runs.wake_idle_runs(IDLE).await;
    }
}

async fn register(http: reqwest::Client, admin: Address, uri: String) -> Result<(), CallbackError> {
    let url = format!("{admin}/deployments");
    let retry_for = |error: &CallbackError| match error {
        CallbackError::Registration { .. } => REGISTRATION_RETRY_FOR,
        _ => ADMIN_RETRY_FOR,
    };
    retry(&url, retry_for, || async {
        // With `force`, a new release of this server replaces the registration of the old release at the same address.
        let request = http.post(&url).json(&json!({ "uri": uri, "force": true }));
        match request.timeout(REQUEST_TIMEOUT).send().await {
            Ok(response) if response.status().is_success() => Ok(()),
            Ok(response) => {
                let status = response.status().as_u16();
                let body = response.text().await.unwrap_or_default();
                Err(CallbackError::Registration { uri: uri.clone(), status, body })
            }
            Err(source) => Err(CallbackError::Admin(admin.clone(), source)),
        }
    })
    .await
}
