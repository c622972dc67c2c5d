//! Lowers schemas: reduces them to the subsets of JSON Schema that providers accept.
//!
//! | dialect | providers | restrictions |
//! |---|---|---|
//! | [`Dialect::Full`] | OpenAI, Anthropic, most others | the root is a plain object, without references and combinators |
//! | [`Dialect::Gemini`] | Google | also no references anywhere, and only the keywords that Google documents |
//!
//! A lowered schema only guides the model. The executor validates every call against the tool's own schema. A union at
//! the root becomes an object with the properties of all branches. This object requires only the properties that every
//! branch requires.

use serde_json::{Map, Value, json};

/// The maximum nesting depth. A deeper subschema is replaced with a schema that accepts any value.
const MAX_DEPTH: usize = 24;
/// The maximum number of subschemas after references are inlined. Each further subschema is replaced with a schema that
/// accepts any value.
const MAX_NODES: usize = 4000;
/// The keywords that Google documents for `parametersJsonSchema` and `responseJsonSchema`, except those that
/// [`Lowering`] rewrites.
const GEMINI_KEYWORDS: [&str; 15] = [
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

/// A provider's variant of JSON Schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// JSON Schema with a restricted root.
    Full,
    /// Google's subset.
    Gemini,
}

/// Lowers an input schema to `dialect`. The root of the result is an object without references and combinators.
pub(crate) fn lower(schema: &Value, dialect: Dialect) -> Value {
    let mut lowering = Lowering { root: schema, remaining_nodes: MAX_NODES };
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

/// Lowers an output schema to Google's subset. Its root need not be an object.
pub(crate) fn lower_output(schema: &Value) -> Value {
    Lowering { root: schema, remaining_nodes: MAX_NODES }.gemini(schema, 0)
}

/// Returns whether OpenAI's strict mode supports `schema`: every object forbids additional properties and requires all
/// of its properties. Other schemas are not converted to this form, because the model would have to invent values for
/// optional properties.
pub(crate) fn supports_strict_mode(schema: &Value) -> bool {
    match schema {
        Value::Array(items) => items.iter().all(supports_strict_mode),
        Value::Object(fields) => {
            let properties = fields.get("properties").and_then(Value::as_object);
            let is_object = properties.is_some() || fields.get("type").is_some_and(|name| name == "object");
            let required = fields.get("required").and_then(Value::as_array);
            let all_required = properties.is_none_or(|properties| {
                properties
                    .keys()
                    .all(|name| required.is_some_and(|required| required.iter().any(|required| required == name)))
            });
            let closed = fields.get("additionalProperties") == Some(&Value::Bool(false));
            (!is_object || closed && all_required) && fields.values().all(supports_strict_mode)
        }
        _ => true,
    }
}

struct Lowering<'a> {
    root: &'a Value,
    remaining_nodes: usize,
}

impl Lowering<'_> {
    /// Returns the keywords of the object that `schema` describes, with references and combinators resolved.
    fn object_root(&mut self, schema: &Value, depth: usize) -> Map<String, Value> {
        let Some(mut fields) = schema.as_object().filter(|_| depth < MAX_DEPTH && self.charge()).cloned() else {
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
            let union = objects.iter().map(|branch| self.object_root(branch, depth + 1)).reduce(union);
            intersect(&mut fields, union.unwrap_or_default());
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

    /// Lowers a schema to Google's subset.
    fn gemini(&mut self, schema: &Value, depth: usize) -> Value {
        let Some(fields) = schema.as_object().filter(|_| depth < MAX_DEPTH && self.charge()) else {
            return json!({});
        };
        let mut fields = fields.clone();
        if let Some(target) = fields.shift_remove("$ref").and_then(|reference| self.resolve(reference.as_str()?)) {
            let Value::Object(target) = target else { return json!({}) };
            // The siblings of a reference take precedence, because they describe this use of the target.
            for (keyword, value) in target {
                fields.entry(keyword).or_insert(value);
            }
            return self.gemini(&Value::Object(fields), depth + 1);
        }
        rewrite_for_gemini(&mut fields);
        let mut lowered = Map::new();
        for (keyword, value) in &fields {
            if let (true, Some(value)) =
                (GEMINI_KEYWORDS.contains(&keyword.as_str()), self.gemini_keyword(keyword, value, depth))
            {
                lowered.insert(keyword.clone(), value);
            }
        }
        complete_for_gemini(&mut lowered);
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
            // Google supports enums of non-empty strings and of numbers.
            ("enum", Value::Array(values)) => {
                let supported =
                    values.iter().all(|value| value.is_number() || value.as_str().is_some_and(|t| !t.is_empty()));
                (supported && !values.is_empty()).then(|| value.clone())
            }
            ("format", Value::String(name)) => {
                matches!(name.as_str(), "date-time" | "date" | "time" | "int32" | "int64" | "float" | "double")
                    .then(|| value.clone())
            }
            _ => Some(value.clone()),
        }
    }

    /// Returns the target of a reference within the schema.
    fn resolve(&self, reference: &str) -> Option<Value> {
        self.root.pointer(reference.strip_prefix('#')?).cloned()
    }

    /// Counts one node. Returns false if the limit is reached.
    fn charge(&mut self) -> bool {
        let remaining = self.remaining_nodes.checked_sub(1);
        self.remaining_nodes = remaining.unwrap_or(0);
        remaining.is_some()
    }
}

