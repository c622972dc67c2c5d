//! Talks to whichever server lives.

use std::time::Duration;

use reqwest::Method;
use serde_json::Value;
use tokio::sync::watch;
use toolwright_tools::http::{Egress, HttpClient};

use super::server::ADMIN_KEY;

/// How long an answer may take. A server that was killed breaks its connections; one that is silent is a finding.
const PATIENCE: Duration = Duration::from_secs(60);

/// The server died, or there was none.
#[derive(Debug)]
pub struct Gone;

/// A client. Clones share their connections.
#[derive(Clone)]
pub struct Client {
    http: reqwest::Client,
    address: watch::Receiver<Option<String>>,
}

impl Client {
    /// A client of the server whose address is in `address` while it lives.
    pub fn new(address: watch::Receiver<Option<String>>) -> Self {
        Self { http: HttpClient::new(Egress::everything()).unguarded().unwrap(), address }
    }

    /// Waits until there is a server.
    pub async fn server(&mut self) -> String {
        self.address.wait_for(Option::is_some).await.unwrap().clone().unwrap()
    }

    /// Waits until there is no server any more, or another one.
    pub async fn other_than(&mut self, url: &str) {
        self.address.wait_for(|address| address.as_deref() != Some(url)).await.unwrap();
    }

    /// Status and body of an answer.
    pub async fn ask(&self, method: Method, path: &str, body: Option<&Value>) -> Result<(u16, Value), Gone> {
        let request = self.request(method, path)?.timeout(PATIENCE);
        let request = match body {
            Some(body) => request.json(body),
            None => request,
        };
        let response = request.send().await.map_err(|_| Gone)?;
        let status = response.status().as_u16();
        Ok((status, response.json().await.map_err(|_| Gone)?))
    }

    /// The same from a server that nobody kills.
    pub async fn get(&self, path: &str) -> (u16, Value) {
        self.ask(Method::GET, path, None).await.unwrap()
    }

    /// Makes a definition at a server that nobody kills.
    pub async fn create(&self, kind: &str, body: Value) {
        let (status, answer) = self.ask(Method::POST, kind, Some(&body)).await.unwrap();
        assert_eq!(status, 201, "{kind} {}: {answer}", body["refName"]);
    }

    /// The events of a run after one that was seen.
    pub async fn events(&self, run: &str, after: u64) -> Result<reqwest::Response, Gone> {
        let request = self.request(Method::GET, &format!("runs/{run}/events"))?;
        request.header("Last-Event-ID", after.to_string()).send().await.map_err(|_| Gone)
    }

    fn request(&self, method: Method, path: &str) -> Result<reqwest::RequestBuilder, Gone> {
        let address = self.address.borrow().clone().ok_or(Gone)?;
        Ok(self.http.request(method, format!("{address}/api/v1/ai/{path}")).bearer_auth(ADMIN_KEY))
    }
}
