//! Shared test helpers: an HTTP client whose requests return a status and a JSON body.
#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "shared by several test binaries, each of which uses some of it; a panic fails the test"
)]

use reqwest::{Client, Method, RequestBuilder};
use serde_json::Value;
use toolwright_testkit::{Crm, LOOPBACK, crm};

/// The token of the CRMs that the tests start.
pub(crate) const TOKEN: &str = "a-token-for-this-test";

/// Starts a CRM for one test and returns it with a client.
pub(crate) async fn start_crm() -> (crm::Handle, Api) {
    let crm = Crm::builder().token(TOKEN).start(LOOPBACK).await.unwrap();
    let api = Api::new(crm.base_url(), "authorization", format!("Bearer {TOKEN}"));
    (crm, api)
}

/// Returns the ids of the results on a page of the CRM.
pub(crate) fn ids(page: &Value) -> Vec<&str> {
    let results = page["results"].as_array().unwrap();
    results.iter().map(|deal| deal["id"].as_str().unwrap()).collect()
}

/// Returns a new client that does not follow redirects.
pub(crate) fn client() -> Client {
    // Installing the provider fails if another test of this binary has already installed it. The error is ignored,
    // because both install the same provider.
    let _ = rustls::crypto::ring::default_provider().install_default();
    Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none()).build().unwrap()
}

/// A client of one fixture system with one credential.
pub(crate) struct Api {
    client: Client,
    base_url: String,
    credential: (&'static str, String),
}

impl Api {
    pub(crate) fn new(base_url: String, header: &'static str, value: impl Into<String>) -> Self {
        Self { client: client(), base_url, credential: (header, value.into()) }
    }

    pub(crate) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let (header, value) = &self.credential;
        self.client.request(method, format!("{}{path}", self.base_url)).header(*header, value)
    }

    pub(crate) async fn get(&self, path: &str) -> (u16, Value) {
        answer(self.request(Method::GET, path)).await
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> (u16, Value) {
        answer(self.request(Method::POST, path).json(&body)).await
    }

    pub(crate) async fn patch(&self, path: &str, body: Value) -> (u16, Value) {
        answer(self.request(Method::PATCH, path).json(&body)).await
    }

    pub(crate) async fn delete(&self, path: &str) -> (u16, Value) {
        answer(self.request(Method::DELETE, path)).await
    }
}

/// Sends a request. Returns the status and the body. A body that is not JSON becomes null.
pub(crate) async fn answer(request: RequestBuilder) -> (u16, Value) {
    let response = request.send().await.unwrap();
    let status = response.status().as_u16();
    let body = response.bytes().await.unwrap();
    (status, serde_json::from_slice(&body).unwrap_or_default())
}
