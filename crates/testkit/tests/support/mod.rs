//! What all tests share: an HTTP client, and requests that end in a status and a JSON body.
#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "shared by several test binaries, each of which uses a part; tests stop at the first surprise"
)]

use reqwest::{Client, Method, RequestBuilder};
use serde_json::Value;
use toolwright_testkit::{Crm, LOOPBACK, crm};

/// The token of the CRMs that tests start.
pub const TOKEN: &str = "a-token-for-this-test";

/// A CRM of its own for one test, and a way to talk to it.
pub async fn start_crm() -> (crm::Handle, Api) {
    let crm = Crm::builder().token(TOKEN).start(LOOPBACK).await.unwrap();
    let api = Api::new(crm.base_url(), "authorization", format!("Bearer {TOKEN}"));
    (crm, api)
}

/// The ids of a page of the CRM, in order.
pub fn ids(page: &Value) -> Vec<&str> {
    let results = page["results"].as_array().unwrap();
    results.iter().map(|deal| deal["id"].as_str().unwrap()).collect()
}

/// A client that follows no redirects and keeps nothing between tests.
pub fn client() -> Client {
    // Another test of this binary may have installed the provider already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none()).build().unwrap()
}

/// One system under one credential.
pub struct Api {
    client: Client,
    base_url: String,
    credential: (&'static str, String),
}

impl Api {
    pub fn new(base_url: String, header: &'static str, value: impl Into<String>) -> Self {
        Self { client: client(), base_url, credential: (header, value.into()) }
    }

    pub fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let (header, value) = &self.credential;
        self.client.request(method, format!("{}{path}", self.base_url)).header(*header, value)
    }

    pub async fn get(&self, path: &str) -> (u16, Value) {
        answer(self.request(Method::GET, path)).await
    }

    pub async fn post(&self, path: &str, body: Value) -> (u16, Value) {
        answer(self.request(Method::POST, path).json(&body)).await
    }

    pub async fn patch(&self, path: &str, body: Value) -> (u16, Value) {
        answer(self.request(Method::PATCH, path).json(&body)).await
    }

    pub async fn delete(&self, path: &str) -> (u16, Value) {
        answer(self.request(Method::DELETE, path)).await
    }
}

/// Status and body; a body that is not JSON reads as null.
pub async fn answer(request: RequestBuilder) -> (u16, Value) {
    let response = request.send().await.unwrap();
    let status = response.status().as_u16();
    let body = response.bytes().await.unwrap();
    (status, serde_json::from_slice(&body).unwrap_or_default())
}
