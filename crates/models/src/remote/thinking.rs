//! What a provider wants to see again: kept as opaque values between a reply and the next request.
//!
//! | family | value |
//! |---|---|
//! | Anthropic | the block itself: `{"type": "thinking", "thinking", "signature"}` or `{"type": "redacted_thinking", "data"}` |
//! | Gemini | `{"type": "thought_signature", "signature", "call"?}`, where `call` is the place among the calls |
//! | Responses | `{"type": "encrypted_reasoning", "data"}` |
//! | Chat | `{"type": "reasoning_content", "text"}`, for the providers that want it back |
//!
//! Each family takes back its own values only, so a conversation can move from one provider to another.

use genai::adapter::AdapterKind;
use genai::chat::{ContentPart, CustomPart, MessageContent, ToolCall};
use serde_json::{Value, json};

use super::Target;
use super::family::Family;

/// The parts that stand before everything else in a message that is repeated.
pub(super) fn leading(target: &Target, blocks: &[Value]) -> Vec<ContentPart> {
    let part = |block: &Value| -> Option<ContentPart> {
        let text = |name: &str| block.get(name)?.as_str().map(str::to_owned);
        match (target.family, block.get("type")?.as_str()?) {
            (Family::Anthropic, "thinking" | "redacted_thinking") => {
                Some(ContentPart::Custom(CustomPart { model_iden: None, data: block.clone() }))
            }
            (Family::Gemini, "thought_signature") if block.get("call").is_none() => {
                text("signature").map(ContentPart::ThoughtSignature)
            }
            (Family::Responses, "encrypted_reasoning") => text("data").map(ContentPart::ThoughtSignature),
            (Family::Chat, "reasoning_content") if wants_reasoning(target.adapter) => {
                text("text").map(ContentPart::ReasoningContent)
            }
            _ => None,
        }
    };
    blocks.iter().filter_map(part).collect()
}

/// What stands beside the call at this place.
pub(super) fn of_call(target: &Target, blocks: &[Value], index: usize) -> Option<Vec<String>> {
    let here = |block: &&Value| block.get("call").and_then(Value::as_u64) == u64::try_from(index).ok();
    let signatures = blocks.iter().filter(here).filter_map(|block| block.get("signature")?.as_str());
    let signatures: Vec<String> = signatures.map(str::to_owned).collect();
    (target.family == Family::Gemini && !signatures.is_empty()).then_some(signatures)
}

/// What is to be kept of a reply.
pub(super) fn kept(
    target: &Target,
    content: &MessageContent,
    calls: &[ToolCall],
    reasoning: Option<&str>,
) -> Vec<Value> {
    match target.family {
        Family::Anthropic => anthropic(content),
        Family::Gemini => gemini(content, calls),
        Family::Responses => {
            let blobs = content.thought_signatures().into_iter();
            blobs.map(|blob| json!({"type": "encrypted_reasoning", "data": blob})).collect()
        }
        Family::Chat if wants_reasoning(target.adapter) => {
            let text = reasoning.filter(|text| !text.is_empty());
            text.map(|text| json!({"type": "reasoning_content", "text": text})).into_iter().collect()
        }
        Family::Chat | Family::Other => Vec::new(),
    }
}

/// genai gives a signed block as its signature, then its text.
fn anthropic(content: &MessageContent) -> Vec<Value> {
    let mut blocks = Vec::new();
    let mut signature: Option<&str> = None;
    for part in content {
        match part {
            ContentPart::ThoughtSignature(text) => signature = Some(text),
            ContentPart::ReasoningContent(text) => {
                if let Some(signature) = signature.take() {
                    blocks.push(json!({"type": "thinking", "thinking": text, "signature": signature}));
                }
            }
            ContentPart::Custom(custom) if custom.typ() == Some("redacted_thinking") => {
                blocks.push(custom.data.clone())
            }
            _ => {}
        }
    }
    blocks
}

/// A signature belongs to the part that it came with: to a call, or to the text.
fn gemini(content: &MessageContent, calls: &[ToolCall]) -> Vec<Value> {
    let of_calls = calls.iter().enumerate().flat_map(|(index, call)| {
        let signatures = call.thought_signatures.iter().flatten();
        signatures.map(move |signature| (signature.as_str(), index))
    });
    let of_calls: Vec<(&str, usize)> = of_calls.collect();
    let of_text = content.thought_signatures().into_iter();
    let of_text = of_text.filter(|signature| !of_calls.iter().any(|(of_call, _)| of_call == signature));
    let of_text = of_text.map(|signature| json!({"type": "thought_signature", "signature": signature}));
    let of_calls = of_calls
        .iter()
        .map(|(signature, index)| json!({"type": "thought_signature", "signature": signature, "call": index}));
    of_text.chain(of_calls).collect()
}

/// The providers that refuse a call's result without the reasoning before the call.
fn wants_reasoning(adapter: AdapterKind) -> bool {
    matches!(adapter, AdapterKind::DeepSeek | AdapterKind::Kimi | AdapterKind::Moonshot | AdapterKind::Mistral)
}
