//! Converts the results of calls to messages for the model, as compact JSON with a size limit.

use serde_json::json;
use toolwright_types::{Attachment, AttachmentKind, Message, ToolEnvelope};

use super::call::Call;
use super::decide::REPEAT_WARNING_AT;
use super::facts::MODEL_OUTPUT_BYTES;
use super::ledger::Ledger;

/// The maximum size of an edited input in a message.
const MAX_EDITED_INPUT_BYTES: usize = 2_000;
/// The maximum image size: 5 MB as base64, the smallest limit among the model providers.
const MAX_IMAGE_BYTES: u64 = 3_750_000;

/// Returns one message for each call, in call order. The order in which the calls ended does not matter.
pub(super) fn tool_messages(calls: &[Call], ledger: &Ledger) -> Vec<Message> {
    calls
        .iter()
        .filter_map(|call| ledger.envelope(&call.call_id).map(|envelope| tool_message(call, envelope)))
        .collect()
}

fn tool_message(call: &Call, envelope: &ToolEnvelope) -> Message {
    let limit = call.facts.as_ref().map_or(MODEL_OUTPUT_BYTES, |facts| facts.model_output_bytes);
    let mut content = render_result(envelope, usize::try_from(limit).unwrap_or(usize::MAX));
    for message in &envelope.metadata.messages {
        append_note(&mut content, &format!("message of the tool: {message}"));
    }
    if call.edited_from.is_some() {
        let (input, _) = truncate(call.input.to_string(), MAX_EDITED_INPUT_BYTES);
        append_note(&mut content, &format!("a person changed the arguments of this call to {input}"));
    }
    if call.repeat == REPEAT_WARNING_AT {
        append_note(&mut content, "this call was already made with the same arguments; another repeat will not be run");
    }
    Message::Tool {
        id: call.model_id.clone(),
        name: call.requested_name.clone(),
        content,
        is_error: envelope.error.is_some(),
        images: envelope.attachments.iter().filter(|attachment| is_supported_image(attachment)).cloned().collect(),
    }
}

/// Whether every model with image input accepts an image of this type and size.
fn is_supported_image(attachment: &Attachment) -> bool {
    let essence = attachment.content_type.as_deref().and_then(|text| text.split(';').next()).unwrap_or_default().trim();
    attachment.kind == AttachmentKind::Image
        && ["image/png", "image/jpeg", "image/gif", "image/webp"].contains(&essence)
        && attachment.bytes.is_some_and(|bytes| bytes <= MAX_IMAGE_BYTES)
}

fn render_result(envelope: &ToolEnvelope, limit: usize) -> String {
    let whole = match &envelope.error {
        Some(error) => json!({ "error": error }).to_string(),
        None => envelope.output.to_string(),
    };
    let size = whole.len();
    let (mut content, truncated) = truncate(whole, limit);
    if truncated {
        let kept = content.len();
        append_note(
            &mut content,
            &format!("truncated after {kept} of {size} bytes; the rest is in {}", envelope.call_id),
        );
    }
    content
}

fn truncate(mut text: String, limit: usize) -> (String, bool) {
    if text.len() <= limit {
        return (text, false);
    }
    text.truncate(text.floor_char_boundary(limit));
    (text, true)
}

fn append_note(content: &mut String, text: &str) {
    content.push_str("\n\n[note: ");
    content.push_str(text);
    content.push(']');
}
