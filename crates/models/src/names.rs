//! Encodes tool names for providers, which accept only `[A-Za-z0-9_-]{1,64}`.
//!
//! Exports use the same encoding (`toolwright_tools::export::mangle`), so a tool has the same name everywhere. This
//! module also encodes names that are not refNames, and names that providers reserve for their own tools:
//!
//! | form | for | example |
//! |---|---|---|
//! | readable: `/` is `__`, `.` is `_-` | refNames that start with a letter and contain neither `__` nor `_-` | `crm/search` → `crm__search` |
//! | escaped: `_`, then `/` is `-s`, `.` is `-d`, `-` is `--` | other refNames, and reserved names | `web_search` → `_web_search` |
//! | hashed: `_`, a prefix, `-x`, 20 digits of SHA-256 | long names, and names that are not refNames | `wetter für Köln` → `_wetter_f_r_K_ln-x0f3a…` |
//!
//! The encoding depends only on the name, so it is stable throughout a conversation. Names are not decoded: a model can
//! only use the names of its request, and a [`NameTable`] maps these to the original names.

use std::collections::HashMap;

use serde_json::Value;
use toolwright_types::json::hex_digest;
use toolwright_types::{Message, ModelRequest, RefName};

const MAX_NAME_BYTES: usize = 64;
const HASH_DIGITS: usize = 20;
const HASHED_PREFIX_CHARS: usize = MAX_NAME_BYTES - HASH_DIGITS - "_-x".len();

/// Names that the `genai` crate treats as built-in tools of the provider, even if the request contains a schema for the
/// tool.
const RESERVED: [&str; 5] = ["web_search", "googleSearch", "googleSearchRetrieval", "codeExecution", "urlContext"];

/// Returns the encoded name of a tool.
pub(crate) fn wire_name(name: &str) -> String {
    let wire = match name.parse::<RefName>() {
        Ok(_) => readable(name).unwrap_or_else(|| escaped(name)),
        Err(_) => hashed(name),
    };
    if wire.len() <= MAX_NAME_BYTES { wire } else { hashed(name) }
}

/// Maps the encoded names of one request to the original names.
#[derive(Debug, Default)]
pub(crate) struct NameTable(HashMap<String, String>);

impl NameTable {
    /// Creates the table of the tools that `request` offers or that its conversation mentions.
    pub(crate) fn new(request: &ModelRequest) -> Self {
        let offered = request.tools.iter().map(|tool| tool.name.as_str());
        let called = request.messages.iter().flat_map(|message| match message {
            Message::Assistant { tool_calls, .. } => tool_calls.as_slice(),
            _ => &[],
        });
        // Offered tools come last, so they take precedence over tools that only the conversation mentions.
        let names = called.map(|call| call.name.as_str()).chain(offered);
        Self(names.map(|name| (wire_name(name), name.to_owned())).collect())
    }

    /// Returns the original of an encoded name. Unknown names, which the model invented, are returned unchanged.
    pub(crate) fn original(&self, wire: &str) -> String {
        self.0.get(wire).map_or(wire, String::as_str).to_owned()
    }
}

fn readable(name: &str) -> Option<String> {
    let plain = name.starts_with(|first: char| first.is_ascii_alphabetic());
    let free = !name.contains("__") && !name.contains("_-") && !RESERVED.contains(&name);
    (plain && free).then(|| name.replace('/', "__").replace('.', "_-"))
}

fn escaped(name: &str) -> String {
    format!("_{}", name.replace('-', "--").replace('/', "-s").replace('.', "-d"))
}

fn hashed(name: &str) -> String {
    let plain = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' });
    let prefix: String = plain.take(HASHED_PREFIX_CHARS).collect();
    let digits: String = hex_digest(&Value::from(name)).chars().take(HASH_DIGITS).collect();
    format!("_{prefix}-x{digits}")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn is_valid(wire: &str) -> bool {
        (1..=MAX_NAME_BYTES).contains(&wire.len())
            && wire.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
            && wire.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
    }

    #[test]
    fn encoded_names_match_the_documentation() {
        let table = [
            ("get_weather", "get_weather"),
            ("hubspot/search-deals", "hubspot__search-deals"),
            ("v1.2", "v1_-2"),
            ("a__b", "_a__b"),
            ("9/x.y", "_9-sx-dy"),
            ("web_search", "_web_search"),
            ("googleSearch", "_googleSearch"),
        ];
        for (name, wire) in table {
            assert_eq!(wire_name(name), wire);
        }
        for name in ["", "wetter für Köln", "_private", "搜索", &"x".repeat(65), "a b"] {
            assert!(is_valid(&wire_name(name)) && wire_name(name).contains("-x"), "{name}");
        }
    }

    proptest! {
        #[test]
        fn encoded_names_are_valid_for_providers_and_distinct(one in "\\PC{0,70}", two in "[A-Za-z0-9_./-]{0,70}") {
            prop_assert!(is_valid(&wire_name(&one)));
            prop_assert!(is_valid(&wire_name(&two)));
            prop_assert_eq!(wire_name(&one) == wire_name(&two), one == two);
        }

        #[test]
        fn similar_names_have_different_encodings(one in "[a-b_./-]{1,6}", two in "[a-b_./-]{1,6}") {
            prop_assert_eq!(wire_name(&one) == wire_name(&two), one == two);
        }
    }
}
