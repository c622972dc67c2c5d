//! Lowered schemas: one type per value, a handful of keywords, no references and no combinators.

use serde_json::{Map, Value, json};

use super::names::words;
use super::shape::{Kind, is_anything, shape};

/// Who reads the schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dialect {
    /// Type and description everywhere, then only enum, default, items, properties and required.
    Universal,
    /// `Schema` of the Gemini API.
    Gemini,
}

/// The parameters of a function whose input object has these `keywords`.
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

/// A schema, and whether null was allowed beside it.
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
    let demanded = keywords.get("required").and_then(Value::as_array).into_iter().flatten();
    let demanded = demanded
        .filter(|name| name.as_str().is_some_and(|name| properties.contains_key(name) && !optional.contains(&name)));
    let required = demanded.cloned().collect();
    (properties, required)
}

/// A schema without a description is described by `name`, if given, which is better than not at all. None when only
/// null is allowed, or nothing: such a property says nothing that one could fill in.
fn lower(schema: &Value, name: Option<&str>, dialect: Dialect) -> Option<Lowered> {
    let shape = shape(schema);
    let nullable = shape.contains_key(&Kind::Null) && !is_anything(&shape);
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
        bounds(&mut lowered, kind, &keywords);
    }
    choices(&mut lowered, kind, &keywords, dialect);
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

/// The items of an array; texts when nothing is said about them, because that is what short definitions mean.
fn items(keywords: &Map<String, Value>, dialect: Dialect) -> Value {
    let prefix = keywords.get("prefixItems").and_then(Value::as_array).into_iter().flatten();
    let rest = keywords.get("items").filter(|items| items.is_object());
    let described: Vec<&Value> = prefix.chain(rest).collect();
    let lowered = match described.as_slice() {
        [] => None,
        [one] => lower(one, None, dialect),
        several => lower(&json!({ "anyOf": several }), None, dialect),
    };
    match lowered {
        Some(lowered) => Value::Object(lowered.schema),
        None => json!({ "type": dialect.type_name(Kind::String) }),
    }
}

fn choices(lowered: &mut Map<String, Value>, kind: Kind, keywords: &Map<String, Value>, dialect: Dialect) {
    let Some(values) = keywords.get("enum").and_then(Value::as_array).filter(|values| !values.is_empty()) else {
        return;
    };
    if dialect == Dialect::Universal {
        lowered.insert("enum".into(), json!(values));
        return;
    }
    if kind == Kind::String {
        // Gemini refuses a choice without letters.
        let named: Vec<&Value> = values.iter().filter(|value| *value != "").collect();
        if !named.is_empty() {
            lowered.insert("enum".into(), json!(named));
        }
        return;
    }
    // Gemini enumerates texts only; for the rest the description has to do.
    let spelled: Vec<String> = values.iter().map(Value::to_string).collect();
    let described = text(lowered, "description").map(|text| format!("{text} ")).unwrap_or_default();
    lowered.insert("description".into(), json!(format!("{described}One of: {}.", spelled.join(", "))));
}

/// The limits that Gemini reads, where they have the type it reads.
fn bounds(lowered: &mut Map<String, Value>, kind: Kind, keywords: &Map<String, Value>) {
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
