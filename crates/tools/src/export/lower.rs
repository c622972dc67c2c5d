//! Lowers schemas: reduces them to one type per value and to the few keywords that a format supports, without
//! references and combinators.

use serde_json::{Map, Value, json};

use super::names::words;
use super::shape::{Kind, is_unconstrained, shape};

/// The target of a lowered schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dialect {
    /// Every property has `type` and `description`. The only other keywords are `enum`, `default`, `items`,
    /// `properties` and `required`.
    Universal,
    /// The `Schema` type of the Gemini API.
    Gemini,
}

/// Lowers the parameters of a function whose input object has these `keywords`.
pub(super) fn parameters(keywords: &Map<String, Value>, dialect: Dialect) -> Value {
    let (properties, required) = members(keywords, dialect);
    let mut root = Map::from_iter([
        ("type".to_owned(), json!(dialect.type_name(Kind::Object))),
        ("properties".to_owned(), Value::Object(properties)),
    ]);
    if dialect == Dialect::Universal || !required.is_empty() {
        root.insert("required".into(), Value::Array(required));
    }
    Value::Object(root)
}

impl Dialect {
    fn type_name(self, kind: Kind) -> String {
        match self {
            Dialect::Universal => kind.as_str().to_owned(),
            Dialect::Gemini => kind.as_str().to_ascii_uppercase(),
        }
    }
}

/// A lowered schema, and whether the original also allowed null.
struct Lowered {
    schema: Map<String, Value>,
    nullable: bool,
}

fn members(keywords: &Map<String, Value>, dialect: Dialect) -> (Map<String, Value>, Vec<Value>) {
    let mut properties = Map::new();
    let mut optional = Vec::new();
    for (name, schema) in keywords.get("properties").and_then(Value::as_object).into_iter().flatten() {
        let fallback = (dialect == Dialect::Universal).then_some(name.as_str());
        let Some(lowered) = lower(schema, fallback, dialect) else {
            continue;
        };
        if dialect == Dialect::Universal && lowered.nullable {
            optional.push(name.as_str());
        }
        properties.insert(name.clone(), Value::Object(lowered.schema));
    }
    let required_names = keywords.get("required").and_then(Value::as_array).into_iter().flatten();
    let required_names = required_names
        .filter(|name| name.as_str().is_some_and(|name| properties.contains_key(name) && !optional.contains(&name)));
    let required = required_names.cloned().collect();
    (properties, required)
}

/// Lowers a schema. If `schema` has no description and `name` is present, a description is created from `name`. Returns
/// `None` if the schema accepts only null or no value at all, because there is nothing that a caller could send.
fn lower(schema: &Value, name: Option<&str>, dialect: Dialect) -> Option<Lowered> {
    let shape = shape(schema);
    let nullable = shape.contains_key(&Kind::Null) && !is_unconstrained(&shape);
    let (kind, keywords) = shape.into_iter().find(|(kind, _)| *kind != Kind::Null)?;
    let mut lowered = Map::from_iter([("type".to_owned(), json!(dialect.type_name(kind)))]);
    let written = text(&keywords, "description").or_else(|| text(&keywords, "title")).map(str::to_owned);
    if let Some(description) = written.or_else(|| name.map(describe)) {
        lowered.insert("description".into(), json!(description));
    }
    if dialect == Dialect::Gemini {
        if nullable {
            lowered.insert("nullable".into(), json!(true));
        }
        copy_bounds(&mut lowered, kind, &keywords);
    }
    lower_enum(&mut lowered, kind, &keywords, dialect);
    if let Some(default) = keywords.get("default").filter(|default| kind.fits(default)) {
        lowered.insert("default".into(), default.clone());
    }
    match kind {
        Kind::Array => {
            lowered.insert("items".into(), items(&keywords, dialect));
        }
        Kind::Object => {
            let (properties, required) = members(&keywords, dialect);
            if !properties.is_empty() {
                lowered.insert("properties".into(), Value::Object(properties));
            }
            if !required.is_empty() {
                lowered.insert("required".into(), Value::Array(required));
            }
        }
        _ => {}
    }
    Some(Lowered { schema: lowered, nullable })
}

/// Lowers the items of an array. Items without a schema become strings, because definitions that omit the schema
/// usually mean strings.
fn items(keywords: &Map<String, Value>, dialect: Dialect) -> Value {
    let prefix = keywords.get("prefixItems").and_then(Value::as_array).into_iter().flatten();
    let rest = keywords.get("items").filter(|items| items.is_object());
    let described: Vec<&Value> = prefix.chain(rest).collect();
    let lowered = match described.as_slice() {
        [] => None,
        [one] => lower(one, None, dialect),
        list => lower(&json!({ "anyOf": list }), None, dialect),
    };
    match lowered {
        Some(lowered) => Value::Object(lowered.schema),
        None => json!({ "type": dialect.type_name(Kind::String) }),
    }
}

fn lower_enum(lowered: &mut Map<String, Value>, kind: Kind, keywords: &Map<String, Value>, dialect: Dialect) {
    let Some(values) = keywords.get("enum").and_then(Value::as_array).filter(|values| !values.is_empty()) else {
        return;
    };
    if dialect == Dialect::Universal {
        lowered.insert("enum".into(), json!(values));
        return;
    }
    if kind == Kind::String {
        // Gemini rejects an empty string in an enum.
        let named: Vec<&Value> = values.iter().filter(|value| *value != "").collect();
        if !named.is_empty() {
            lowered.insert("enum".into(), json!(named));
        }
        return;
    }
    // Gemini allows enums of strings only. Other values are listed in the description.
    let spelled: Vec<String> = values.iter().map(Value::to_string).collect();
    let described = text(lowered, "description").map(|text| format!("{text} ")).unwrap_or_default();
    lowered.insert("description".into(), json!(format!("{described}One of: {}.", spelled.join(", "))));
}

/// Copies the bounds that Gemini supports, if their values have the type that Gemini expects.
fn copy_bounds(lowered: &mut Map<String, Value>, kind: Kind, keywords: &Map<String, Value>) {
    let wanted: &[&str] = match kind {
        Kind::Object => &["minProperties", "maxProperties"],
        Kind::Array => &["minItems", "maxItems"],
        Kind::String => &["minLength", "maxLength", "pattern", "format"],
        Kind::Number | Kind::Integer => &["minimum", "maximum"],
        Kind::Boolean | Kind::Null => &[],
    };
    for keyword in wanted {
        let readable = |value: &&Value| match *keyword {
            "pattern" => value.is_string(),
            "format" => *value == "date-time",
            "minimum" | "maximum" => value.is_number(),
            _ => value.as_i64().is_some(),
        };
        if let Some(value) = keywords.get(*keyword).filter(readable) {
            lowered.insert((*keyword).to_owned(), value.clone());
        }
    }
}

fn describe(name: &str) -> String {
    let words = words(name).join(" ");
    if words.is_empty() { "A value.".to_owned() } else { format!("The {words}.") }
}

fn text<'a>(keywords: &'a Map<String, Value>, keyword: &str) -> Option<&'a str> {
    keywords.get(keyword).and_then(Value::as_str).filter(|text| !text.trim().is_empty())
}
