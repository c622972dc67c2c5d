//! Helpers of the tests: an HTTP client, a recording sink and requests.
#![allow(dead_code, reason = "each test binary uses some of the helpers")]

use serde_json::{Value, json};
use toolwright_models::Sink;
use toolwright_types::ModelRequest;

pub(crate) const KEY: &str = "sk-test-0123456789";

pub(crate) fn client() -> reqwest::Client {
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none()).build().unwrap()
}

/// A sink that records everything since the last restart.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct RecordingSink {
    pub text: Vec<String>,
    pub thinking: String,
    pub restarts: usize,
}

impl Sink for RecordingSink {
    fn text(&mut self, delta: &str) {
        self.text.push(delta.to_owned());
    }

    fn thinking(&mut self, delta: &str) {
        self.thinking.push_str(delta);
    }

    fn restart(&mut self) {
        *self = RecordingSink { restarts: self.restarts + 1, ..RecordingSink::default() };
    }
}

/// Creates a request with the given fields.
pub(crate) fn request(fields: Value) -> ModelRequest {
    let mut request = json!({"model": "recorded", "messages": []});
    request.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    serde_json::from_value(request).unwrap()
}

/// Creates a request with one user message.
pub(crate) fn user_request(text: &str) -> ModelRequest {
    request(json!({"messages": [{"role": "user", "content": text}]}))
}

pub(crate) fn weather_tool() -> Value {
    let schema = json!({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]});
    json!({"name": "get_weather", "description": "The weather in a city.", "input_schema": schema})
}
