//! How what a system returns differs from what its tool says it returns, field by field. Shapes only: a difference names
//! fields and types, never values, so that it can be kept and shown.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};
use toolwright_types::{Change, Difference};

use crate::Violation;

/// How many differences are worth telling.
const MOST: usize = 50;
/// How many places are looked at.
const MOST_PLACES: usize = 5_000;
/// Deeper ones are not.
const DEEPEST: usize = 24;
/// How many items of a list stand for all.
const ITEMS: usize = 20;

/// How an output differs from its schema. `violations` say where, when nothing about its shape does.
pub fn of_output(schema: &Value, output: &Value, violations: &[Violation]) -> Vec<Difference> {
    let mut walk = Walk { root: schema, found: BTreeSet::new(), places: MOST_PLACES };
    walk.value(schema, output, "/output", 0);
    let shaped = walk.found.iter().any(|difference| difference.change != Change::Added);
    if !shaped {
        let place = |violation: &Violation| format!("/output{}", any_item(&violation.path));
        let values = violations.iter().map(|violation| Difference::new(place(violation), Change::Value, None, None));
        walk.found.extend(values);
    }
    walk.finish()
}

/// How what a tool takes and returns has changed between two definitions of it.
pub fn of_schemas(part: &str, old: &Value, new: &Value) -> Vec<Difference> {
    let (mut before, mut after) = (BTreeMap::new(), BTreeMap::new());
    for (schema, fields) in [(old, &mut before), (new, &mut after)] {
        Fields { root: schema, fields, places: MOST_PLACES }.collect(schema, format!("/{part}"), 0);
    }
    let mut found = BTreeSet::new();
    for (path, expected) in &before {
        match after.get(path) {
            None => found.insert(Difference::new(path.clone(), Change::Missing, Some(expected), None)),
            Some(now) if now != expected => {
                found.insert(Difference::new(path.clone(), Change::Type, Some(expected), Some(now)))
            }
            Some(_) => false,
        };
    }
    let added = after.iter().filter(|(path, _)| !before.contains_key(*path));
    found.extend(added.map(|(path, now)| Difference::new(path.clone(), Change::Added, None, Some(now))));
    found.into_iter().take(MOST).collect()
}

struct Walk<'a> {
    root: &'a Value,
    found: BTreeSet<Difference>,
    places: usize,
}

impl<'a> Walk<'a> {
    fn value(&mut self, schema: &'a Value, value: &Value, path: &str, depth: usize) {
        let Some(fields) = followed(self.root, schema).as_object() else { return };
        if depth > DEEPEST || self.places == 0 || self.found.len() >= MOST {
            return;
        }
        self.places -= 1;
        if let Some(expected) = fields.get("type").map(type_names)
            && !expected.split('|').any(|name| is_a(value, name))
        {
            self.found.insert(Difference::new(path.to_owned(), Change::Type, Some(&expected), Some(type_of(value))));
            return;
        }
        for part in fields.get("allOf").and_then(Value::as_array).into_iter().flatten() {
            self.value(part, value, path, depth + 1);
        }
        match value {
            Value::Object(values) => self.object(fields, values, path, depth),
            Value::Array(items) => {
                if let Some(schema) = fields.get("items") {
                    items.iter().take(ITEMS).for_each(|item| self.value(schema, item, &format!("{path}/*"), depth + 1));
                }
            }
            _ => {}
        }
    }

    fn object(&mut self, fields: &'a Map<String, Value>, values: &Map<String, Value>, path: &str, depth: usize) {
        let required = fields.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
        for name in required.filter(|name| !values.contains_key(*name)) {
            self.found.insert(Difference::new(joined(path, name), Change::Missing, None, None));
        }
        let Some(properties) = fields.get("properties").and_then(Value::as_object) else { return };
        for (name, value) in values {
            match properties.get(name) {
                Some(schema) => self.value(schema, value, &joined(path, name), depth + 1),
                None if ["additionalProperties", "patternProperties", "allOf", "anyOf", "oneOf"]
                    .iter()
                    .any(|keyword| fields.get(*keyword).is_some_and(|said| *said != Value::Bool(false))) => {}
                None => {
                    let found = type_of(value);
                    self.found.insert(Difference::new(joined(path, name), Change::Added, None, Some(found)));
                }
            }
        }
    }

    fn finish(self) -> Vec<Difference> {
        self.found.into_iter().take(MOST).collect()
    }
}

/// The fields that a schema speaks of, with their types.
struct Fields<'a, 'f> {
    root: &'a Value,
    fields: &'f mut BTreeMap<String, String>,
    places: usize,
}

