//! What the model is shown of a call: compact, bounded, and with a note where something needs one.

use serde_json::json;
use toolwright_types::{Attachment, AttachmentKind, Message, ToolEnvelope};

use super::call::Call;
use super::decide::REPEAT_WARNED;
use super::facts::MODEL_OUTPUT_BYTES;
use super::ledger::Ledger;

/// How much of an edited input the model is shown.
const EDITED_INPUT_BYTES: usize = 2_000;
/// The largest picture: 5 MB once it is base64, the least that a provider takes.
const SHOWN_IMAGE_BYTES: u64 = 3_750_000;

/// One message for each call, in the order of the calls, whatever the order they ended in.
pub(super) fn tool_messages(calls: &[Call], ledger: &Ledger) -> Vec<Message> {
    calls.iter().filter_map(|call| ledger.receipt(&call.call_id).map(|envelope| tool_message(call, envelope))).collect()
}

fn tool_message(call: &Call, envelope: &ToolEnvelope) -> Message {
    let limit = call.facts.as_ref().map_or(MODEL_OUTPUT_BYTES, |facts| facts.model_output_bytes);
    let mut content = shown(envelope, usize::try_from(limit).unwrap_or(usize::MAX));
    if call.edited_from.is_some() {
        let (input, _) = cut(call.input.to_string(), EDITED_INPUT_BYTES);
        note(&mut content, &format!("a person changed the arguments of this call to {input}"));
    }
    if call.repeat == REPEAT_WARNED {
        note(&mut content, "this call was made before with the same arguments; another repeat will not be run");
    }
    Message::Tool {
        id: call.model_id.clone(),
        name: call.asked_name.clone(),
        content,
        is_error: envelope.error.is_some(),
        images: envelope.attachments.iter().filter(|attachment| can_be_shown(attachment)).cloned().collect(),
    }
}

/// Whether a picture is of a kind and size that every model which takes pictures takes.
fn can_be_shown(attachment: &Attachment) -> bool {
    let essence = attachment.content_type.as_deref().and_then(|text| text.split(';').next()).unwrap_or_default().trim();
    attachment.kind == AttachmentKind::Image
        && ["image/png", "image/jpeg", "image/gif", "image/webp"].contains(&essence)
        && attachment.bytes.is_some_and(|bytes| bytes <= SHOWN_IMAGE_BYTES)
}

fn shown(envelope: &ToolEnvelope, limit: usize) -> String {
    let whole = match &envelope.error {
        Some(error) => json!({ "error": error }).to_string(),
        None => envelope.output.to_string(),
    };
    let size = whole.len();
    let (mut content, was_cut) = cut(whole, limit);
    if was_cut {
        let kept = content.len();
        note(&mut content, &format!("cut after {kept} of {size} bytes; the rest is in {}", envelope.call_id));
    }
    content
}

fn cut(mut text: String, limit: usize) -> (String, bool) {
    if text.len() <= limit {
        return (text, false);
    }
    text.truncate(text.floor_char_boundary(limit));
    (text, true)
}

fn note(content: &mut String, text: &str) {
    content.push_str("\n\n[note: ");
    content.push_str(text);
    content.push(']');
}
