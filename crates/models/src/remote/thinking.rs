//! Reasoning blocks of a reply that the provider requires in the next request. They are stored as opaque values.
//!
//! | protocol | value |
//! |---|---|
//! | Anthropic | the block itself: `{"type": "thinking", "thinking", "signature"}` or `{"type": "redacted_thinking", "data"}` |
//! | Gemini | `{"type": "thought_signature", "signature", "call"?}`, where `call` is the index of the call |
//! | Responses | `{"type": "encrypted_reasoning", "data"}` |
//! | Chat | `{"type": "reasoning_content", "text"}`, for providers that require it |
//!
//! A request contains only the values of its own protocol, so a conversation can continue with another provider.

use genai::adapter::AdapterKind;
use genai::chat::{ContentPart, CustomPart, MessageContent, ToolCall};
use serde_json::{Value, json};

use super::Target;
use super::protocol::Protocol;

/// Converts reasoning blocks to the content parts that a request places before the text of an assistant message. Skips
/// signatures of tool calls, and blocks of other protocols.
pub(super) fn leading_parts(target: &Target, blocks: &[Value]) -> Vec<ContentPart> {
    let part = |block: &Value| -> Option<ContentPart> {
        let text = |name: &str| block.get(name)?.as_str().map(str::to_owned);
        match (target.protocol, block.get("type")?.as_str()?) {
            (Protocol::Anthropic, "thinking" | "redacted_thinking") => {
                Some(ContentPart::Custom(CustomPart { model_iden: None, data: block.clone() }))
            }
            (Protocol::Gemini, "thought_signature") if block.get("call").is_none() => {
                text("signature").map(ContentPart::ThoughtSignature)
            }
            (Protocol::Responses, "encrypted_reasoning") => text("data").map(ContentPart::ThoughtSignature),
            (Protocol::Chat, "reasoning_content") if requires_reasoning(target.adapter) => {
                text("text").map(ContentPart::ReasoningContent)
            }
            _ => None,
        }
    };
    blocks.iter().filter_map(part).collect()
}

/// Returns the thought signatures that Gemini attached to the tool call at `index`. `None` for other protocols, or if
/// the call has none.
pub(super) fn call_signatures(target: &Target, blocks: &[Value], index: usize) -> Option<Vec<String>> {
    let belongs_to_call = |block: &&Value| block.get("call").and_then(Value::as_u64) == u64::try_from(index).ok();
    let signatures = blocks.iter().filter(belongs_to_call).filter_map(|block| block.get("signature")?.as_str());
    let signatures: Vec<String> = signatures.map(str::to_owned).collect();
    (target.protocol == Protocol::Gemini && !signatures.is_empty()).then_some(signatures)
}

/// Extracts the blocks of a reply that the next request must contain.
pub(super) fn extract_blocks(
    target: &Target,
    content: &MessageContent,
    calls: &[ToolCall],
    reasoning: Option<&str>,
) -> Vec<Value> {
    match target.protocol {
        Protocol::Anthropic => anthropic_blocks(content),
        Protocol::Gemini => gemini_signatures(content, calls),
        Protocol::Responses => {
            let encrypted = content.thought_signatures().into_iter();
            encrypted.map(|data| json!({"type": "encrypted_reasoning", "data": data})).collect()
        }
        Protocol::Chat if requires_reasoning(target.adapter) => {
            let text = reasoning.filter(|text| !text.is_empty());
            text.map(|text| json!({"type": "reasoning_content", "text": text})).into_iter().collect()
        }
        Protocol::Chat | Protocol::Other => Vec::new(),
    }
}

/// Restores signed blocks. `genai` splits each signed block into a signature and the text that follows it.
fn anthropic_blocks(content: &MessageContent) -> Vec<Value> {
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

/// Collects the signatures, each with the index of its call. A signature without a call was sent with the text.
fn gemini_signatures(content: &MessageContent, calls: &[ToolCall]) -> Vec<Value> {
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

/// Returns whether the provider rejects the result of a call without the reasoning that preceded the call.
fn requires_reasoning(adapter: AdapterKind) -> bool {
    matches!(adapter, AdapterKind::DeepSeek | AdapterKind::Kimi | AdapterKind::Moonshot | AdapterKind::Mistral)
}
