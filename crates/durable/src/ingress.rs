//! Restate as this server reaches it.

use std::time::Duration;

use futures::future::BoxFuture;
use toolwright_engine::runs::{ConductError, Conductor};
use toolwright_tools::http::{Egress, HttpClient};
use toolwright_types::RunId;
use url::Url;

use crate::services::RUN_OBJECT;

/// How long Restate may be away before whoever asked is told.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long one answer may take. A run that hears something has only its journal to write.
const ANSWER: Duration = Duration::from_secs(10);
/// How long to wait before trying again: at first, and at most.
const PAUSE: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));

/// An HTTP address without a path of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address(Url);

/// Text that is no such address.
#[derive(Debug, thiserror::Error)]
#[error("`{0}` is no address like `http://127.0.0.1:8080`")]
pub struct AddressError(String);

impl std::str::FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let refused = || AddressError(text.to_owned());
        let url: Url = text.parse().map_err(|_| refused())?;
        let plain = matches!(url.scheme(), "http" | "https") && url.has_host() && url.query().is_none();
        if plain { Ok(Self(url)) } else { Err(refused()) }
    }
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0.as_str().trim_end_matches('/'))
    }
}

/// A client of Restate's ingress. Clones share their connections.
#[derive(Clone)]
pub struct Ingress {
    address: Address,
    http: reqwest::Client,
}

/// Why Restate did not do what it was asked to.
#[derive(Debug, thiserror::Error)]
enum Refusal {
    #[error("send a request to Restate at `{address}`")]
    Unreachable {
        address: Address,
        #[source]
        source: reqwest::Error,
    },
    #[error("Restate at `{address}` answered {status}: {body}")]
    Refused { address: Address, status: u16, body: String },
}

impl Ingress {
    /// A client of the ingress at `address`.
    pub fn at(address: Address) -> Result<Self, ConductError> {
        // The operator has set the address: the rules of what tools may reach are not for it.
        let http = HttpClient::new(Egress::everything()).unguarded();
        Ok(Self { address, http: http.map_err(|failure| failure.error.message)? })
    }

    /// Invokes a handler of a run until Restate has taken it. What runs are told can be told twice.
    async fn invoke(&self, how: &str, run: RunId, handler: &str, body: Option<String>) -> Result<(), ConductError> {
        let url = format!("{}/restate/{how}/{RUN_OBJECT}/{run}/{handler}", self.address);
        let begun = tokio::time::Instant::now();
        let mut pause = PAUSE.0;
        loop {
            let mut request = self.http.post(&url).timeout(ANSWER);
            if let Some(body) = &body {
                request = request.header("content-type", "application/json").body(body.clone());
            }
            let refusal = match self.outcome(request).await {
                Ok(()) => return Ok(()),
                Err(refusal) => refusal,
            };
            if begun.elapsed() + pause > PATIENCE {
                return Err(Box::new(refusal));
            }
            tracing::debug!(%run, handler, error = &refusal as &dyn std::error::Error, "Restate is asked once more");
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(PAUSE.1);
        }
    }

    async fn outcome(&self, request: reqwest::RequestBuilder) -> Result<(), Refusal> {
        let unreachable = |source| Refusal::Unreachable { address: self.address.clone(), source };
        let response = request.send().await.map_err(unreachable)?;
        let status = response.status();
        if status.is_success() {
            return Ok(());
        }
        let body = response.text().await.unwrap_or_default();
        Err(Refusal::Refused { address: self.address.clone(), status: status.as_u16(), body })
    }
}

impl Conductor for Ingress {
    fn wake(&self, run: RunId) -> BoxFuture<'_, Result<(), ConductError>> {
        Box::pin(self.invoke("send", run, "wake", None))
    }

    fn hear<'a>(&'a self, run: RunId, said: &'a str) -> BoxFuture<'a, Result<(), ConductError>> {
        Box::pin(self.invoke("call", run, "hear", Some(serde_json::Value::from(said).to_string())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_that_of_a_server() {
        for good in ["http://127.0.0.1:8080", "https://restate.example/", "http://[::1]:8080/prefix"] {
            assert!(good.parse::<Address>().is_ok(), "{good}");
        }
        for bad in ["", "127.0.0.1:8080", "restate", "ftp://x", "http://", "http://x/?a=b"] {
            assert!(bad.parse::<Address>().is_err(), "{bad}");
        }
        assert_eq!("http://x:1/".parse::<Address>().unwrap().to_string(), "http://x:1");
    }
}
