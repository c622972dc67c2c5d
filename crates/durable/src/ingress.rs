//! Sends requests to Restate's ingress, the HTTP API that invokes handlers.

use std::time::Duration;

use futures::future::BoxFuture;
use toolwright_runs::{SchedulerError, TaskScheduler};
use toolwright_tools::http::{EgressPolicy, HttpClient};
use toolwright_types::RunId;
use url::Url;

use crate::retry::retry;
use crate::services::RUN_OBJECT;

/// How long a request is retried before the caller receives an error.
const RETRY_FOR: Duration = Duration::from_secs(30);
/// The time limit of one request. It can be short, because a run that receives a command only has to write its journal.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// The time limit of a health check. It is short because a person waits for the result.
const CHECK_TIMEOUT: Duration = Duration::from_secs(2);

/// An HTTP base URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address(Url);

/// The text is not an HTTP base URL.
#[derive(Debug, thiserror::Error)]
#[error("`{0}` must be an address like `http://127.0.0.1:8080`, without a query")]
pub struct AddressError(String);

impl std::str::FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let invalid = || AddressError(text.to_owned());
        let url: Url = text.parse().map_err(|_| invalid())?;
        let plain = matches!(url.scheme(), "http" | "https") && url.has_host() && url.query().is_none();
        if plain { Ok(Self(url)) } else { Err(invalid()) }
    }
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0.as_str().trim_end_matches('/'))
    }
}

/// A client of Restate's ingress. Clones share connections.
#[derive(Clone)]
pub struct Ingress {
    address: Address,
    http: reqwest::Client,
}

/// The reason why Restate did not accept a request.
#[derive(Debug, thiserror::Error)]
enum IngressError {
    #[error("send a request to Restate at `{address}`")]
    Unreachable {
        address: Address,
        #[source]
        source: reqwest::Error,
    },
    #[error("Restate at `{address}` answered {status}: {body}")]
    Rejected { address: Address, status: u16, body: String },
}

impl Ingress {
    /// Creates a client of the ingress at `address`.
    pub fn new(address: Address) -> Result<Self, SchedulerError> {
        // The operator configured the address, so egress rules do not apply. Egress rules restrict only tools.
        let http = HttpClient::new(EgressPolicy::unrestricted()).unrestricted_client();
        Ok(Self { address, http: http.map_err(|failure| failure.error.message)? })
    }

    /// Invokes a handler of a run. Retries until Restate accepts the request or [`RETRY_FOR`] has passed. A retry may
    /// invoke the handler again; the second invocation has no further effect.
    async fn invoke(&self, mode: &str, run: RunId, handler: &str, body: Option<String>) -> Result<(), SchedulerError> {
        let url = format!("{}/restate/{mode}/{RUN_OBJECT}/{run}/{handler}", self.address);
        let accepted = retry(
            &url,
            |_| RETRY_FOR,
            || async {
                let mut request = self.http.post(&url).timeout(REQUEST_TIMEOUT);
                if let Some(body) = &body {
                    request = request.header("content-type", "application/json").body(body.clone());
                }
                self.send(request).await
            },
        );
        Ok(accepted.await?)
    }

    async fn send(&self, request: reqwest::RequestBuilder) -> Result<(), IngressError> {
        let unreachable = |source| IngressError::Unreachable { address: self.address.clone(), source };
        let response = request.send().await.map_err(unreachable)?;
        let status = response.status();
        if status.is_success() {
            return Ok(());
        }
        let body = response.text().await.unwrap_or_default();
        Err(IngressError::Rejected { address: self.address.clone(), status: status.as_u16(), body })
    }
}

impl TaskScheduler for Ingress {
    fn check(&self) -> BoxFuture<'_, Result<(), SchedulerError>> {
        let request = self.http.get(format!("{}/restate/health", self.address)).timeout(CHECK_TIMEOUT);
        Box::pin(async move { Ok(self.send(request).await?) })
    }

    fn wake(&self, run: RunId) -> BoxFuture<'_, Result<(), SchedulerError>> {
        Box::pin(self.invoke("send", run, "wake", None))
    }

    fn deliver<'a>(&'a self, run: RunId, command: &'a str) -> BoxFuture<'a, Result<(), SchedulerError>> {
        Box::pin(self.invoke("call", run, "command", Some(serde_json::Value::from(command).to_string())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_must_be_an_http_url_without_query() {
        for good in ["http://127.0.0.1:8080", "https://restate.example/", "http://[::1]:8080/prefix"] {
            assert!(good.parse::<Address>().is_ok(), "{good}");
        }
        for bad in ["", "127.0.0.1:8080", "restate", "ftp://x", "http://", "http://x/?a=b"] {
            assert!(bad.parse::<Address>().is_err(), "{bad}");
        }
        assert_eq!("http://x:1/".parse::<Address>().unwrap().to_string(), "http://x:1");
    }
}
