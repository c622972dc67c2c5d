//! Normalizes a schema to JSON Schema 2020-12 and optionally inlines its references.
//!
//! Older notations of tuples, dependencies and exclusive bounds are converted. Depth and output size are limited,
//! because references can form cycles or grow exponentially. Where a limit is reached, a subschema is replaced with its
//! type and description.

use percent_encoding::percent_decode_str;
use serde_json::{Map, Value, json};

/// The maximum nesting depth. It is deeper than any schema that a model can follow, and well within the stack of a
/// thread.
const MAX_DEPTH: usize = 48;
/// How often a recursive reference is followed inside its own target. With 2, the schema of a tree shows the root and
/// its children.
const MAX_REPEATS: usize = 2;
/// Inlined references may add this many bytes, plus four times the size of the schema.
const BASE_BUDGET: usize = 64 * 1024;
/// The estimated size of an object without its fields, in bytes.
const NODE_WEIGHT: usize = 16;

/// How references are treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum References {
    /// Keep references and definitions.
    Keep,
    /// Replace references with their targets.
    Inline,
}

/// Normalizes the schema `root`.
pub(super) fn normalize(root: &Value, references: References) -> Value {
    let budget = weight(root, 0).saturating_mul(4).saturating_add(BASE_BUDGET);
    Normalizer { root, references, budget, open_references: Vec::new() }.schema(root, 0)
}

/// Whether `keyword` annotates a schema without constraining values.
pub(super) fn is_annotation(keyword: &str) -> bool {
    matches!(keyword, "title" | "description" | "default" | "examples" | "deprecated" | "readOnly" | "writeOnly")
}

struct Normalizer<'a> {
    root: &'a Value,
    references: References,
    budget: usize,
    /// The references that are being followed.
    open_references: Vec<&'a str>,
}

impl<'a> Normalizer<'a> {
    fn schema(&mut self, schema: &'a Value, depth: usize) -> Value {
        let Some(fields) = schema.as_object() else {
            // Providers reject the Boolean schemas `true` and `false`.
            return if *schema == Value::Bool(false) { json!({ "not": {} }) } else { json!({}) };
        };
        if depth >= MAX_DEPTH || !self.spend(NODE_WEIGHT) {
            return stub(fields);
        }
        let mut out = Map::new();
        for (keyword, value) in fields {
            self.keyword(&mut out, keyword, value, depth + 1);
        }
        self.tuple(&mut out, fields, depth + 1);
        convert_exclusive_bound(&mut out, "exclusiveMinimum", "minimum");
        convert_exclusive_bound(&mut out, "exclusiveMaximum", "maximum");
        match fields.get("$ref").and_then(Value::as_str) {
            Some(reference) if self.references == References::Inline => {
                let target = self.follow(reference, depth + 1);
                merge_reference(out, target)
            }
            _ => {
                if self.references == References::Keep && names_type(&out, "array") {
                    describe_items(&mut out);
                }
                Value::Object(out)
            }
        }
    }

    fn keyword(&mut self, out: &mut Map<String, Value>, keyword: &str, value: &'a Value, depth: usize) {
        let keep = self.references == References::Keep;
        let normalized = match (keyword, value) {
            ("$schema" | "$comment" | "additionalItems", _) => return,
            ("items", Value::Array(_)) => return,
            ("$defs" | "definitions", Value::Object(_)) if keep => self.map(value, depth),
            ("$defs" | "definitions", _) => return,
            (identity, _) if identity.starts_with('$') && !keep => return,
            ("properties" | "patternProperties" | "dependentSchemas", _) => self.map(value, depth),
            ("allOf" | "anyOf" | "oneOf" | "prefixItems", _) => self.list(value, depth),
            ("dependencies", Value::Object(dependencies)) => {
                return self.dependencies(out, dependencies, depth);
            }
            ("additionalProperties" | "unevaluatedProperties" | "unevaluatedItems", Value::Bool(_)) => value.clone(),
            ("items", Value::Bool(false)) => value.clone(),
            (
                "items"
                | "contains"
                | "not"
                | "if"
                | "then"
                | "else"
                | "propertyNames"
                | "contentSchema"
                | "additionalProperties"
                | "unevaluatedProperties"
                | "unevaluatedItems",
                _,
            ) => self.schema(value, depth),
            _ if self.spend(weight(value, 0).saturating_add(keyword.len())) => value.clone(),
            _ => return,
        };
        out.insert(keyword.to_owned(), normalized);
    }

    fn map(&mut self, schemas: &'a Value, depth: usize) -> Value {
        let entries = schemas.as_object().into_iter().flatten();
        let mut out = Map::new();
        for (name, schema) in entries {
            if self.spend(name.len()) {
                out.insert(name.clone(), self.schema(schema, depth));
            }
        }
        Value::Object(out)
    }

    fn list(&mut self, schemas: &'a Value, depth: usize) -> Value {
        schemas.as_array().into_iter().flatten().map(|schema| self.schema(schema, depth)).collect()
    }

    /// Converts a draft 7 tuple: a list of schemas in `items`, with `additionalItems` for further items.
    fn tuple(&mut self, out: &mut Map<String, Value>, fields: &'a Map<String, Value>, depth: usize) {
        let Some(items) = fields.get("items").filter(|items| items.is_array()) else {
            return;
        };
        out.insert("prefixItems".into(), self.list(items, depth));
        if let Some(rest) = fields.get("additionalItems") {
            self.keyword(out, "items", rest, depth);
        }
    }

