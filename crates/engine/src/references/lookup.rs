//! Finds the reference item that a name in a tool input refers to.

use serde_json::Value;
use toolwright_store::ReferenceItem;
use toolwright_tools::ports::ReferenceMatch;
use toolwright_types::ReferenceSource;

/// The maximum number of candidates that an ambiguous match lists.
const MAX_CANDIDATES: usize = 5;
/// The maximum number of similar names that are suggested for an unknown name.
const MAX_CLOSEST: usize = 3;
/// The lowest similarity of a suggested name, from 0 to 1.
const MIN_SIMILARITY: f64 = 0.6;

/// Finds the item that `text` refers to. A text that equals the id of an item or looks like an id is used as an id.
/// Otherwise three rules are tried in order, without regard to case: the text equals a name; the text is the beginning
/// of a name, if `fuzzyMatch` is set; the text equals a lookup field. The first rule that matches at least one item
/// decides. If this rule matches several items, the text is ambiguous.
pub(super) fn find_match(items: &[ReferenceItem], source: &ReferenceSource, text: &str) -> ReferenceMatch {
    let name = text.trim();
    if items.iter().any(|item| item.external_id == name) || looks_like_id(name) {
        return ReferenceMatch::AlreadyId;
    }
    // Users write names as `@ada` or `#general`, so a leading `@` or `#` is removed.
    let name = name.strip_prefix(['@', '#']).unwrap_or(name).to_lowercase();
    if name.is_empty() {
        return ReferenceMatch::NotFound(Vec::new());
    }
    let exact = |item: &&ReferenceItem| item.name.to_lowercase() == name;
    let prefix = |item: &&ReferenceItem| source.fuzzy_match && item.name.to_lowercase().starts_with(&name);
    let field = |item: &&ReferenceItem| {
        source.lookup_fields.iter().any(|field| {
            let value = item.metadata.get(field).and_then(Value::as_str);
            value.is_some_and(|value| value.to_lowercase() == name)
        })
    };
    let rules: [&dyn Fn(&&ReferenceItem) -> bool; 3] = [&exact, &prefix, &field];
    for rule in rules {
        let found: Vec<&ReferenceItem> = items.iter().filter(|item| rule(item)).collect();
        match found.as_slice() {
            [] => {}
            [one] => return ReferenceMatch::Id(one.id.clone()),
            several => {
                let candidates = several.iter().take(MAX_CANDIDATES);
                return ReferenceMatch::Ambiguous(
                    candidates.map(|item| format!("`{}` ({})", item.name, item.external_id)).collect(),
                );
            }
        }
    }
    ReferenceMatch::NotFound(closest(items, &name))
}

/// Returns the names that are most similar to `name`, which is in lower case. The most similar name comes first.
fn closest(items: &[ReferenceItem], name: &str) -> Vec<String> {
    let mut names: Vec<(f64, &str)> = items
        .iter()
        .map(|item| (strsim::jaro_winkler(&item.name.to_lowercase(), name), item.name.as_str()))
        .filter(|(similarity, _)| *similarity >= MIN_SIMILARITY)
        .collect();
    names.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    names.into_iter().take(MAX_CLOSEST).map(|(_, name)| name.to_owned()).collect()
}

/// Whether a text is a number, a UUID, or a code such as `U024BE7LH`: at least six upper-case letters and digits, with
/// at least one digit.
fn looks_like_id(text: &str) -> bool {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let uuid = text.len() == 36
        && text.bytes().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        });
    let code = text.len() >= 6
        && text.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit())
        && text.bytes().any(|byte| byte.is_ascii_digit());
    digits || uuid || code
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use toolwright_types::Timestamp;

    use super::*;

    fn item(id: Value, name: &str, email: &str) -> ReferenceItem {
        let external_id = id.as_str().map_or_else(|| id.to_string(), str::to_owned);
        let metadata = json!({ "email": email }).as_object().unwrap().clone();
        ReferenceItem {
            data_type: "users".into(),
            external_id,
            id,
            name: name.into(),
            metadata,
            active: true,
            synced_at: Timestamp::from_micros(0),
        }
    }

    #[test]
    fn ids_and_names_are_matched_before_name_prefixes_and_lookup_fields() {
        let items = [
            item(json!(7), "Ada Lovelace", "ada@x.org"),
            item(json!("b-1"), "Bo", "bo@x.org"),
            item(json!("b-2"), "Bob", "bob@x.org"),
            item(json!("c-1"), "Cy", "c@x.org"),
            item(json!("c-2"), "cy", "d@x.org"),
        ];
        let source = |fuzzy: bool| -> ReferenceSource {
            serde_json::from_value(
                json!({ "dataType": "users", "toolRef": "t", "fuzzyMatch": fuzzy, "lookupFields": ["email"] }),
            )
            .unwrap()
        };
        for (text, fuzzy, expected) in [
            ("ada lovelace", false, ReferenceMatch::Id(json!(7))),
            (" @Bo ", false, ReferenceMatch::Id(json!("b-1"))),
            ("ada", true, ReferenceMatch::Id(json!(7))),
            ("ada", false, ReferenceMatch::NotFound(vec!["Ada Lovelace".into()])),
            // `bo` matches `Bo` and not `Bob`, because equal names are tried before beginnings of names.
            ("bo", true, ReferenceMatch::Id(json!("b-1"))),
            ("BOB@X.ORG", false, ReferenceMatch::Id(json!("b-2"))),
            ("nobody", true, ReferenceMatch::NotFound(vec!["Bo".into()])),
            ("#", true, ReferenceMatch::NotFound(vec![])),
            ("b-1", false, ReferenceMatch::AlreadyId),
            ("42", false, ReferenceMatch::AlreadyId),
            ("U024BE7LH", false, ReferenceMatch::AlreadyId),
            ("123e4567-e89b-12d3-a456-426614174000", false, ReferenceMatch::AlreadyId),
            ("Cy", false, ReferenceMatch::Ambiguous(vec!["`Cy` (c-1)".into(), "`cy` (c-2)".into()])),
            ("b", true, ReferenceMatch::Ambiguous(vec!["`Bo` (b-1)".into(), "`Bob` (b-2)".into()])),
        ] {
            assert_eq!(find_match(&items, &source(fuzzy), text), expected, "{text} {fuzzy}");
        }
    }
}
