//! One walk over a schema that brings it to JSON Schema 2020-12 and, when asked, writes references out.
//!
//! Older ways to write tuples, dependencies and exclusive bounds become today's. The walk is bounded in depth and in
//! what it writes, so a schema whose references multiply or go in circles ends as an open schema at that place.

use percent_encoding::percent_decode_str;
use serde_json::{Map, Value, json};

/// Deeper than any schema a model can follow, and well within a thread's stack.
const DEEPEST: usize = 48;
/// How often one reference is followed inside itself: a tree shows its root and its children.
const REPEATS: usize = 2;
/// What references may add, in bytes, beside four times the schema itself.
const ALLOWANCE: usize = 64 * 1024;
/// The weight of a schema without its texts and values.
const NODE: usize = 16;

/// What to do with references.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum References {
    /// Leave them and their definitions.
    Keep,
    /// Put what they name in their place.
    Inline,
}

/// `root` in today's keywords.
pub(super) fn walk(root: &Value, references: References) -> Value {
    let budget = weight(root, 0).saturating_mul(4).saturating_add(ALLOWANCE);
    Walk { root, references, budget, open: Vec::new() }.schema(root, 0)
}

/// What a schema says about itself and not about values.
pub(super) fn is_annotation(keyword: &str) -> bool {
    matches!(keyword, "title" | "description" | "default" | "examples" | "deprecated" | "readOnly" | "writeOnly")
}

struct Walk<'a> {
    root: &'a Value,
    references: References,
    budget: usize,
    /// The references being followed.
    open: Vec<&'a str>,
}

impl<'a> Walk<'a> {
    fn schema(&mut self, schema: &'a Value, depth: usize) -> Value {
        let Some(fields) = schema.as_object() else {
            // Providers read objects only.
            return if *schema == Value::Bool(false) { json!({ "not": {} }) } else { json!({}) };
        };
        if depth >= DEEPEST || !self.pay(NODE) {
            return stub(fields);
        }
        let mut out = Map::new();
        for (keyword, value) in fields {
            self.keyword(&mut out, keyword, value, depth + 1);
        }
        self.tuple(&mut out, fields, depth + 1);
        exclusive(&mut out, "exclusiveMinimum", "minimum");
        exclusive(&mut out, "exclusiveMaximum", "maximum");
        match fields.get("$ref").and_then(Value::as_str) {
            Some(reference) if self.references == References::Inline => {
                let target = self.follow(reference, depth + 1);
                combine(out, target)
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
        let walked = match (keyword, value) {
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
            _ if self.pay(weight(value, 0).saturating_add(keyword.len())) => value.clone(),
            _ => return,
        };
        out.insert(keyword.to_owned(), walked);
    }

    fn map(&mut self, schemas: &'a Value, depth: usize) -> Value {
        let entries = schemas.as_object().into_iter().flatten();
        let mut out = Map::new();
        for (name, schema) in entries {
            if self.pay(name.len()) {
                out.insert(name.clone(), self.schema(schema, depth));
            }
        }
        Value::Object(out)
    }

    fn list(&mut self, schemas: &'a Value, depth: usize) -> Value {
        schemas.as_array().into_iter().flatten().map(|schema| self.schema(schema, depth)).collect()
    }

    /// Draft 7 wrote a tuple as a list in `items` and the rest as `additionalItems`.
    fn tuple(&mut self, out: &mut Map<String, Value>, fields: &'a Map<String, Value>, depth: usize) {
        let Some(items) = fields.get("items").filter(|items| items.is_array()) else {
            return;
        };
        out.insert("prefixItems".into(), self.list(items, depth));
        if let Some(rest) = fields.get("additionalItems") {
            self.keyword(out, "items", rest, depth);
        }
    }

    /// Draft 7 wrote both kinds of dependency under one keyword.
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
        if self.open.iter().filter(|open| **open == reference).count() >= REPEATS {
            return target.as_object().map_or_else(|| json!({}), stub);
        }
        self.open.push(reference);
        let schema = self.schema(target, depth);
        self.open.pop();
        schema
    }

    /// Takes `cost` from the budget; false when it is spent.
    fn pay(&mut self, cost: usize) -> bool {
        let left = self.budget.checked_sub(cost);
        self.budget = left.unwrap_or(0);
        left.is_some()
    }
}

/// Finds `reference` in the document: a JSON pointer, an `$anchor` or the `$id` of a definition.
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

/// Whether `type` names `wanted`, alone or among others.
fn names_type(fields: &Map<String, Value>, wanted: &str) -> bool {
    match fields.get("type") {
        Some(Value::String(one)) => one == wanted,
        Some(Value::Array(several)) => several.iter().any(|one| one == wanted),
        _ => false,
    }
}

/// What is left of a schema where the walk ends.
fn stub(fields: &Map<String, Value>) -> Value {
    let kept = ["type", "description"].into_iter().filter_map(|keyword| Some((keyword, fields.get(keyword)?)));
    let short = kept.filter(|(_, value)| weight(value, 0) <= 256);
    Value::Object(short.map(|(keyword, value)| (keyword.to_owned(), value.clone())).collect())
}

/// A schema with a reference beside other keywords: one object if they do not contradict each other. What stands
/// beside the reference describes this place, so it wins over the description of the target.
fn combine(mut beside: Map<String, Value>, target: Value) -> Value {
    let Value::Object(target) = target else {
        return Value::Object(beside);
    };
    let fits = |(keyword, value): (&String, &Value)| {
        is_annotation(keyword) || beside.get(keyword).is_none_or(|own| own == value)
    };
    if target.iter().all(fits) {
        for (keyword, value) in target {
            beside.entry(keyword).or_insert(value);
        }
    } else if let Value::Array(parts) = beside.entry("allOf").or_insert_with(|| json!([])) {
        parts.push(Value::Object(target));
    }
    Value::Object(beside)
}

/// OpenAI wants every list to describe its items, in an object. Nothing after a tuple is a greatest length.
fn describe_items(fields: &mut Map<String, Value>) {
    let items = fields.entry("items").or_insert_with(|| json!({}));
    if *items == Value::Bool(false) {
        *items = json!({});
        let tuple = fields.get("prefixItems").and_then(Value::as_array).map_or(0, Vec::len);
        fields.insert("maxItems".into(), json!(tuple));
    }
}

/// Draft 4 wrote an exclusive bound as a bound and a flag.
fn exclusive(fields: &mut Map<String, Value>, flag: &str, bound: &str) {
    let Some(Value::Bool(set)) = fields.get(flag) else {
        return;
    };
    let limit = if *set { fields.shift_remove(bound) } else { None };
    fields.shift_remove(flag);
    if let Some(limit) = limit {
        fields.insert(flag.to_owned(), limit);
    }
}

/// About how many bytes `value` has.
fn weight(value: &Value, depth: usize) -> usize {
    match value {
        Value::String(text) => text.len().saturating_add(2),
        Value::Array(items) if depth < 256 => items.iter().map(|item| weight(item, depth + 1)).sum::<usize>() + 2,
        Value::Object(fields) if depth < 256 => {
            fields.iter().map(|(name, value)| name.len() + weight(value, depth + 1)).sum::<usize>() + NODE
        }
        _ => 8,
    }
}