impl<'a> Fields<'a, '_> {
    fn collect(&mut self, schema: &'a Value, path: String, depth: usize) {
        let Some(fields) = followed(self.root, schema).as_object() else { return };
        if depth > DEEPEST || self.places == 0 {
            return;
        }
        self.places -= 1;
        for part in fields.get("allOf").and_then(Value::as_array).into_iter().flatten() {
            self.collect(part, path.clone(), depth + 1);
        }
        for (name, property) in fields.get("properties").and_then(Value::as_object).into_iter().flatten() {
            self.collect(property, joined(&path, name), depth + 1);
        }
        if let Some(items) = fields.get("items") {
            self.collect(items, format!("{path}/*"), depth + 1);
        }
        let kind = fields.get("type").map_or_else(|| "any".to_owned(), type_names);
        self.fields.entry(path).or_insert(kind);
    }
}

/// The schema itself, or what it refers to. A circle ends as it began.
fn followed<'a>(root: &'a Value, mut schema: &'a Value) -> &'a Value {
    for _ in 0..8 {
        let reference = schema.get("$ref").and_then(Value::as_str).and_then(|text| text.strip_prefix('#'));
        match reference.and_then(|pointer| root.pointer(pointer)) {
            Some(target) => schema = target,
            None => break,
        }
    }
    schema
}

fn type_names(kind: &Value) -> String {
    match kind {
        Value::String(name) => name.clone(),
        Value::Array(names) => names.iter().filter_map(Value::as_str).collect::<Vec<_>>().join("|"),
        _ => "any".to_owned(),
    }
}

fn is_a(value: &Value, name: &str) -> bool {
    match name {
        "any" => true,
        "number" => value.is_number(),
        "integer" => value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|number| number.fract() == 0.0),
        name => type_of(value) == name,
    }
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn joined(path: &str, name: &str) -> String {
    format!("{path}/{}", name.replace('~', "~0").replace('/', "~1"))
}

/// A pointer with `*` for every index, so that the third item and the fourth are one difference.
fn any_item(pointer: &str) -> String {
    let steps = pointer.split('/').map(|step| {
        let index = !step.is_empty() && step.bytes().all(|byte| byte.is_ascii_digit());
        if index { "*" } else { step }
    });
    steps.collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn told(differences: &[Difference]) -> Vec<String> {
        let one = |difference: &Difference| {
            let types = [&difference.expected, &difference.found].map(|name| name.as_deref().unwrap_or("-").to_owned());
            format!("{} {:?} {}→{}", difference.path, difference.change, types[0], types[1])
        };
        differences.iter().map(one).collect()
    }

    #[test]
    fn an_output_differs_by_fields_and_types() {
        let item = json!({ "type": "object", "required": ["id", "name"], "properties": { "id": { "type": "integer" }, "name": { "type": "string" }, "next": { "$ref": "#/$defs/Item" } } });
        let schema = json!({ "type": "object", "properties": { "items": { "type": "array", "items": { "$ref": "#/$defs/Item" } } }, "$defs": { "Item": item } });
        let output = json!({ "items": [{ "id": "7", "name": "a" }, { "id": 8, "more": [] }, { "id": 1, "name": "b", "next": { "id": 2.5, "name": null } }], "total": 3 });
        let found = told(&of_output(&schema, &output, &[]));
        assert_eq!(
            found,
            [
                "/output/items/*/id Type integer→string",
                "/output/items/*/more Added -→array",
                "/output/items/*/name Missing -→-",
                "/output/items/*/next/id Type integer→number",
                "/output/items/*/next/name Type string→null",
                "/output/total Added -→number",
            ]
        );
    }

    #[test]
    fn what_has_the_right_shape_differs_by_its_places() {
        let schema = json!({ "type": "array", "items": { "type": "string", "enum": ["a"] } });
        let violations = [
            Violation { path: "/0".into(), message: "secret".into() },
            Violation { path: "/3".into(), message: String::new() },
        ];
        assert_eq!(told(&of_output(&schema, &json!(["b"]), &violations)), ["/output/* Value -→-"]);
    }

    #[test]
    fn definitions_differ_by_what_they_speak_of() {
        let old = json!({ "type": "object", "properties": { "a": { "type": "string" }, "b": { "type": "array", "items": { "type": "object", "properties": { "c": {} } } } } });
        let new = json!({ "type": "object", "properties": { "a": { "type": ["string", "null"] }, "b": { "type": "array", "items": { "type": "object" } }, "d": { "type": "integer" } } });
        assert_eq!(
            told(&of_schemas("input", &old, &new)),
            ["/input/a Type string→string|null", "/input/b/*/c Missing any→-", "/input/d Added -→integer"]
        );
        assert!(of_schemas("input", &old, &old).is_empty());
    }

    #[test]
    fn circles_and_crowds_end() {
        let circle = json!({ "$ref": "#", "properties": { "a": { "$ref": "#" } } });
        let _ = (of_output(&circle, &json!({ "a": { "a": 1 } }), &[]), of_schemas("x", &circle, &json!({})));
        let crowd: Map<String, Value> = (0..10_000).map(|n| (format!("f{n}"), json!(n))).collect();
        let closed = json!({ "type": "object", "properties": { "x": {} } });
        assert!(of_output(&closed, &Value::Object(crowd), &[]).len() <= MOST);
    }
}
