//! Looks up the schema of a field in the JSON schema of a record.
//!
//! References (`$ref`) in a schema may be recursive. A lookup terminates, because the path of the field is finite and
//! the number of references between two names of the path is limited.

use std::sync::LazyLock;

use serde_json::{Map, Value, json};
use toolwright_query::Field;
use toolwright_query::sql::IndexKind;

/// The fields that the server sets in records of its own store.
pub const MANAGED: [&str; 4] = ["id", "version", "auditInfo", "dataDomain"];

/// The fields that the server sets in external records without a version.
pub const MANAGED_EXTERNAL: [&str; 1] = ["id"];

/// The fields that the server sets in external records with a version.
pub const MANAGED_EXTERNAL_VERSIONED: [&str; 2] = ["id", "version"];

/// The schema of the fields that the server sets.
static MANAGED_SCHEMA: LazyLock<Value> = LazyLock::new(|| {
    let string = || json!({ "type": "string" });
    let timestamp = || json!({ "type": "string", "format": "date-time" });
    json!({ "type": "object", "properties": {
        "id": string(),
        "version": { "type": "integer" },
        "auditInfo": { "type": "object", "additionalProperties": false, "properties": {
            "createdBy": string(), "createdAt": timestamp(), "lastUpdatedBy": string(), "lastUpdatedAt": timestamp(),
        } },
        "dataDomain": { "type": "object", "additionalProperties": false, "properties": {
            "orgRefName": string(), "tenantId": string(), "ownerId": string(), "dataSegment": { "type": "integer" },
        } },
    } })
});

/// The maximum number of consecutive references.
const MAX_REFERENCES: usize = 16;

/// The result of looking up the schema of a field.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum FieldSchema<'s> {
    /// The record schema declares the field.
    Declared {
        /// The schema of the field, or of the items if the field is an array.
        schema: &'s Value,
        /// Whether the field or one of its parents may be an array.
        in_array: bool,
    },
    /// The record schema allows the field but does not describe it.
    Undeclared,
    /// The record schema does not allow the field.
    Forbidden,
}

/// Looks up a field in the schema of a record. Fields in `managed` are set by the server and have a fixed schema.
pub fn lookup<'s>(schema: &'s Value, field: &Field, managed: &[&str]) -> FieldSchema<'s> {
    let first = field.segments().next().unwrap_or_default();
    let root: &'s Value = if managed.contains(&first) { &MANAGED_SCHEMA } else { schema };
    let (mut here, mut in_array) = (root, false);
    for (depth, name) in field.segments().enumerate() {
        let Some(mut node) = resolve(root, here) else { return FieldSchema::Undeclared };
        // A schema with `properties` and without `type` also permits an array.
        in_array |= depth > 0 && types(node).is_empty();
        if is_array(node) {
            in_array = true;
            match node.get("items").and_then(|items| resolve(root, items)) {
                Some(items) => node = items,
                None => return FieldSchema::Undeclared,
            }
        }
        match property(root, node, name) {
            FieldSchema::Declared { schema, .. } => here = schema,
            other => return other,
        }
    }
    match resolve(root, here) {
        Some(found) if is_array(found) => match found.get("items").and_then(|items| resolve(root, items)) {
            Some(items) => FieldSchema::Declared { schema: items, in_array: true },
            None => FieldSchema::Declared { schema: found, in_array: true },
        },
        Some(found) => FieldSchema::Declared { schema: found, in_array },
        None => FieldSchema::Undeclared,
    }
}

/// Returns the kind of index for a field. A field can only be indexed if its value is a single string, number or date.
pub fn searchable_kind(field: FieldSchema<'_>) -> Option<IndexKind> {
    match field {
        FieldSchema::Declared { schema, in_array: false } => kind(schema),
        _ => None,
    }
}

fn kind(schema: &Value) -> Option<IndexKind> {
    let types = types(schema);
    let only =
        |allowed: &[&str]| !types.is_empty() && types.iter().all(|found| *found == "null" || allowed.contains(found));
    let format = schema.get("format").and_then(Value::as_str);
    let choices = schema.get("enum").and_then(Value::as_array);
    if types.is_empty() {
        let strings = choices.is_some_and(|values| values.iter().all(|value| value.is_string() || value.is_null()));
        return strings.then_some(IndexKind::Text);
    }
    if only(&["string"]) {
        return Some(if matches!(format, Some("date" | "date-time")) { IndexKind::Timestamp } else { IndexKind::Text });
    }
    only(&["integer", "number"]).then_some(IndexKind::Number)
}

