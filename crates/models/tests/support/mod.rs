//! What the tests of this crate share: a client, a sink that remembers, short ways to write requests.
#![allow(dead_code, reason = "each test binary uses its part")]

use serde_json::{Value, json};
use toolwright_models::Sink;
use toolwright_types::ModelRequest;

pub const KEY: &str = "sk-test-0123456789";

pub fn client() -> reqwest::Client {
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none()).build().unwrap()
}

/// What a sink has heard since the last restart.
#[derive(Debug, Default, PartialEq)]
pub struct Heard {
    pub text: Vec<String>,
    pub thinking: String,
    pub restarts: usize,
}

impl Sink for Heard {
    fn text(&mut self, delta: &str) {
        self.text.push(delta.to_owned());
    }

    fn thinking(&mut self, delta: &str) {
        self.thinking.push_str(delta);
    }

    fn restart(&mut self) {
        *self = Heard { restarts: self.restarts + 1, ..Heard::default() };
    }
}

/// A request with these fields beside the model.
pub fn request(fields: Value) -> ModelRequest {
    let mut whole = json!({"model": "recorded", "messages": []});
    whole.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    serde_json::from_value(whole).unwrap()
}

/// A request in which the user says `text`.
pub fn user(text: &str) -> ModelRequest {
    request(json!({"messages": [{"role": "user", "content": text}]}))
}

pub fn weather_tool() -> Value {
    let schema = json!({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]});
    json!({"name": "get_weather", "description": "The weather in a city.", "input_schema": schema})
}
