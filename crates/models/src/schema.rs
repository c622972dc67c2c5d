//! Input schemas in the form that providers accept.
//!
//! | dialect | for | what changes |
//! |---|---|---|
//! | [`Dialect::Full`] | OpenAI, Anthropic, most others | a plain object at the root: they refuse references and combinators there |
//! | [`Dialect::Gemini`] | Google | the same, no references anywhere, and only the keywords that it documents |
//!
//! What is lost here is lost to the model's guidance only: the executor holds every call against the tool's own
//! schema. A union at the root demands what all its branches demand and shows every property that one of them has.

use serde_json::{Map, Value, json};

/// Deeper schemas are cut off.
const DEEPEST: usize = 24;
/// Larger schemas are cut off; references make small ones large.
const MOST_NODES: usize = 4000;
/// What Google documents for `parametersJsonSchema` and `responseJsonSchema`, apart from what [`Lowering`] rewrites.
const GEMINI: [&str; 15] = [
    "type",
    "format",
    "title",
    "description",
    "enum",
    "items",
    "prefixItems",
    "minItems",
    "maxItems",
    "minimum",
    "maximum",
    "anyOf",
    "properties",
    "additionalProperties",
    "required",
];

/// Who reads a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// JSON Schema, apart from the root.
    Full,
    /// Google's subset.
    Gemini,
}

/// `schema` with a plain object at its root, in this dialect.
pub(crate) fn lower(schema: &Value, dialect: Dialect) -> Value {
    let mut lowering = Lowering { root: schema, budget: MOST_NODES };
    let mut root = lowering.object_root(schema, 0);
    root.insert("type".into(), json!("object"));
    root.entry("properties").or_insert_with(|| json!({}));
    if dialect == Dialect::Gemini {
        return lowering.gemini(&Value::Object(root), 0);
    }
    for group in ["$defs", "definitions"] {
        if let Some(definitions) = schema.get(group) {
            root.entry(group).or_insert_with(|| definitions.clone());
        }
    }
    for keyword in ["$schema", "$id", "$comment"] {
        root.shift_remove(keyword);
    }
    Value::Object(root)
}

/// Any schema in Google's subset; its root need not be an object.
pub(crate) fn lower_output(schema: &Value) -> Value {
    Lowering { root: schema, budget: MOST_NODES }.gemini(schema, 0)
}

/// Whether OpenAI can hold a model strictly to `schema`: every object closed, every property required. Strictness is
/// not forced upon others, because that would turn what is optional into what must be invented.
pub(crate) fn is_strict(schema: &Value) -> bool {
    match schema {
        Value::Array(items) => items.iter().all(is_strict),
        Value::Object(fields) => {
            let properties = fields.get("properties").and_then(Value::as_object);
            let object = properties.is_some() || fields.get("type").is_some_and(|name| name == "object");
            let required = fields.get("required").and_then(Value::as_array);
            let all_required = properties.is_none_or(|properties| {
                properties.keys().all(|name| required.is_some_and(|required| required.iter().any(|one| one == name)))
            });
            let closed = fields.get("additionalProperties") == Some(&Value::Bool(false));
            (!object || closed && all_required) && fields.values().all(is_strict)
        }
        _ => true,
    }
}

struct Lowering<'a> {
    root: &'a Value,
    budget: usize,
}

impl Lowering<'_> {
    /// The keywords of the object that `schema` accepts, without a reference or a combinator among them.
    fn object_root(&mut self, schema: &Value, depth: usize) -> Map<String, Value> {
        let Some(mut fields) = schema.as_object().filter(|_| depth < DEEPEST && self.pay()).cloned() else {
            return Map::new();
        };
        if let Some(target) = fields.shift_remove("$ref").and_then(|reference| self.resolve(reference.as_str()?)) {
            let target = self.object_root(&target, depth + 1);
            intersect(&mut fields, target);
        }
        for part in take_list(&mut fields, "allOf") {
            let part = self.object_root(&part, depth + 1);
            intersect(&mut fields, part);
        }
        for keyword in ["anyOf", "oneOf"] {
            let branches = take_list(&mut fields, keyword);
            let objects = branches.iter().filter(|branch| self.may_be_object(branch));
            let objects: Vec<Value> = objects.cloned().collect();
            let united = objects.iter().map(|branch| self.object_root(branch, depth + 1)).reduce(unite);
            intersect(&mut fields, united.unwrap_or_default());
        }
        for keyword in ["not", "if", "then", "else", "enum", "const", "dependentSchemas", "dependencies"] {
            fields.shift_remove(keyword);
        }
        fields
    }

    fn may_be_object(&self, schema: &Value) -> bool {
        match schema.get("type") {
            Some(Value::String(name)) => name == "object",
            Some(Value::Array(names)) => names.iter().any(|name| name == "object"),
            _ => true,
        }
    }

    fn gemini(&mut self, schema: &Value, depth: usize) -> Value {
        let Some(fields) = schema.as_object().filter(|_| depth < DEEPEST && self.pay()) else {
            return json!({});
        };
        let mut fields = fields.clone();
        if let Some(target) = fields.shift_remove("$ref").and_then(|reference| self.resolve(reference.as_str()?)) {
            let Value::Object(target) = target else { return json!({}) };
            // What stands beside a reference describes this place, so it wins.
            for (keyword, value) in target {
                fields.entry(keyword).or_insert(value);
            }
            return self.gemini(&Value::Object(fields), depth + 1);
        }
        rewrite(&mut fields);
        let mut lowered = Map::new();
        for (keyword, value) in &fields {
            if let (true, Some(value)) =
                (GEMINI.contains(&keyword.as_str()), self.gemini_keyword(keyword, value, depth))
            {
                lowered.insert(keyword.clone(), value);
            }
        }
        settle(&mut lowered);
        Value::Object(lowered)
    }

    fn gemini_keyword(&mut self, keyword: &str, value: &Value, depth: usize) -> Option<Value> {
        match (keyword, value) {
            ("properties", Value::Object(properties)) => {
                let lowered = properties.iter().map(|(name, schema)| (name.clone(), self.gemini(schema, depth + 1)));
                Some(Value::Object(lowered.collect()))
            }
            ("anyOf" | "prefixItems", Value::Array(schemas)) => {
                Some(schemas.iter().map(|schema| self.gemini(schema, depth + 1)).collect())
            }
            ("items" | "additionalProperties", Value::Object(_)) => Some(self.gemini(value, depth + 1)),
            ("additionalProperties", Value::Bool(_)) => Some(value.clone()),
            ("items" | "additionalProperties" | "properties" | "anyOf" | "prefixItems", _) => None,
            // It enumerates texts and numbers.
            ("enum", Value::Array(values)) => {
                let fits =
                    values.iter().all(|value| value.is_number() || value.as_str().is_some_and(|t| !t.is_empty()));
                (fits && !values.is_empty()).then(|| value.clone())
            }
            ("format", Value::String(name)) => {
                matches!(name.as_str(), "date-time" | "date" | "time" | "int32" | "int64" | "float" | "double")
                    .then(|| value.clone())
            }
            _ => Some(value.clone()),
        }
    }

    /// The schema at a reference into this document.
    fn resolve(&self, reference: &str) -> Option<Value> {
        self.root.pointer(reference.strip_prefix('#')?).cloned()
    }

    fn pay(&mut self) -> bool {
        let left = self.budget.checked_sub(1);
        self.budget = left.unwrap_or(0);
        left.is_some()
    }
}

