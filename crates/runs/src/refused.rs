//! What the journal keeps of a direct call whose preparation was refused.
//!
//! A principal without any permission can cause such calls. Its input is not stored, because it could fill the disk.
//! The digest proves later which input was sent.

use serde_json::{Value, json};
use toolwright_types::ToolEnvelope;
use toolwright_types::json::{canonical, hex_digest};

/// Longer messages are shortened. They can quote the input.
const MAX_MESSAGE_CHARS: usize = 1000;
/// Larger error details are replaced by a digest. They can quote the input.
const MAX_DETAILS_BYTES: usize = 4096;

/// Returns the size and the SHA-256 of a value in canonical JSON, as a value that takes its place.
pub(crate) fn digest(value: &Value) -> Value {
    json!({ "omitted": { "sha256": hex_digest(value), "bytes": canonical(value).len() } })
}

/// Returns the envelope without its input and with an error of limited size. The reason of the error is kept.
pub(crate) fn shortened(mut envelope: ToolEnvelope) -> ToolEnvelope {
    envelope.input = digest(&envelope.input);
    if let Some(error) = &mut envelope.error {
        if let Some((end, _)) = error.message.char_indices().nth(MAX_MESSAGE_CHARS) {
            error.message.truncate(end);
            error.message.push('…');
        }
        if let Some(details) = &mut error.details
            && details.to_string().len() > MAX_DETAILS_BYTES
        {
            let reason = details.get("reason").cloned();
            *details = digest(details);
            if let (Some(fields), Some(reason)) = (details.as_object_mut(), reason) {
                fields.insert("reason".to_owned(), reason);
            }
        }
    }
    envelope
}