/// Replaces keywords that Google does not support by equivalent or weaker ones.
fn rewrite_for_gemini(fields: &mut Map<String, Value>) {
    if let Some(value) = fields.shift_remove("const") {
        fields.entry("enum").or_insert_with(|| json!([value]));
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

/// Makes a schema comply with Google's rules: a string enum has a type, an array has `items`, and `required` contains
/// only declared properties.
fn complete_for_gemini(lowered: &mut Map<String, Value>) {
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

/// Adds the properties, the required names and the missing keywords of `more`. Existing keywords take precedence.
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

/// Combines two alternative objects. The result has the properties of both and requires only the names that both
/// require.
fn union(mut one: Map<String, Value>, mut two: Map<String, Value>) -> Map<String, Value> {
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
mod tests {
    use super::*;

    fn full(schema: Value) -> Value {
        lower(&schema, Dialect::Full)
    }

    fn gemini(schema: Value) -> Value {
        lower(&schema, Dialect::Gemini)
    }

    #[test]
    fn schema_without_properties_becomes_an_empty_object_schema() {
        let empty = json!({"type": "object", "properties": {}});
        for schema in [json!({}), json!(true), json!(null), json!({"type": ["object", "null"]}), json!({"not": {}})] {
            assert_eq!(full(schema.clone()), empty, "{schema}");
            assert_eq!(gemini(schema.clone()), empty, "{schema}");
        }
    }

    #[test]
    fn schema_with_an_object_root_is_unchanged() {
        let schema = json!({
            "type": "object",
            "properties": {"n": {"$ref": "#/$defs/n"}, "s": {"anyOf": [{"type": "string"}, {"type": "null"}]}},
            "required": ["n"],
            "additionalProperties": false,
            "$defs": {"n": {"type": "integer", "multipleOf": 5}},
        });
        assert_eq!(full(schema.clone()), schema);
    }

    #[test]
    fn reference_at_the_root_is_resolved() {
        let schema = json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "$ref": "#/$defs/Query",
            "$defs": {"Query": {"type": "object", "properties": {"q": {"$ref": "#/$defs/Text"}}, "required": ["q"]}, "Text": {"type": "string"}},
        });
        assert_eq!(
            full(schema.clone()),
            json!({
                "$defs": {"Query": {"type": "object", "properties": {"q": {"$ref": "#/$defs/Text"}}, "required": ["q"]}, "Text": {"type": "string"}},
                "type": "object", "properties": {"q": {"$ref": "#/$defs/Text"}}, "required": ["q"],
            })
        );
        assert_eq!(
            gemini(schema),
            json!({"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]})
        );
    }

    #[test]
    fn combinators_at_the_root_are_merged_into_one_object() {
        let schema = json!({
            "allOf": [{"properties": {"a": {"type": "string"}}, "required": ["a"]}],
            "oneOf": [
                {"type": "object", "properties": {"b": {"type": "string"}}, "required": ["b", "k"]},
                {"type": "object", "properties": {"c": {"type": "string"}}, "required": ["k", "c"]},
                {"type": "string"},
            ],
        });
        assert_eq!(
            full(schema),
            json!({
                "type": "object",
                "properties": {"a": {"type": "string"}, "b": {"type": "string"}, "c": {"type": "string"}},
                "required": ["a", "k"],
            })
        );
    }

    #[test]
    fn gemini_schema_has_only_documented_keywords() {
        let schema = json!({
            "$schema": "x", "title": "T", "type": "object", "patternProperties": {},
            "properties": {
                "fixed": {"const": "yes"},
                "flag": {"type": "boolean", "enum": [true]},
                "list": {"type": "array", "uniqueItems": true},
                "mail": {"type": "string", "format": "email", "pattern": "@", "minLength": 3},
                "when": {"type": "string", "format": "date-time"},
                "count": {"type": "integer", "exclusiveMinimum": 0, "multipleOf": 2},
                "either": {"oneOf": [{"type": "string"}, {"$ref": "#/$defs/n"}]},
                "both": {"allOf": [{"type": "object", "properties": {"x": {"type": "string"}}}, {"required": ["x", "ghost"]}]},
                "any": true,
                "described": {"$ref": "#/$defs/n", "description": "here"},
            },
            "required": ["fixed", "ghost"],
            "$defs": {"n": {"type": "number", "description": "there"}},
        });
        assert_eq!(
            gemini(schema),
            json!({
                "title": "T", "type": "object",
                "properties": {
                    "fixed": {"enum": ["yes"], "type": "string"},
                    "flag": {"type": "boolean"},
                    "list": {"type": "array", "items": {"type": "string"}},
                    "mail": {"type": "string"},
                    "when": {"type": "string", "format": "date-time"},
                    "count": {"type": "integer", "minimum": 0},
                    "either": {"anyOf": [{"type": "string"}, {"type": "number", "description": "there"}]},
                    "both": {"type": "object", "properties": {"x": {"type": "string"}}, "required": ["x"]},
                    "any": {},
                    "described": {"description": "here", "type": "number"},
                },
                "required": ["fixed"],
            })
        );
    }

    #[test]
    fn lowering_of_a_recursive_schema_ends() {
        let node = json!({"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}, "other": {"$ref": "#/$defs/node"}}});
        let schema = json!({"$ref": "#/$defs/node", "$defs": {"node": node}});
        let lowered = gemini(schema.clone()).to_string();
        assert!(!lowered.contains("$ref") && lowered.len() < 1_000_000, "{}", lowered.len());
        assert_eq!(full(json!({"$ref": "#"})), json!({"type": "object", "properties": {}}));
        assert_eq!(full(json!({"allOf": [{"$ref": "#"}]}))["type"], "object");
    }

    #[test]
    fn strict_mode_rejects_optional_and_additional_properties() {
        let closed = json!({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": false});
        assert!(supports_strict_mode(&closed));
        assert!(supports_strict_mode(&json!({"type": "string"})));
        for change in [
            json!({"required": []}),
            json!({"additionalProperties": true}),
            json!({"properties": {"a": {"type": "object"}}}),
        ] {
            let mut schema = closed.as_object().unwrap().clone();
            schema.extend(change.as_object().unwrap().clone());
            assert!(!supports_strict_mode(&Value::Object(schema.clone())), "{schema:?}");
        }
    }

    #[test]
    fn lowered_tools_of_a_large_api_keep_their_properties() {
        use toolwright_openapi::{OpenApiDocument, OpenApiImportOptions, OperationFilter, propose_tools};
        let path = std::env::var("TOOLWRIGHT_TEST_OPENAPI_SAMPLE")
            .expect("TOOLWRIGHT_TEST_OPENAPI_SAMPLE is not set; run through `make test` or `scripts/openapi-samples`");
        let document = OpenApiDocument::parse(&std::fs::read_to_string(path).unwrap()).unwrap();
        let (provider, base_url) = ("big".parse().unwrap(), Some("https://api.example.com".into()));
        let filter = OperationFilter::default();
        let options = OpenApiImportOptions {
            provider,
            prefix: None,
            base_url,
            source_url: None,
            document_name: "openapi.json".to_owned(),
            filter,
        };
        let tools = propose_tools(&document, &options).unwrap().tools;
        assert!(tools.len() > 500);
        for tool in tools {
            let name = tool.definition.ref_name;
            let schema = tool.definition.input_json_schema.unwrap().0;
            let expected: Vec<&String> = schema["properties"].as_object().unwrap().keys().collect();
            for lowered in [full(schema.clone()), gemini(schema.clone())] {
                let actual: Vec<&String> = lowered["properties"].as_object().unwrap().keys().collect();
                assert_eq!(actual, expected, "{name}");
                assert_eq!(lowered["type"], "object", "{name}");
                assert!(
                    ["$ref", "anyOf", "oneOf", "allOf"].iter().all(|keyword| lowered.get(keyword).is_none()),
                    "{name}"
                );
            }
            assert!(!gemini(schema).to_string().contains("$ref"), "{name}");
        }
    }
}
