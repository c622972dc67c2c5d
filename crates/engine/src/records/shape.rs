//! What a schema says about the fields of a record: whether there can be one, and what it holds.
//!
//! References may lead in circles. Every walk here is along a path of names, and between two names only so many references
//! are followed.

use std::sync::LazyLock;

use serde_json::{Map, Value, json};
use toolwright_query::Field;
use toolwright_query::sql::Kind;

/// The fields that the server fills in, of records in its own store.
pub(super) const MANAGED: [&str; 4] = ["id", "version", "auditInfo", "dataDomain"];

/// And of records that live elsewhere.
pub(super) const MANAGED_ELSEWHERE: [&str; 1] = ["id"];

/// And of those that have a version there.
pub(super) const MANAGED_VERSIONED: [&str; 2] = ["id", "version"];

/// What those look like.
static MANAGED_SCHEMA: LazyLock<Value> = LazyLock::new(|| {
    let text = || json!({ "type": "string" });
    let moment = || json!({ "type": "string", "format": "date-time" });
    json!({ "type": "object", "properties": {
        "id": text(),
        "version": { "type": "integer" },
        "auditInfo": { "type": "object", "additionalProperties": false, "properties": {
            "createdBy": text(), "createdAt": moment(), "lastUpdatedBy": text(), "lastUpdatedAt": moment(),
        } },
        "dataDomain": { "type": "object", "additionalProperties": false, "properties": {
            "orgRefName": text(), "tenantId": text(), "ownerId": text(), "dataSegment": { "type": "integer" },
        } },
    } })
});

/// References that are followed at one place.
const MOST_REFERENCES: usize = 16;

/// What a schema says about a field.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Shape<'s> {
    /// This is said of it, and it may stand in a list.
    Known { schema: &'s Value, in_list: bool },
    /// Nothing: it may be there or not.
    Open,
    /// It can never be there.
    Impossible,
}

/// What the schema of a record says about a field of it, those included that the server fills in.
pub(super) fn at<'s>(schema: &'s Value, field: &Field, managed: &[&str]) -> Shape<'s> {
    let first = field.segments().next().unwrap_or_default();
    let root: &'s Value = if managed.contains(&first) { &MANAGED_SCHEMA } else { schema };
    let (mut here, mut in_list) = (root, false);
    for (depth, name) in field.segments().enumerate() {
        let Some(mut node) = resolved(root, here) else { return Shape::Open };
        // `properties` alone says nothing against a list.
        in_list |= depth > 0 && types(node).is_empty();
        if is_list(node) {
            in_list = true;
            match node.get("items").and_then(|items| resolved(root, items)) {
                Some(items) => node = items,
                None => return Shape::Open,
            }
        }
        match property(root, node, name) {
            Shape::Known { schema, .. } => here = schema,
            other => return other,
        }
    }
    match resolved(root, here) {
        Some(found) if is_list(found) => match found.get("items").and_then(|items| resolved(root, items)) {
            Some(items) => Shape::Known { schema: items, in_list: true },
            None => Shape::Known { schema: found, in_list: true },
        },
        Some(found) => Shape::Known { schema: found, in_list },
        None => Shape::Open,
    }
}

/// What a field can be searched as by an index: it holds one kind of value, and only one at a time.
pub(super) fn searchable_kind(shape: Shape<'_>) -> Option<Kind> {
    match shape {
        Shape::Known { schema, in_list: false } => kind(schema),
        _ => None,
    }
}

fn kind(schema: &Value) -> Option<Kind> {
    let types = types(schema);
    let only =
        |wanted: &[&str]| !types.is_empty() && types.iter().all(|found| *found == "null" || wanted.contains(found));
    let format = schema.get("format").and_then(Value::as_str);
    let choices = schema.get("enum").and_then(Value::as_array);
    if types.is_empty() {
        let texts = choices.is_some_and(|values| values.iter().all(|value| value.is_string() || value.is_null()));
        return texts.then_some(Kind::Text);
    }
    if only(&["string"]) {
        return Some(if matches!(format, Some("date" | "date-time")) { Kind::Moment } else { Kind::Text });
    }
    only(&["integer", "number"]).then_some(Kind::Number)
}

/// The names in `type`, whether it is one or a list.
pub(crate) fn types(schema: &Value) -> Vec<&str> {
    match schema.get("type") {
        Some(Value::String(one)) => vec![one],
        Some(Value::Array(several)) => several.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

/// The top-level properties, with their schemas as far as references lead there.
pub(crate) fn properties(schema: &Value) -> impl Iterator<Item = (&String, &Value)> {
    let declared = schema.get("properties").and_then(Value::as_object);
    declared.into_iter().flatten().map(move |(name, property)| (name, resolved(schema, property).unwrap_or(property)))
}

fn is_list(schema: &Value) -> bool {
    types(schema).contains(&"array")
}

fn property<'s>(root: &'s Value, node: &'s Value, name: &str) -> Shape<'s> {
    let Some(fields) = node.as_object() else { return Shape::Open };
    let types = types(node);
    if !types.is_empty() && !types.contains(&"object") {
        return Shape::Impossible;
    }
    let declared = fields.get("properties").and_then(|properties| properties.get(name));
    if let Some(schema) = declared {
        return Shape::Known { schema, in_list: false };
    }
    let parts = fields.get("allOf").and_then(Value::as_array).into_iter().flatten();
    for part in parts.filter_map(|part| resolved(root, part)) {
        if let Some(schema) = part.get("properties").and_then(|properties| properties.get(name)) {
            return Shape::Known { schema, in_list: false };
        }
    }
    match fields.get("additionalProperties") {
        Some(Value::Bool(false)) if !says_more(fields) => Shape::Impossible,
        Some(schema @ Value::Object(_)) => Shape::Known { schema, in_list: false },
        _ => Shape::Open,
    }
}

/// Whether other keywords may allow what `properties` does not name.
fn says_more(fields: &Map<String, Value>) -> bool {
    fields.contains_key("patternProperties")
}

/// The schema that a chain of local references ends at; none if it leads away or in a circle.
fn resolved<'s>(root: &'s Value, mut schema: &'s Value) -> Option<&'s Value> {
    for _ in 0..MOST_REFERENCES {
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
    fn a_path_is_looked_up_through_references_and_lists() {
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
            ("status", Ok(Some(Kind::Text))),
            ("total", Ok(Some(Kind::Number))),
            ("due", Ok(Some(Kind::Moment))),
            ("parent.parent.total", Ok(Some(Kind::Number))),
            ("auditInfo.createdAt", Ok(Some(Kind::Moment))),
            ("lines.sku", Ok(None)),
            ("lines.quantity", Ok(None)),
            ("tags", Ok(None)),
            ("mixed", Ok(None)),
            ("untyped.a", Ok(None)),
            ("loop", Err("open")),
            ("loop.deeper", Err("open")),
            ("free.anything", Err("open")),
            ("nothing", Err("impossible")),
            ("parent.nothing", Err("impossible")),
            ("total.deeper", Err("impossible")),
            ("auditInfo.nothing", Err("impossible")),
        ] {
            let found = match at(&schema, &Field::parse(path).unwrap(), &MANAGED) {
                Shape::Open => Err("open"),
                Shape::Impossible => Err("impossible"),
                known => Ok(searchable_kind(known)),
            };
            assert_eq!(found, expected, "{path}");
        }
    }
}
