//! The root of an exported schema: always an object, whatever the tool's own schema is.

use serde_json::{Map, Value, json};

use super::WRAPPED;
use super::shape::{Kind, Shape, shape};
use super::walk::{References, resolve, walk};

/// Keywords that providers refuse at the root, or that need a look at more than the root itself.
const COMBINING: [&str; 13] = [
    "$ref",
    "$dynamicRef",
    "allOf",
    "anyOf",
    "oneOf",
    "if",
    "then",
    "else",
    "not",
    "enum",
    "const",
    "dependencies",
    "dependentSchemas",
];
/// What a root says that the tool already says, or that the root no longer is.
const NOT_AT_THE_ROOT: [&str; 5] = ["type", "title", "description", "enum", "default"];

/// The keywords of the object that `source` accepts, without references; combinators are left in properties only.
pub(super) fn lowered(source: &Value) -> Map<String, Value> {
    let inlined = walk(source, References::Inline);
    let mut shape = shape(&inlined);
    match shape.remove(&Kind::Object) {
        Some(keywords) => keywords,
        None if shape.is_empty() => Map::new(),
        None => Map::from_iter([
            ("properties".to_owned(), json!({ WRAPPED: inlined })),
            ("required".to_owned(), json!([WRAPPED])),
        ]),
    }
}

/// Whether exports wrap the input, because `source` accepts values but no object.
pub(super) fn is_wrapped(source: &Value) -> bool {
    let shape: Shape = shape(&walk(source, References::Inline));
    !shape.is_empty() && !shape.contains_key(&Kind::Object)
}

/// `source` as JSON Schema 2020-12 with a plain object at its root.
pub(super) fn json_schema(source: &Value) -> Value {
    let keywords = match walk(source, References::Keep) {
        Value::Object(kept) if is_plain(source) => kept,
        _ => complete(lowered(source)),
    };
    let mut root = empty_object();
    let rest = keywords.into_iter().filter(|(keyword, _)| !NOT_AT_THE_ROOT.contains(&keyword.as_str()));
    for (keyword, value) in rest {
        if keyword != "required" || value.as_array().is_some_and(|names| !names.is_empty()) {
            root.insert(keyword, value);
        }
    }
    Value::Object(root)
}

/// `source` as a schema that needs no definitions: type, properties, required and additionalProperties only.
pub(super) fn standalone(source: &Value) -> Value {
    let mut keywords = complete(lowered(source));
    let mut root = empty_object();
    root.insert("required".into(), json!([]));
    for keyword in ["properties", "required", "additionalProperties"] {
        if let Some(value) = keywords.shift_remove(keyword) {
            root.insert(keyword.to_owned(), value);
        }
    }
    Value::Object(root)
}

/// The schema of an output, if it is that of an object. It is given as it stands: clients hold results against it.
pub(super) fn object_output(source: &Value) -> Option<Value> {
    let fields = source.as_object()?;
    let target = fields.get("$ref").and_then(Value::as_str).and_then(|reference| resolve(source, reference));
    let named = |fields: &Map<String, Value>| fields.get("type").is_some_and(|name| name == "object");
    let is_object = named(fields) || target.and_then(Value::as_object).is_some_and(named);
    is_object.then(|| {
        let mut schema = Map::from_iter([("type".to_owned(), json!("object"))]);
        schema.extend(fields.clone());
        Value::Object(schema)
    })
}

fn empty_object() -> Map<String, Value> {
    Map::from_iter([("type".to_owned(), json!("object")), ("properties".to_owned(), json!({}))])
}

/// A root that can stay as it is, so that references into it keep their meaning.
fn is_plain(source: &Value) -> bool {
    let Some(fields) = source.as_object() else {
        return false;
    };
    let object = fields.get("type").is_none_or(|name| name == "object");
    object && !is_wrapped(source) && !COMBINING.iter().any(|keyword| fields.contains_key(*keyword))
}

/// The second walk adds what providers miss in schemas that were put together.
fn complete(keywords: Map<String, Value>) -> Map<String, Value> {
    match walk(&Value::Object(keywords), References::Keep) {
        Value::Object(keywords) => keywords,
        _ => Map::new(),
    }
}
