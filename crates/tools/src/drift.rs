//! Compares outputs and schemas field by field, to detect drift.
//!
//! A difference contains paths and types but no values, so that storing or showing it reveals no data.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};
use toolwright_types::{DifferenceKind, SchemaDifference};

use crate::Violation;

/// The maximum number of differences that are reported.
const MAX_DIFFERENCES: usize = 50;
/// The maximum number of schema nodes that are visited.
const MAX_NODES: usize = 5_000;
/// The maximum depth that is visited.
const MAX_DEPTH: usize = 24;
/// How many items of a list are compared with the item schema.
const SAMPLED_ITEMS: usize = 20;

/// Returns how `output` differs from `schema`. If no type differs and no field is missing, the result also contains the
/// path of each violation in `violations`. An example is the path of a value that is not in an enum.
pub fn compare_output(schema: &Value, output: &Value, violations: &[Violation]) -> Vec<SchemaDifference> {
    let mut comparison = OutputComparison { root: schema, found: BTreeSet::new(), remaining_nodes: MAX_NODES };
    comparison.value(schema, output, "/output", 0);
    let shape_differs = comparison.found.iter().any(|difference| difference.change != DifferenceKind::Added);
    if !shape_differs {
        let path = |violation: &Violation| format!("/output{}", wildcard_indices(&violation.path));
        let values = violations
            .iter()
            .map(|violation| SchemaDifference::new(path(violation), DifferenceKind::Value, None, None));
        comparison.found.extend(values);
    }
    comparison.finish()
}

/// Returns how the fields of a tool's schema changed between two definitions. `part` is the first segment of every
/// returned path.
pub fn compare_schemas(part: &str, old: &Value, new: &Value) -> Vec<SchemaDifference> {
    let (mut before, mut after) = (BTreeMap::new(), BTreeMap::new());
    for (schema, fields) in [(old, &mut before), (new, &mut after)] {
        FieldCollector { root: schema, fields, remaining_nodes: MAX_NODES }.collect(schema, format!("/{part}"), 0);
    }
    let mut found = BTreeSet::new();
    for (path, expected) in &before {
        match after.get(path) {
            None => found.insert(SchemaDifference::new(path.clone(), DifferenceKind::Missing, Some(expected), None)),
            Some(now) if now != expected => {
                found.insert(SchemaDifference::new(path.clone(), DifferenceKind::Type, Some(expected), Some(now)))
            }
            Some(_) => false,
        };
    }
    let added = after.iter().filter(|(path, _)| !before.contains_key(*path));
    found.extend(added.map(|(path, now)| SchemaDifference::new(path.clone(), DifferenceKind::Added, None, Some(now))));
    found.into_iter().take(MAX_DIFFERENCES).collect()
}

struct OutputComparison<'a> {
    root: &'a Value,
    found: BTreeSet<SchemaDifference>,
    remaining_nodes: usize,
}

impl<'a> OutputComparison<'a> {
    fn value(&mut self, schema: &'a Value, value: &Value, path: &str, depth: usize) {
        let Some(fields) = resolve_ref(self.root, schema).as_object() else { return };
        if depth > MAX_DEPTH || self.remaining_nodes == 0 || self.found.len() >= MAX_DIFFERENCES {
            return;
        }
        self.remaining_nodes -= 1;
        if let Some(expected) = fields.get("type").map(type_names)
            && !expected.split('|').any(|name| has_type(value, name))
        {
            self.found.insert(SchemaDifference::new(
                path.to_owned(),
                DifferenceKind::Type,
                Some(&expected),
                Some(type_of(value)),
            ));
            return;
        }
        for part in fields.get("allOf").and_then(Value::as_array).into_iter().flatten() {
            self.value(part, value, path, depth + 1);
        }
        match value {
            Value::Object(values) => self.object(fields, values, path, depth),
            Value::Array(items) => {
                if let Some(schema) = fields.get("items") {
                    items
                        .iter()
                        .take(SAMPLED_ITEMS)
                        .for_each(|item| self.value(schema, item, &format!("{path}/*"), depth + 1));
                }
            }
            _ => {}
        }
    }

    fn object(&mut self, fields: &'a Map<String, Value>, values: &Map<String, Value>, path: &str, depth: usize) {
        let required = fields.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
        for name in required.filter(|name| !values.contains_key(*name)) {
            self.found.insert(SchemaDifference::new(child_path(path, name), DifferenceKind::Missing, None, None));
        }
        let Some(properties) = fields.get("properties").and_then(Value::as_object) else { return };
        for (name, value) in values {
            match properties.get(name) {
                Some(schema) => self.value(schema, value, &child_path(path, name), depth + 1),
                None if ["additionalProperties", "patternProperties", "allOf", "anyOf", "oneOf"]
                    .iter()
                    .any(|keyword| fields.get(*keyword).is_some_and(|value| *value != Value::Bool(false))) => {}
                None => {
                    let found = type_of(value);
                    self.found.insert(SchemaDifference::new(
                        child_path(path, name),
                        DifferenceKind::Added,
                        None,
                        Some(found),
                    ));
                }
            }
        }
    }

