//! Reads the parts of a stream that `genai` drops: refusals, blocked prompts and stop reasons.

use std::sync::{Mutex, PoisonError};

use genai::chat::{ChatFrameSink, FrameCtx, RawFrameRef};
use serde_json::Value;
use toolwright_budget::LimitExceeded;

use super::protocol::Protocol;

/// Observes the raw frames of a stream.
pub(super) struct FrameObserver {
    protocol: Protocol,
    observed: Mutex<Observed>,
}

#[derive(Default)]
struct Observed {
    /// The text of a refusal.
    refusal: String,
    /// The reason why the prompt was blocked.
    block_reason: Option<String>,
    /// The provider's stop reason.
    stop_reason: Option<String>,
    /// The provider's explanation of the stop reason.
    stop_message: Option<String>,
    /// The error object of a failed reply.
    failure: Option<Value>,
    /// The limit that a frame exceeded.
    exceeded: Option<LimitExceeded>,
}

impl FrameObserver {
    pub(super) fn new(protocol: Protocol) -> Self {
        Self { protocol, observed: Mutex::default() }
    }

    /// The text of a refusal; empty if the model did not refuse.
    pub(super) fn refusal(&self) -> String {
        self.read(|observed| observed.refusal.clone())
    }

    /// The reason why the provider blocked the prompt.
    pub(super) fn block_reason(&self) -> Option<String> {
        self.read(|observed| observed.block_reason.clone())
    }

    /// The provider's stop reason.
    pub(super) fn stop_reason(&self) -> Option<String> {
        self.read(|observed| observed.stop_reason.clone())
    }

    /// The provider's explanation of the stop reason.
    pub(super) fn stop_message(&self) -> Option<String> {
        self.read(|observed| observed.stop_message.clone())
    }

    /// The error object of a failed reply.
    pub(super) fn failure(&self) -> Option<Value> {
        self.read(|observed| observed.failure.clone())
    }

    /// The limit that a frame exceeded; `None` if all frames were within the limits.
    pub(super) fn exceeded(&self) -> Option<LimitExceeded> {
        self.read(|observed| observed.exceeded)
    }

    fn read<T>(&self, get: impl FnOnce(&Observed) -> T) -> T {
        get(&self.observed.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns whether a frame may contain a refusal, a block reason, a stop reason or an error. Other frames are not
    /// parsed, because `genai` parses them already.
    fn is_relevant(&self, data: &str) -> bool {
        let markers: &[&str] = match self.protocol {
            Protocol::Chat => &["\"refusal\"", "\"finish_reason\""],
            Protocol::Responses => &["response.refusal", "response.incomplete", "response.failed"],
            Protocol::Gemini => &["\"promptFeedback\"", "\"finishReason\""],
            Protocol::Anthropic | Protocol::Other => &[],
        };
        markers.iter().any(|marker| data.contains(marker))
    }
}

impl ChatFrameSink for FrameObserver {
    fn on_frame(&self, _stream: &FrameCtx, frame: RawFrameRef<'_>) {
        if let Err(exceeded) = toolwright_budget::check(frame.data.as_bytes()) {
            self.observed.lock().unwrap_or_else(PoisonError::into_inner).exceeded = Some(exceeded);
            return;
        }
        let Some(data) = Some(frame.data).filter(|data| self.is_relevant(data)) else {
            return;
        };
        let Ok(data) = serde_json::from_str::<Value>(data) else {
            return;
        };
        let mut observed = self.observed.lock().unwrap_or_else(PoisonError::into_inner);
        match self.protocol {
            Protocol::Chat => observed.chat(&data),
            Protocol::Responses => observed.responses(&data),
            Protocol::Gemini => observed.gemini(&data),
            Protocol::Anthropic | Protocol::Other => {}
        }
    }
}

impl Observed {
    fn chat(&mut self, data: &Value) {
        let text = |pointer: &str| data.pointer(pointer).and_then(Value::as_str);
        self.refusal.push_str(text("/choices/0/delta/refusal").unwrap_or_default());
        if let Some(reason) = text("/choices/0/finish_reason") {
            self.stop_reason = Some(reason.to_owned());
        }
    }

    fn responses(&mut self, data: &Value) {
        let text = |pointer: &str| data.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
        match data.get("type").and_then(Value::as_str) {
            Some("response.refusal.delta") => self.refusal.push_str(&text("/delta").unwrap_or_default()),
            Some("response.incomplete") => self.stop_reason = text("/response/incomplete_details/reason"),
            Some("response.failed") => self.failure = data.pointer("/response/error").cloned(),
            _ => {}
        }
    }

    fn gemini(&mut self, data: &Value) {
        let text = |pointer: &str| data.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
        self.block_reason = text("/promptFeedback/blockReason").or(self.block_reason.take());
        self.stop_reason = text("/candidates/0/finishReason").or(self.stop_reason.take());
        self.stop_message = text("/candidates/0/finishMessage").or(self.stop_message.take());
    }
}
