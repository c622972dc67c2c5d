//! What a name means among items. Rules only.

use serde_json::Value;
use toolwright_store::ReferenceItem;
use toolwright_tools::ports::Meaning;
use toolwright_types::ReferenceSource;

/// How many candidates are told.
const MOST_TOLD: usize = 5;

/// The item that is meant. What looks like an id is one. Then names are compared without regard to case, then, if the type
/// says so, their beginnings, then the fields by which items can be found. A step that finds several decides nothing.
pub(super) fn meaning(items: &[ReferenceItem], source: &ReferenceSource, given: &str) -> Meaning {
    let name = given.trim();
    if items.iter().any(|item| item.external_id == name) || looks_like_id(name) {
        return Meaning::Itself;
    }
    // `@ada` and `#general`, as people write them.
    let name = name.strip_prefix(['@', '#']).unwrap_or(name).to_lowercase();
    if name.is_empty() {
        return Meaning::Nothing;
    }
    let exact = |item: &&ReferenceItem| item.name.to_lowercase() == name;
    let begins = |item: &&ReferenceItem| source.fuzzy_match && item.name.to_lowercase().starts_with(&name);
    let field = |item: &&ReferenceItem| {
        source.lookup_fields.iter().any(|field| {
            let value = item.metadata.get(field).and_then(Value::as_str);
            value.is_some_and(|value| value.to_lowercase() == name)
        })
    };
    let steps: [&dyn Fn(&&ReferenceItem) -> bool; 3] = [&exact, &begins, &field];
    for step in steps {
        let found: Vec<&ReferenceItem> = items.iter().filter(|item| step(item)).collect();
        match found.as_slice() {
            [] => {}
            [one] => return Meaning::Id(one.id.clone()),
            several => {
                let told = several.iter().take(MOST_TOLD);
                return Meaning::Several(told.map(|item| format!("`{}` ({})", item.name, item.external_id)).collect());
            }
        }
    }
    Meaning::Nothing
}

/// Digits, a UUID, or upper-case letters and digits with a digit among them, as `U024BE7LH`.
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
    fn a_name_means_one_item_or_none() {
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
        for (given, fuzzy, expected) in [
            ("ada lovelace", false, Meaning::Id(json!(7))),
            (" @Bo ", false, Meaning::Id(json!("b-1"))),
            ("ada", true, Meaning::Id(json!(7))),
            ("ada", false, Meaning::Nothing),
            // An exact name wins over a longer one that begins with it.
            ("bo", true, Meaning::Id(json!("b-1"))),
            ("BOB@X.ORG", false, Meaning::Id(json!("b-2"))),
            ("nobody", true, Meaning::Nothing),
            ("#", true, Meaning::Nothing),
            ("b-1", false, Meaning::Itself),
            ("42", false, Meaning::Itself),
            ("U024BE7LH", false, Meaning::Itself),
            ("123e4567-e89b-12d3-a456-426614174000", false, Meaning::Itself),
            ("Cy", false, Meaning::Several(vec!["`Cy` (c-1)".into(), "`cy` (c-2)".into()])),
            ("b", true, Meaning::Several(vec!["`Bo` (b-1)".into(), "`Bob` (b-2)".into()])),
        ] {
            assert_eq!(meaning(&items, &source(fuzzy), given), expected, "{given} {fuzzy}");
        }
    }
}