    fn finish(self) -> Vec<SchemaDifference> {
        self.found.into_iter().take(MAX_DIFFERENCES).collect()
    }
}

/// Collects the fields that a schema describes, with their types.
struct FieldCollector<'a, 'f> {
    root: &'a Value,
    fields: &'f mut BTreeMap<String, String>,
    remaining_nodes: usize,
}

impl<'a> FieldCollector<'a, '_> {
    fn collect(&mut self, schema: &'a Value, path: String, depth: usize) {
        let Some(fields) = resolve_ref(self.root, schema).as_object() else { return };
        if depth > MAX_DEPTH || self.remaining_nodes == 0 {
            return;
        }
        self.remaining_nodes -= 1;
        for part in fields.get("allOf").and_then(Value::as_array).into_iter().flatten() {
            self.collect(part, path.clone(), depth + 1);
        }
        for (name, property) in fields.get("properties").and_then(Value::as_object).into_iter().flatten() {
            self.collect(property, child_path(&path, name), depth + 1);
        }
        if let Some(items) = fields.get("items") {
            self.collect(items, format!("{path}/*"), depth + 1);
        }
        let kind = fields.get("type").map_or_else(|| "any".to_owned(), type_names);
        self.fields.entry(path).or_insert(kind);
    }
}

/// Follows `$ref` to the schema it names. Follows at most eight references, so that a cycle of references causes no
/// endless loop.
fn resolve_ref<'a>(root: &'a Value, mut schema: &'a Value) -> &'a Value {
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

fn has_type(value: &Value, name: &str) -> bool {
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

fn child_path(path: &str, name: &str) -> String {
    format!("{path}/{}", name.replace('~', "~0").replace('/', "~1"))
}

/// Replaces every index in a JSON pointer with `*`, so that the same difference in several items is reported once.
fn wildcard_indices(pointer: &str) -> String {
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

    fn summarize(differences: &[SchemaDifference]) -> Vec<String> {
        let summary = |difference: &SchemaDifference| {
            let types = [&difference.expected, &difference.found].map(|name| name.as_deref().unwrap_or("-").to_owned());
            format!("{} {:?} {}→{}", difference.path, difference.change, types[0], types[1])
        };
        differences.iter().map(summary).collect()
    }

    #[test]
    fn compare_output_reports_path_and_types_of_each_difference() {
        let item = json!({ "type": "object", "required": ["id", "name"], "properties": { "id": { "type": "integer" }, "name": { "type": "string" }, "next": { "$ref": "#/$defs/Item" } } });
        let schema = json!({ "type": "object", "properties": { "items": { "type": "array", "items": { "$ref": "#/$defs/Item" } } }, "$defs": { "Item": item } });
        let output = json!({ "items": [{ "id": "7", "name": "a" }, { "id": 8, "more": [] }, { "id": 1, "name": "b", "next": { "id": 2.5, "name": null } }], "total": 3 });
        let found = summarize(&compare_output(&schema, &output, &[]));
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
    fn compare_output_reports_the_paths_of_violations_if_no_type_differs() {
        let schema = json!({ "type": "array", "items": { "type": "string", "enum": ["a"] } });
        let violations = [
            Violation { path: "/0".into(), message: "secret".into() },
            Violation { path: "/3".into(), message: String::new() },
        ];
        assert_eq!(summarize(&compare_output(&schema, &json!(["b"]), &violations)), ["/output/* Value -→-"]);
    }

    #[test]
    fn compare_schemas_reports_changed_missing_and_added_fields() {
        let old = json!({ "type": "object", "properties": { "a": { "type": "string" }, "b": { "type": "array", "items": { "type": "object", "properties": { "c": {} } } } } });
        let new = json!({ "type": "object", "properties": { "a": { "type": ["string", "null"] }, "b": { "type": "array", "items": { "type": "object" } }, "d": { "type": "integer" } } });
        assert_eq!(
            summarize(&compare_schemas("input", &old, &new)),
            ["/input/a Type string→string|null", "/input/b/*/c Missing any→-", "/input/d Added -→integer"]
        );
        assert!(compare_schemas("input", &old, &old).is_empty());
    }

    #[test]
    fn comparison_of_cyclic_schemas_ends_and_the_number_of_differences_is_limited() {
        let circle = json!({ "$ref": "#", "properties": { "a": { "$ref": "#" } } });
        let _ = (compare_output(&circle, &json!({ "a": { "a": 1 } }), &[]), compare_schemas("x", &circle, &json!({})));
        let many_fields: Map<String, Value> = (0..10_000).map(|n| (format!("f{n}"), json!(n))).collect();
        let closed = json!({ "type": "object", "properties": { "x": {} } });
        assert!(compare_output(&closed, &Value::Object(many_fields), &[]).len() <= MAX_DIFFERENCES);
    }
}