    /// Converts draft 7 `dependencies`, which combine required properties and schemas.
    fn dependencies(&mut self, out: &mut Map<String, Value>, dependencies: &'a Map<String, Value>, depth: usize) {
        let mut required = Map::new();
        let mut schemas = Map::new();
        for (name, dependency) in dependencies {
            if dependency.is_array() {
                required.insert(name.clone(), dependency.clone());
            } else {
                schemas.insert(name.clone(), self.schema(dependency, depth));
            }
        }
        for (keyword, entries) in [("dependentRequired", required), ("dependentSchemas", schemas)] {
            if !entries.is_empty() {
                out.insert(keyword.into(), Value::Object(entries));
            }
        }
    }

    fn follow(&mut self, reference: &'a str, depth: usize) -> Value {
        let Some(target) = resolve(self.root, reference) else {
            return json!({});
        };
        if self.open_references.iter().filter(|open_references| **open_references == reference).count() >= MAX_REPEATS {
            return target.as_object().map_or_else(|| json!({}), stub);
        }
        self.open_references.push(reference);
        let schema = self.schema(target, depth);
        self.open_references.pop();
        schema
    }

    /// Takes `cost` from the budget. Returns `false` if the budget is smaller than `cost`.
    fn spend(&mut self, cost: usize) -> bool {
        let left = self.budget.checked_sub(cost);
        self.budget = left.unwrap_or(0);
        left.is_some()
    }
}

/// Resolves `reference` in the document: a JSON pointer, an `$anchor` or the `$id` of a definition.
pub(super) fn resolve<'a>(root: &'a Value, reference: &str) -> Option<&'a Value> {
    let own = root.get("$id").and_then(Value::as_str).filter(|id| !id.is_empty());
    let reference = own.and_then(|id| reference.strip_prefix(id)).unwrap_or(reference);
    let definition = |keyword: &str, wanted: &str| {
        let groups = ["$defs", "definitions"].into_iter().filter_map(|group| root.get(group)?.as_object());
        groups.flat_map(Map::values).find(|schema| schema.get(keyword).and_then(Value::as_str) == Some(wanted))
    };
    match reference.strip_prefix('#') {
        None if reference.is_empty() => Some(root),
        None => definition("$id", reference),
        Some(pointer) if pointer.is_empty() || pointer.starts_with('/') => {
            root.pointer(&percent_decode_str(pointer).decode_utf8().ok()?)
        }
        Some(anchor) => definition("$anchor", anchor),
    }
}

/// Whether `type` includes `wanted`.
fn names_type(fields: &Map<String, Value>, wanted: &str) -> bool {
    match fields.get("type") {
        Some(Value::String(one)) => one == wanted,
        Some(Value::Array(list)) => list.iter().any(|one| one == wanted),
        _ => false,
    }
}

/// Returns only the type and description of a schema. The result replaces the schema where a limit is reached.
fn stub(fields: &Map<String, Value>) -> Value {
    let kept = ["type", "description"].into_iter().filter_map(|keyword| Some((keyword, fields.get(keyword)?)));
    let short = kept.filter(|(_, value)| weight(value, 0) <= 256);
    Value::Object(short.map(|(keyword, value)| (keyword.to_owned(), value.clone())).collect())
}

/// Merges the target of a reference with the keywords beside the reference: into one object if they do not conflict,
/// otherwise under `allOf`. Annotations beside the reference take precedence over those of the target, because they
/// describe this use of the target.
fn merge_reference(mut siblings: Map<String, Value>, target: Value) -> Value {
    let Value::Object(target) = target else {
        return Value::Object(siblings);
    };
    let fits = |(keyword, value): (&String, &Value)| {
        is_annotation(keyword) || siblings.get(keyword).is_none_or(|own| own == value)
    };
    if target.iter().all(fits) {
        for (keyword, value) in target {
            siblings.entry(keyword).or_insert(value);
        }
    } else if let Value::Array(parts) = siblings.entry("allOf").or_insert_with(|| json!([])) {
        parts.push(Value::Object(target));
    }
    Value::Object(siblings)
}

/// Adds an `items` object, which OpenAI requires for every list. `items: false` becomes `maxItems` with the length of
/// `prefixItems`.
fn describe_items(fields: &mut Map<String, Value>) {
    let items = fields.entry("items").or_insert_with(|| json!({}));
    if *items == Value::Bool(false) {
        *items = json!({});
        let tuple = fields.get("prefixItems").and_then(Value::as_array).map_or(0, Vec::len);
        fields.insert("maxItems".into(), json!(tuple));
    }
}

/// Converts a draft 4 exclusive bound, which consists of a number and a Boolean flag.
fn convert_exclusive_bound(fields: &mut Map<String, Value>, flag: &str, bound: &str) {
    let Some(Value::Bool(set)) = fields.get(flag) else {
        return;
    };
    let limit = if *set { fields.shift_remove(bound) } else { None };
    fields.shift_remove(flag);
    if let Some(limit) = limit {
        fields.insert(flag.to_owned(), limit);
    }
}

/// Estimates the size of `value` in bytes.
fn weight(value: &Value, depth: usize) -> usize {
    match value {
        Value::String(text) => text.len().saturating_add(2),
        Value::Array(items) if depth < 256 => items.iter().map(|item| weight(item, depth + 1)).sum::<usize>() + 2,
        Value::Object(fields) if depth < 256 => {
            fields.iter().map(|(name, value)| name.len() + weight(value, depth + 1)).sum::<usize>() + NODE_WEIGHT
        }
        _ => 8,
    }
}
