//! Values that are several parameters. How they are spread stands in the name: RFC 6570 writes `list*`, and half the world
//! writes `filter[field]`.
//!
//! | name | list | object | anything else |
//! |---|---|---|---|
//! | `a` | compact JSON | compact JSON | its text |
//! | `a*` | `a` for each item | its fields, without `a` | its text |
//! | `a[*]` | `a[0]`, `a[1]`, … | `a[field]`, `a[field][inner]`, … | its text |
//!
//! Null is left out everywhere.

use serde_json::Value;
use toolwright_expr::escape;

/// The parameters that a value comes to, not encoded yet.
pub(super) fn pairs(name: &str, value: &Value) -> Vec<(String, String)> {
    let mut pairs = Vec::new();
    match name.strip_suffix("[*]").map(|name| (name, true)).or_else(|| Some((name.strip_suffix('*')?, false))) {
        Some((name, true)) if !name.is_empty() => deep(name.to_owned(), value, &mut pairs),
        Some((name, false)) if !name.is_empty() => match value {
            Value::Object(fields) => fields.iter().for_each(|(field, value)| repeated(field, value, &mut pairs)),
            value => repeated(name, value, &mut pairs),
        },
        _ => plain(name, value, &mut pairs),
    }
    pairs
}

fn plain(name: &str, value: &Value, pairs: &mut Vec<(String, String)>) {
    // Every value can be written as text.
    if let (false, Ok(text)) = (value.is_null(), escape::text(value)) {
        pairs.push((name.to_owned(), text));
    }
}

fn repeated(name: &str, value: &Value, pairs: &mut Vec<(String, String)>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| plain(name, item, pairs)),
        one => plain(name, one, pairs),
    }
}

// Values nest no deeper than the reader of the request allows.
fn deep(name: String, value: &Value, pairs: &mut Vec<(String, String)>) {
    match value {
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(at, item)| deep(format!("{name}[{at}]"), item, pairs));
        }
        Value::Object(fields) => {
            fields.iter().for_each(|(field, value)| deep(format!("{name}[{field}]"), value, pairs));
        }
        one => plain(&name, one, pairs),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_name_says_how_a_value_is_spread() {
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
                pairs(name, &value).into_iter().map(|(name, value)| format!("{name}={value}")).collect();
            assert_eq!(written.join(" "), expected, "{name} {value}");
        }
    }
}
