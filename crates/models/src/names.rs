//! Tool names on the way to a provider: it takes `[A-Za-z0-9_-]{1,64}`, a tool may be called anything.
//!
//! The forms are those of the exports (`toolwright_tools::export::mangle`), so that a tool is called the same wherever
//! it goes; names that are no refName, and names that providers keep for tools of their own, come on top:
//!
//! | form | for | example |
//! |---|---|---|
//! | readable: `/` is `__`, `.` is `_-` | refNames that begin with a letter and have no `__` or `_-` of their own | `crm/search` → `crm__search` |
//! | marked: `_`, then `/` is `-s`, `.` is `-d`, `-` is `--` | other refNames, and reserved names | `web_search` → `_web_search` |
//! | hashed: `_`, a beginning, `-x`, 20 digits of SHA-256 | what is too long or no refName | `wetter für Köln` → `_wetter_f_r_K_ln-x0f3a…` |
//!
//! A form depends on the name alone, so a name keeps it throughout a conversation. Reading back needs no inverse: a
//! model can only answer with names of its own request, and a [`NameTable`] holds those.

use std::collections::HashMap;

use serde_json::Value;
use toolwright_types::json::hex_digest;
use toolwright_types::{Message, ModelRequest, RefName};

const LONGEST: usize = 64;
const HASH_DIGITS: usize = 20;
const HASHED_BEGINNING: usize = LONGEST - HASH_DIGITS - "_-x".len();

/// Names that the `genai` crate takes for a provider's own tools, whatever their schema.
const RESERVED: [&str; 5] = ["web_search", "googleSearch", "googleSearchRetrieval", "codeExecution", "urlContext"];

/// The name under which a provider knows `name`.
pub(crate) fn wire_name(name: &str) -> String {
    let wire = match name.parse::<RefName>() {
        Ok(_) => readable(name).unwrap_or_else(|| marked(name)),
        Err(_) => hashed(name),
    };
    if wire.len() <= LONGEST { wire } else { hashed(name) }
}

/// The names of one request, by what they are called on the wire.
#[derive(Debug, Default)]
pub(crate) struct NameTable(HashMap<String, String>);

impl NameTable {
    /// The tools that `request` offers, and those that its conversation mentions.
    pub fn of(request: &ModelRequest) -> Self {
        let offered = request.tools.iter().map(|tool| tool.name.as_str());
        let called = request.messages.iter().flat_map(|message| match message {
            Message::Assistant { tool_calls, .. } => tool_calls.as_slice(),
            _ => &[],
        });
        // An offered tool comes last and so wins over a name that only the past knows.
        let names = called.map(|call| call.name.as_str()).chain(offered);
        Self(names.map(|name| (wire_name(name), name.to_owned())).collect())
    }

    /// The name that is called `wire`. What is not in the table is the model's own invention and stays as it is.
    pub fn original(&self, wire: &str) -> String {
        self.0.get(wire).map_or(wire, String::as_str).to_owned()
    }
}

fn readable(name: &str) -> Option<String> {
    let plain = name.starts_with(|first: char| first.is_ascii_alphabetic());
    let free = !name.contains("__") && !name.contains("_-") && !RESERVED.contains(&name);
    (plain && free).then(|| name.replace('/', "__").replace('.', "_-"))
}

fn marked(name: &str) -> String {
    format!("_{}", name.replace('-', "--").replace('/', "-s").replace('.', "-d"))
}

fn hashed(name: &str) -> String {
    let plain = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' });
    let beginning: String = plain.take(HASHED_BEGINNING).collect();
    let digits: String = hex_digest(&Value::from(name)).chars().take(HASH_DIGITS).collect();
    format!("_{beginning}-x{digits}")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn fits(wire: &str) -> bool {
        (1..=LONGEST).contains(&wire.len())
            && wire.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
            && wire.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
    }

    #[test]
    fn names_take_the_documented_forms() {
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
            assert!(fits(&wire_name(name)) && wire_name(name).contains("-x"), "{name}");
        }
    }

    proptest! {
        #[test]
        fn every_name_fits_and_no_two_share_one(one in "\\PC{0,70}", two in "[A-Za-z0-9_./-]{0,70}") {
            prop_assert!(fits(&wire_name(&one)));
            prop_assert!(fits(&wire_name(&two)));
            prop_assert_eq!(wire_name(&one) == wire_name(&two), one == two);
        }

        #[test]
        fn similar_names_stay_apart(one in "[a-b_./-]{1,6}", two in "[a-b_./-]{1,6}") {
            prop_assert_eq!(wire_name(&one) == wire_name(&two), one == two);
        }
    }
}
