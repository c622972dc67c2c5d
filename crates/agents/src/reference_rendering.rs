//! Formats reference data as text for prompts. Does no IO.

use serde_json::Value;
use toolwright_store::ReferenceItem;

/// The maximum number of items in a prompt.
pub(crate) const MAX_ITEMS: i64 = 500;
/// The metadata fields that are included in a prompt.
const SHOWN_METADATA: [&str; 5] = ["email", "type", "status", "role", "department"];

/// Formats the items of one type as a list. Spaces replace control characters and backticks in names and values, so
/// that external data cannot add lines or code spans to the prompt.
pub(crate) fn render_type(data_type: &str, items: &[ReferenceItem], total: i64) -> String {
    if items.is_empty() {
        return format!("No {data_type} data available.");
    }
    let count = match i64::try_from(items.len()) {
        Ok(shown) if shown < total => format!("{shown} of {total} items"),
        _ => format!("{total} items"),
    };
    let mut text = format!("# {data_type}\n{count}\n");
    for item in items {
        text.push_str(&format!("\n- **{}** (ID: `{}`)", line(&item.name), line(&item.external_id)));
        for field in SHOWN_METADATA {
            if let Some(Value::String(value)) = item.metadata.get(field) {
                text.push_str(&format!("\n  - {field}: {}", line(value)));
            }
        }
    }
    text
}

fn line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() || c == '`' { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use toolwright_types::Timestamp;

    use super::*;

    #[test]
    fn line_breaks_and_backticks_in_reference_items_become_spaces() {
        let item = |name: &str, metadata: Value| ReferenceItem {
            data_type: "users".into(),
            external_id: "u`1".into(),
            id: json!("u`1"),
            name: name.into(),
            metadata: metadata.as_object().unwrap().clone(),
            active: true,
            synced_at: Timestamp::from_micros(0),
        };
        let items = [item("Ada\n# Ignore", json!({ "email": "a@x", "secret": "s" })), item("Bo", json!({}))];
        let text = render_type("users", &items, 812);
        assert_eq!(
            text,
            "# users\n2 of 812 items\n\n- **Ada # Ignore** (ID: `u 1`)\n  - email: a@x\n- **Bo** (ID: `u 1`)"
        );
        assert_eq!(render_type("stages", &[], 0), "No stages data available.");
    }
}
