//! An HTTP client that always sends its requests to the server process that is currently running.

use std::time::Duration;

use reqwest::Method;
use serde_json::Value;
use tokio::sync::watch;
use toolwright_tools::http::{EgressPolicy, HttpClient};

use super::server::ADMIN_KEY;

/// How long a response may take. A killed server closes its connections, so a timeout indicates a bug.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The error of a request that failed because the server was killed or no server is running.
#[derive(Debug)]
pub(crate) struct ServerGone;

/// An HTTP client. Clones share their connections.
#[derive(Clone)]
pub(crate) struct Client {
    http: reqwest::Client,
    address: watch::Receiver<Option<String>>,
}

impl Client {
    /// Creates a client. `address` contains the address of the running server, or `None` while no server runs.
    pub(crate) fn new(address: watch::Receiver<Option<String>>) -> Self {
        Self { http: HttpClient::new(EgressPolicy::unrestricted()).unrestricted_client().unwrap(), address }
    }

    /// Waits until a server is running and returns its URL.
    pub(crate) async fn wait_for_server(&mut self) -> String {
        self.address.wait_for(Option::is_some).await.unwrap().clone().unwrap()
    }

    /// Waits until the server at `url` is killed or another server replaces it.
    pub(crate) async fn wait_for_other_server(&mut self, url: &str) {
        self.address.wait_for(|address| address.as_deref() != Some(url)).await.unwrap();
    }

    /// Sends a request and returns the status and the body of the response.
    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<(u16, Value), ServerGone> {
        let request = self.build_request(method, path)?.timeout(TIMEOUT);
        let request = match body {
            Some(body) => request.json(body),
            None => request,
        };
        let response = request.send().await.map_err(|_| ServerGone)?;
        let status = response.status().as_u16();
        Ok((status, response.json().await.map_err(|_| ServerGone)?))
    }

    /// Sends a GET request. The server must not be killed before it responds.
    pub(crate) async fn get(&self, path: &str) -> (u16, Value) {
        self.send(Method::GET, path, None).await.unwrap()
    }

    /// Creates a definition. The server must not be killed before it responds.
    pub(crate) async fn create(&self, kind: &str, body: Value) {
        let (status, answer) = self.send(Method::POST, kind, Some(&body)).await.unwrap();
        assert_eq!(status, 201, "{kind} {}: {answer}", body["refName"]);
    }

    /// Opens the event stream of a run. The first event is the one after the event with id `after`.
    pub(crate) async fn events(&self, run: &str, after: u64) -> Result<reqwest::Response, ServerGone> {
        let request = self.build_request(Method::GET, &format!("runs/{run}/events"))?;
        request.header("Last-Event-ID", after.to_string()).send().await.map_err(|_| ServerGone)
    }

    fn build_request(&self, method: Method, path: &str) -> Result<reqwest::RequestBuilder, ServerGone> {
        let address = self.address.borrow().clone().ok_or(ServerGone)?;
        Ok(self.http.request(method, format!("{address}/api/v1/ai/{path}")).bearer_auth(ADMIN_KEY))
    }
}
