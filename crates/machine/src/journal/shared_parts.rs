//! Shared parts: the messages, tools and recorded answers that the start entries of many runs have in common. An entry
//! refers to a shared part by its hash, so that the store keeps only one copy.

use std::collections::BTreeMap;

use data_encoding::HEXLOWER;
use serde_json::Value;
use sha2::{Digest, Sha256};

/// The minimum size of a shared part. A shorter value stays in the entry, because a reference would be about as long.
const MIN_PART_BYTES: usize = 256;
/// The field of an entry that maps JSON pointers to the hashes of shared parts.
const PARTS_KEY: &str = "shared_parts";
/// The lists in a start entry whose items can be shared.
const SHARED_LISTS: [&str; 5] =
    ["/spec/request/messages", "/spec/request/tools", "/tool_definitions", "/recording/replies", "/recording/calls"];

/// A value that entries refer to by its hash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedPart {
    /// The hash in hexadecimal.
    pub hash: String,
    /// The value as JSON text.
    pub body: String,
}

/// The reason why the shared parts of an entry cannot be restored.
#[derive(Debug, thiserror::Error)]
pub enum SharedPartError {
    /// The entry is not JSON, or its references to shared parts have an unknown format.
    #[error("the shared parts cannot be read")]
    Unreadable(#[source] serde_json::Error),
    /// A shared part does not exist.
    #[error("shared part `{0}` is missing")]
    Missing(String),
    /// The content of a shared part does not match its hash.
    #[error("shared part `{0}` does not match its hash")]
    Changed(String),
    /// The entry has no value at the pointer of a shared part.
    #[error("the entry has no value at `{0}` for a shared part")]
    InvalidPointer(String),
}

/// Returns the hash of a shared part with this body.
pub fn hash_of(body: &str) -> String {
    hash_of_bytes(body.as_bytes())
}

pub(super) fn hash_of_bytes(bytes: &[u8]) -> String {
    HEXLOWER.encode(&Sha256::digest(bytes))
}

/// Extracts the shared parts of an entry and replaces them by references.
pub(super) fn extract(entry: &mut Value) -> Vec<SharedPart> {
    let mut parts = Vec::new();
    let mut pointers = serde_json::Map::new();
    for list in SHARED_LISTS {
        let items = entry.pointer_mut(list).and_then(Value::as_array_mut).into_iter().flatten();
        for (at, item) in items.enumerate() {
            let body = item.to_string();
            if body.len() >= MIN_PART_BYTES {
                let hash = hash_of(&body);
                pointers.insert(format!("{list}/{at}"), Value::String(hash.clone()));
                *item = Value::Null;
                parts.push(SharedPart { hash, body });
            }
        }
    }
    if let (false, Some(fields)) = (pointers.is_empty(), entry.as_object_mut()) {
        fields.insert(PARTS_KEY.to_owned(), Value::Object(pointers));
    }
    parts
}

/// Returns the hashes of the shared parts that a stored entry refers to, by JSON pointer.
pub fn referenced_parts(body: &str) -> Result<BTreeMap<String, String>, SharedPartError> {
    #[derive(serde::Deserialize)]
    struct References {
        #[serde(default)]
        shared_parts: BTreeMap<String, String>,
    }
    Ok(serde_json::from_str::<References>(body).map_err(SharedPartError::Unreadable)?.shared_parts)
}

/// Restores the shared parts of a stored entry.
pub fn restore(body: &str, find: impl Fn(&str) -> Option<String>) -> Result<String, SharedPartError> {
    let referenced = referenced_parts(body)?;
    if referenced.is_empty() {
        return Ok(body.to_owned());
    }
    let mut entry: Value = serde_json::from_str(body).map_err(SharedPartError::Unreadable)?;
    if let Some(fields) = entry.as_object_mut() {
        fields.shift_remove(PARTS_KEY);
    }
    for (pointer, hash) in referenced {
        let part = find(&hash).ok_or_else(|| SharedPartError::Missing(hash.clone()))?;
        if hash_of(&part) != hash {
            return Err(SharedPartError::Changed(hash));
        }
        let value = serde_json::from_str(&part).map_err(SharedPartError::Unreadable)?;
        *entry.pointer_mut(&pointer).ok_or(SharedPartError::InvalidPointer(pointer))? = value;
    }
    Ok(entry.to_string())
}
