//! Reduces the data that the journal stores about a direct call whose preparation was refused.
//!
//! A principal without any permission can cause such calls. So the input is not stored, because such inputs could fill
//! the disk. The journal has a digest of the input instead, which can prove later which input was sent.

use serde_json::{Value, json};
use toolwright_types::ToolEnvelope;
use toolwright_types::json::{canonical, hex_digest};

/// The maximum length of an error message. A longer message is shortened, because it can quote the input.
const MAX_MESSAGE_CHARS: usize = 1000;
/// The maximum size of error details. Larger details are replaced by a digest, because they can quote the input.
const MAX_DETAILS_BYTES: usize = 4096;

/// Returns a replacement for a value: the size and the SHA-256 of its canonical JSON.
pub(crate) fn digest(value: &Value) -> Value {
    json!({ "omitted": { "sha256": hex_digest(value), "bytes": canonical(value).len() } })
}

/// Returns the envelope with a digest in place of its input, and with an error of limited size. The `reason` in the
/// details of the error is kept.
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
