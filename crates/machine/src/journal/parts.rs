//! What the beginnings of many runs have in common: messages and tools. An entry names such a part by its hash, so that
//! a store keeps it once.

use std::collections::BTreeMap;

use data_encoding::HEXLOWER;
use serde_json::Value;
use sha2::{Digest, Sha256};

/// Shorter values stay where they are: naming one takes about as much.
const SHORTEST: usize = 256;
/// Where an entry keeps the names of its parts: by JSON pointer, the hash.
const PARTS: &str = "parts";
/// Where the beginning of a run has lists of what runs have in common.
const LISTS: [&str; 5] =
    ["/spec/request/messages", "/spec/request/tools", "/carried", "/recording/replies", "/recording/calls"];

/// Something that an entry names by the hash of what it says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// The hash, in hexadecimal.
    pub hash: String,
    /// What it says, as JSON.
    pub body: String,
}

/// Why an entry cannot be put together.
#[derive(Debug, thiserror::Error)]
pub enum BrokenParts {
    /// The entry is not JSON, or names its parts in a form that this release does not know.
    #[error("its parts cannot be read")]
    Unreadable(#[source] serde_json::Error),
    /// A part is not to be had.
    #[error("part {0} is missing")]
    Missing(String),
    /// A part does not say what its hash says.
    #[error("part {0} is not what its hash says")]
    Changed(String),
    /// The entry has no place for a part.
    #[error("there is no place `{0}` for a part")]
    NoPlace(String),
}

/// The hash that a part with this body is found by.
pub fn hash_of(body: &str) -> String {
    hash_of_bytes(body.as_bytes())
}

pub(super) fn hash_of_bytes(bytes: &[u8]) -> String {
    HEXLOWER.encode(&Sha256::digest(bytes))
}

/// Takes the parts out of an entry.
pub(super) fn take_out(entry: &mut Value) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut places = serde_json::Map::new();
    for list in LISTS {
        let items = entry.pointer_mut(list).and_then(Value::as_array_mut).into_iter().flatten();
        for (at, item) in items.enumerate() {
            let body = item.to_string();
            if body.len() >= SHORTEST {
                let hash = hash_of(&body);
                places.insert(format!("{list}/{at}"), Value::String(hash.clone()));
                *item = Value::Null;
                parts.push(Part { hash, body });
            }
        }
    }
    if let (false, Some(fields)) = (places.is_empty(), entry.as_object_mut()) {
        fields.insert(PARTS.to_owned(), Value::Object(places));
    }
    parts
}

/// The hashes of the parts that a written entry names, by their places.
pub fn named_in(body: &str) -> Result<BTreeMap<String, String>, BrokenParts> {
    #[derive(serde::Deserialize)]
    struct Named {
        #[serde(default)]
        parts: BTreeMap<String, String>,
    }
    Ok(serde_json::from_str::<Named>(body).map_err(BrokenParts::Unreadable)?.parts)
}

/// A written entry with its parts in their places.
pub fn put_back(body: &str, find: impl Fn(&str) -> Option<String>) -> Result<String, BrokenParts> {
    let named = named_in(body)?;
    if named.is_empty() {
        return Ok(body.to_owned());
    }
    let mut entry: Value = serde_json::from_str(body).map_err(BrokenParts::Unreadable)?;
    if let Some(fields) = entry.as_object_mut() {
        fields.shift_remove(PARTS);
    }
    for (place, hash) in named {
        let part = find(&hash).ok_or_else(|| BrokenParts::Missing(hash.clone()))?;
        if hash_of(&part) != hash {
            return Err(BrokenParts::Changed(hash));
        }
        let value = serde_json::from_str(&part).map_err(BrokenParts::Unreadable)?;
        *entry.pointer_mut(&place).ok_or(BrokenParts::NoPlace(place))? = value;
    }
    Ok(entry.to_string())
}
