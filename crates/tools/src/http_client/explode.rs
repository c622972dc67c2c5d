//! Explodes a value into several query or form parameters. The suffix of the parameter's name decides how the
//! parameters are named: `*` as in RFC 6570, or `[*]` for names such as `filter[field]`.
//!
//! | name | list | object | anything else |
//! |---|---|---|---|
//! | `a` | compact JSON | compact JSON | its text |
//! | `a*` | `a` for each item | its fields, without `a` | its text |
//! | `a[*]` | `a[0]`, `a[1]`, … | `a[field]`, `a[field][inner]`, … | its text |
//!
//! Null values are omitted.

use serde_json::Value;
use toolwright_expr::escape;

/// Returns the parameters for a value, without percent-encoding.
pub(super) fn parameters(name: &str, value: &Value) -> Vec<(String, String)> {
    let mut pairs = Vec::new();
    match name.strip_suffix("[*]").map(|name| (name, true)).or_else(|| Some((name.strip_suffix('*')?, false))) {
        Some((name, true)) if !name.is_empty() => push_deep(name.to_owned(), value, &mut pairs),
        Some((name, false)) if !name.is_empty() => match value {
            Value::Object(fields) => fields.iter().for_each(|(field, value)| push_repeated(field, value, &mut pairs)),
            value => push_repeated(name, value, &mut pairs),
        },
        _ => push_plain(name, value, &mut pairs),
    }
    pairs
}

fn push_plain(name: &str, value: &Value, pairs: &mut Vec<(String, String)>) {
    // This cannot fail, because every value has a text form.
    if let (false, Ok(text)) = (value.is_null(), escape::text(value)) {
        pairs.push((name.to_owned(), text));
    }
}

fn push_repeated(name: &str, value: &Value, pairs: &mut Vec<(String, String)>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| push_plain(name, item, pairs)),
        scalar => push_plain(name, scalar, pairs),
    }
}

// The recursion is bounded, because the JSON parser of the request limits how deeply values are nested.
fn push_deep(name: String, value: &Value, pairs: &mut Vec<(String, String)>) {
    match value {
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(index, item)| push_deep(format!("{name}[{index}]"), item, pairs));
        }
        Value::Object(fields) => {
            fields.iter().for_each(|(field, value)| push_deep(format!("{name}[{field}]"), value, pairs));
        }
        scalar => push_plain(&name, scalar, pairs),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn star_suffix_of_a_parameter_name_explodes_lists_and_objects() {
        let object = json!({ "x": 1, "y": [2, "z"], "none": null, "in": { "a": true } });
        for (name, value, expected) in [
            ("a", json!([1, "b"]), "a=[1,\"b\"]"),
            ("a", json!(null), ""),
            ("a*", json!([1, "b", null]), "a=1 a=b"),
            ("a*", json!([]), ""),
            ("a*", object.clone(), "x=1 y=2 y=z in={\"a\":true}"),
            ("a*", json!(7), "a=7"),
            ("a[*]", object, "a[x]=1 a[y][0]=2 a[y][1]=z a[in][a]=true"),
            ("a[*]", json!([{ "b": 1 }, 2]), "a[0][b]=1 a[1]=2"),
            ("a[*]", json!("text"), "a=text"),
            ("a[*]", json!(null), ""),
            ("*", json!([1]), "*=[1]"),
            ("[*]", json!([1]), "[*]=[1]"),
        ] {
            let written: Vec<String> =
                parameters(name, &value).into_iter().map(|(name, value)| format!("{name}={value}")).collect();
            assert_eq!(written.join(" "), expected, "{name} {value}");
        }
    }
}
