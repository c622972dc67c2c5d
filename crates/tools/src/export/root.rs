//! The root of an exported schema, which is always an object.

use serde_json::{Map, Value, json};

use super::WRAPPER_PROPERTY;
use super::normalize::{References, normalize, resolve};
use super::shape::{Kind, Shape, shape};

/// Keywords that must not be at the root of an exported schema. If the root of a schema has one of these keywords,
/// [`lowered`] rebuilds the root.
const NON_ROOT_KEYWORDS: [&str; 13] = [
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
/// Keywords that are not copied to the root of an export. The export contains their values elsewhere, or they do not
/// apply to a rebuilt root.
const OMITTED_AT_ROOT: [&str; 5] = ["type", "title", "description", "enum", "default"];

/// Returns the keywords of the object that `source` accepts. References are inlined, and combinators at the root are
/// merged. Combinators inside properties remain.
pub(super) fn lowered(source: &Value) -> Map<String, Value> {
    let inlined = normalize(source, References::Inline);
    let mut shape = shape(&inlined);
    match shape.remove(&Kind::Object) {
        Some(keywords) => keywords,
        None if shape.is_empty() => Map::new(),
        None => Map::from_iter([
            ("properties".to_owned(), json!({ WRAPPER_PROPERTY: inlined })),
            ("required".to_owned(), json!([WRAPPER_PROPERTY])),
        ]),
    }
}

/// Whether exports wrap the input, because `source` accepts values but no object.
pub(super) fn is_wrapped(source: &Value) -> bool {
    let shape: Shape = shape(&normalize(source, References::Inline));
    !shape.is_empty() && !shape.contains_key(&Kind::Object)
}

/// Returns `source` as JSON Schema 2020-12 with a plain object at its root.
pub(super) fn json_schema(source: &Value) -> Value {
    let keywords = match normalize(source, References::Keep) {
        Value::Object(kept) if is_plain(source) => kept,
        _ => normalized_keywords(lowered(source)),
    };
    let mut root = empty_object();
    let rest = keywords.into_iter().filter(|(keyword, _)| !OMITTED_AT_ROOT.contains(&keyword.as_str()));
    for (keyword, value) in rest {
        if keyword != "required" || value.as_array().is_some_and(|names| !names.is_empty()) {
            root.insert(keyword, value);
        }
    }
    Value::Object(root)
}

/// Returns `source` as a schema without definitions: type, properties, required and additionalProperties only.
pub(super) fn standalone(source: &Value) -> Value {
    let mut keywords = normalized_keywords(lowered(source));
    let mut root = empty_object();
    root.insert("required".into(), json!([]));
    for keyword in ["properties", "required", "additionalProperties"] {
        if let Some(value) = keywords.shift_remove(keyword) {
            root.insert(keyword.to_owned(), value);
        }
    }
    Value::Object(root)
}

/// Returns the schema of an output if its type is `object`. Adds the type if only the target of `$ref` states it.
/// Changes nothing else, because clients validate results against the schema.
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

/// Whether the root can be exported unchanged, so that references into it remain valid.
fn is_plain(source: &Value) -> bool {
    let Some(fields) = source.as_object() else {
        return false;
    };
    let object = fields.get("type").is_none_or(|name| name == "object");
    object && !is_wrapped(source) && !NON_ROOT_KEYWORDS.iter().any(|keyword| fields.contains_key(*keyword))
}

/// Normalizes the merged keywords again, because merging may create schemas without keywords that providers require,
/// such as `items`.
fn normalized_keywords(keywords: Map<String, Value>) -> Map<String, Value> {
    match normalize(&Value::Object(keywords), References::Keep) {
        Value::Object(keywords) => keywords,
        _ => Map::new(),
    }
}