/// Says in Google's keywords what others say.
fn rewrite(fields: &mut Map<String, Value>) {
    if let Some(only) = fields.shift_remove("const") {
        fields.entry("enum").or_insert_with(|| json!([only]));
    }
    if let Some(branches) = fields.shift_remove("oneOf") {
        fields.entry("anyOf").or_insert(branches);
    }
    for (exclusive, inclusive) in [("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")] {
        if let Some(bound) = fields.shift_remove(exclusive).filter(Value::is_number) {
            fields.entry(inclusive).or_insert(bound);
        }
    }
    for part in take_list(fields, "allOf") {
        if let Value::Object(part) = part {
            intersect(fields, part);
        }
    }
}

/// What Google demands of a finished schema: a choice has a type, a list describes its items, and only what is
/// described is required.
fn settle(lowered: &mut Map<String, Value>) {
    let choices = lowered.get("enum").and_then(Value::as_array);
    if choices.is_some_and(|choices| choices.iter().all(Value::is_string)) {
        lowered.entry("type").or_insert_with(|| json!("string"));
    }
    if lowered.get("type").is_some_and(|name| name == "array") && !lowered.contains_key("items") {
        lowered.insert("items".into(), json!({ "type": "string" }));
    }
    let Some(Value::Array(mut required)) = lowered.shift_remove("required") else {
        return;
    };
    let properties = lowered.get("properties").and_then(Value::as_object);
    required.retain(|name| {
        name.as_str().is_some_and(|name| properties.is_some_and(|properties| properties.contains_key(name)))
    });
    if !required.is_empty() {
        lowered.insert("required".into(), Value::Array(required));
    }
}

fn take_list(fields: &mut Map<String, Value>, keyword: &str) -> Vec<Value> {
    match fields.shift_remove(keyword) {
        Some(Value::Array(items)) => items,
        _ => Vec::new(),
    }
}

/// Adds what `more` demands: its properties and requirements; of everything else, what is not said yet.
fn intersect(fields: &mut Map<String, Value>, more: Map<String, Value>) {
    for (keyword, value) in more {
        match (fields.get_mut(&keyword), value) {
            (Some(Value::Object(properties)), Value::Object(added)) if keyword == "properties" => {
                for (name, schema) in added {
                    properties.entry(name).or_insert(schema);
                }
            }
            (Some(Value::Array(names)), Value::Array(added)) if keyword == "required" => {
                let new: Vec<Value> = added.into_iter().filter(|name| !names.contains(name)).collect();
                names.extend(new);
            }
            (Some(_), _) => {}
            (None, value) => {
                fields.insert(keyword, value);
            }
        }
    }
}

/// What one of two schemas allows: all properties, the common requirements.
fn unite(mut one: Map<String, Value>, mut two: Map<String, Value>) -> Map<String, Value> {
    let (first, second) = (take_list(&mut one, "required"), take_list(&mut two, "required"));
    let common: Vec<Value> = first.into_iter().filter(|name| second.contains(name)).collect();
    let closed = |fields: &Map<String, Value>| fields.get("additionalProperties") == Some(&Value::Bool(false));
    let both_closed = closed(&one) && closed(&two);
    for fields in [&mut one, &mut two] {
        for keyword in ["additionalProperties", "description", "title", "minProperties", "maxProperties"] {
            fields.shift_remove(keyword);
        }
    }
    intersect(&mut one, two);
    if !common.is_empty() {
        one.insert("required".into(), Value::Array(common));
    }
    if both_closed {
        one.insert("additionalProperties".into(), json!(false));
    }
    one
}

#[cfg(test)]
#[path = "schema_tests.rs"]
mod tests;