/// Returns the names in `type`, which is a name or a list of names.
pub fn types(schema: &Value) -> Vec<&str> {
    match schema.get("type") {
        Some(Value::String(one)) => vec![one],
        Some(Value::Array(several)) => several.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

/// Returns the top-level properties with their resolved schemas.
pub fn properties(schema: &Value) -> impl Iterator<Item = (&String, &Value)> {
    let declared = schema.get("properties").and_then(Value::as_object);
    declared.into_iter().flatten().map(move |(name, property)| (name, resolve(schema, property).unwrap_or(property)))
}

fn is_array(schema: &Value) -> bool {
    types(schema).contains(&"array")
}

fn property<'s>(root: &'s Value, node: &'s Value, name: &str) -> FieldSchema<'s> {
    let Some(fields) = node.as_object() else { return FieldSchema::Undeclared };
    let types = types(node);
    if !types.is_empty() && !types.contains(&"object") {
        return FieldSchema::Forbidden;
    }
    let declared = fields.get("properties").and_then(|properties| properties.get(name));
    if let Some(schema) = declared {
        return FieldSchema::Declared { schema, in_array: false };
    }
    let parts = fields.get("allOf").and_then(Value::as_array).into_iter().flatten();
    for part in parts.filter_map(|part| resolve(root, part)) {
        if let Some(schema) = part.get("properties").and_then(|properties| properties.get(name)) {
            return FieldSchema::Declared { schema, in_array: false };
        }
    }
    match fields.get("additionalProperties") {
        Some(Value::Bool(false)) if !has_pattern_properties(fields) => FieldSchema::Forbidden,
        Some(schema @ Value::Object(_)) => FieldSchema::Declared { schema, in_array: false },
        _ => FieldSchema::Undeclared,
    }
}

/// Whether `patternProperties` may allow fields that `properties` does not name.
fn has_pattern_properties(fields: &Map<String, Value>) -> bool {
    fields.contains_key("patternProperties")
}

/// Follows local references. Returns `None` if a reference has no target in this document, or if the chain of
/// references is a cycle or too long.
fn resolve<'s>(root: &'s Value, mut schema: &'s Value) -> Option<&'s Value> {
    for _ in 0..MAX_REFERENCES {
        let Some(reference) = schema.get("$ref").and_then(Value::as_str) else { return Some(schema) };
        let pointer = reference.strip_prefix('#')?;
        schema = root.pointer(pointer)?;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lookup_classifies_fields_as_declared_undeclared_or_forbidden() {
        let schema = json!({
            "type": "object", "additionalProperties": false,
            "properties": {
                "status": { "enum": ["open", "closed"] },
                "total": { "type": ["number", "null"] },
                "due": { "type": "string", "format": "date" },
                "parent": { "$ref": "#" },
                "lines": { "type": "array", "items": { "$ref": "#/$defs/line" } },
                "tags": { "type": "array", "items": { "type": "string" } },
                "loop": { "$ref": "#/properties/loop" },
                "free": { "type": "object" },
                "mixed": { "type": ["string", "integer"] },
                "untyped": { "properties": { "a": { "type": "string" } } },
            },
            "$defs": { "line": { "type": "object", "properties": { "sku": { "type": "string" } }, "additionalProperties": { "type": "integer" } } },
        });
        for (path, expected) in [
            ("status", Ok(Some(IndexKind::Text))),
            ("total", Ok(Some(IndexKind::Number))),
            ("due", Ok(Some(IndexKind::Timestamp))),
            ("parent.parent.total", Ok(Some(IndexKind::Number))),
            ("auditInfo.createdAt", Ok(Some(IndexKind::Timestamp))),
            ("lines.sku", Ok(None)),
            ("lines.quantity", Ok(None)),
            ("tags", Ok(None)),
            ("mixed", Ok(None)),
            ("untyped.a", Ok(None)),
            ("loop", Err("undeclared")),
            ("loop.deeper", Err("undeclared")),
            ("free.anything", Err("undeclared")),
            ("nothing", Err("forbidden")),
            ("parent.nothing", Err("forbidden")),
            ("total.deeper", Err("forbidden")),
            ("auditInfo.nothing", Err("forbidden")),
        ] {
            let found = match lookup(&schema, &Field::parse(path).unwrap(), &MANAGED) {
                FieldSchema::Undeclared => Err("undeclared"),
                FieldSchema::Forbidden => Err("forbidden"),
                declared => Ok(searchable_kind(declared)),
            };
            assert_eq!(found, expected, "{path}");
        }
    }
}
