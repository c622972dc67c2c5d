//! What stands in a stream and genai does not pass on: refusals, blocked prompts, and why a reply ended.

use std::sync::{Mutex, PoisonError};

use genai::chat::{ChatFrameSink, FrameCtx, RawFrameRef};
use serde_json::Value;

use super::family::Family;

/// Reads beside genai.
pub(super) struct Frames {
    family: Family,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    refusal: String,
    /// The whole prompt was refused.
    blocked: Option<String>,
    /// The provider's own word for why the reply ended.
    end: Option<String>,
    /// What it said about a failure.
    failure: Option<Value>,
    /// More about the end, in words.
    detail: Option<String>,
}

impl Frames {
    pub fn new(family: Family) -> Self {
        Self { family, seen: Mutex::default() }
    }

    /// What the model said when it declined.
    pub fn refusal(&self) -> String {
        self.read(|seen| seen.refusal.clone())
    }

    /// Why the prompt was not even answered.
    pub fn blocked(&self) -> Option<String> {
        self.read(|seen| seen.blocked.clone())
    }

    /// The provider's own word for why the reply ended.
    pub fn end(&self) -> Option<String> {
        self.read(|seen| seen.end.clone())
    }

    /// What the provider added to that word.
    pub fn detail(&self) -> Option<String> {
        self.read(|seen| seen.detail.clone())
    }

    /// What the provider said about its failure.
    pub fn failure(&self) -> Option<Value> {
        self.read(|seen| seen.failure.clone())
    }

    fn read<T>(&self, part: impl FnOnce(&Seen) -> T) -> T {
        part(&self.seen.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether a frame can hold anything of interest; spares most of them a second parse.
    fn is_worth_reading(&self, data: &str) -> bool {
        let words: &[&str] = match self.family {
            Family::Chat => &["\"refusal\"", "\"finish_reason\""],
            Family::Responses => &["response.refusal", "response.incomplete", "response.failed"],
            Family::Gemini => &["\"promptFeedback\"", "\"finishReason\""],
            Family::Anthropic | Family::Other => &[],
        };
        words.iter().any(|word| data.contains(word))
    }
}

impl ChatFrameSink for Frames {
    fn on_frame(&self, _stream: &FrameCtx, frame: RawFrameRef<'_>) {
        let Some(data) = Some(frame.data).filter(|data| self.is_worth_reading(data)) else {
            return;
        };
        let Ok(data) = serde_json::from_str::<Value>(data) else {
            return;
        };
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        match self.family {
            Family::Chat => seen.chat(&data),
            Family::Responses => seen.responses(&data),
            Family::Gemini => seen.gemini(&data),
            Family::Anthropic | Family::Other => {}
        }
    }
}

impl Seen {
    fn chat(&mut self, data: &Value) {
        let text = |pointer: &str| data.pointer(pointer).and_then(Value::as_str);
        self.refusal.push_str(text("/choices/0/delta/refusal").unwrap_or_default());
        if let Some(reason) = text("/choices/0/finish_reason") {
            self.end = Some(reason.to_owned());
        }
    }

    fn responses(&mut self, data: &Value) {
        let text = |pointer: &str| data.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
        match data.get("type").and_then(Value::as_str) {
            Some("response.refusal.delta") => self.refusal.push_str(&text("/delta").unwrap_or_default()),
            Some("response.incomplete") => self.end = text("/response/incomplete_details/reason"),
            Some("response.failed") => self.failure = data.pointer("/response/error").cloned(),
            _ => {}
        }
    }

    fn gemini(&mut self, data: &Value) {
        let text = |pointer: &str| data.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
        self.blocked = text("/promptFeedback/blockReason").or(self.blocked.take());
        self.end = text("/candidates/0/finishReason").or(self.end.take());
        self.detail = text("/candidates/0/finishMessage").or(self.detail.take());
    }
}
