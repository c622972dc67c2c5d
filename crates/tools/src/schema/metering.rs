//! Adds a meter to the parts of a schema that a validator may apply many times.
//!
//! The work of a validation can grow exponentially with the size of the schema, because references share definitions:
//! thirty definitions that each refer twice to the next one make a billion paths. With a recursive definition, the work
//! grows with the depth of the value. So the work is counted, not estimated. The validator compiles a copy of the
//! schema. In the copy, the keyword [`METER`] precedes certain schemas: each definition that a reference can reach, the
//! schemas of items and properties, and large schemas. For example, `{"anyOf": […]}` becomes `{"allOf": [{METER: 3},
//! {"anyOf": […]}]}`. When the allowed work is used up, the meter ends the validation by unwinding. The validator has
//! no other way to end early: if the meter rejected the value, the validator would continue and list the errors of
//! every branch.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value, json};
use url::Url;

use super::Violation;
use super::meter::METER;
use super::references::{Reference, Scope, child, decode};

/// A schema of items or properties that has at most this many nodes needs no meter: its work is proportional to the
/// size of the value.
const SMALL_LOOP: u64 = 8;
/// A schema with more nodes than this gets a meter wherever it occurs.
const LARGE: u64 = 256;
/// Keywords whose value is a schema.
const SCHEMAS: [&str; 12] = [
    "additionalItems",
    "additionalProperties",
    "contains",
    "contentSchema",
    "else",
    "if",
    "items",
    "not",
    "propertyNames",
    "then",
    "unevaluatedItems",
    "unevaluatedProperties",
];
/// Keywords whose value is a list of schemas.
const LISTS: [&str; 5] = ["allOf", "anyOf", "items", "oneOf", "prefixItems"];
/// Keywords whose value is a map of schemas.
const MAPS: [&str; 6] = ["$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties"];
/// Keywords that apply their schemas to each item or property of a value.
const LOOPS: [&str; 8] = [
    "additionalItems",
    "additionalProperties",
    "contains",
    "items",
    "patternProperties",
    "propertyNames",
    "unevaluatedItems",
    "unevaluatedProperties",
];
/// Keywords whose value is compared with data.
const LITERALS: [&str; 2] = ["const", "enum"];
/// Keywords that identify a schema.
const IDENTIFIERS: [&str; 5] = ["$anchor", "$dynamicAnchor", "$id", "$recursiveAnchor", "id"];

/// The maximum number of schemas that are the target of a reference. The time to compile them grows with the square of
/// their number.
const MAX_TARGETS: usize = 5_000;

/// The URI of a schema without an `$id`.
const BASE_URI: &str = "json-schema:///";

/// Returns a copy of `source` with meters, or `None` if it needs none. The copy accepts the same values.
pub(super) fn with_meters(source: &Value) -> Result<Option<Value>, Violation> {
    let invalid = |message: String| Violation { path: String::new(), message };
    let base = Url::parse(BASE_URI).map_err(|error| invalid(error.to_string()))?;
    let scope = Scope { base, ignores_siblings: false, id_keyword: "$id" };
    let mut survey = Survey::default();
    survey.find_resources(source, &scope);
    survey.resources.entry(scope.base.clone()).or_insert(source);
    survey.pending.push((source, scope.clone()));
    // The schemas are visited from a list and not by recursion, because a chain of references may be longer than the
    // stack is deep.
    while let Some((schema, scope)) = survey.pending.pop() {
        survey.visit(schema, &scope).map_err(invalid)?;
    }
    survey.check_references().map_err(invalid)?;
    if survey.targets.len() > MAX_TARGETS {
        let count = survey.targets.len();
        return Err(invalid(format!("references must name at most {MAX_TARGETS} schemas, got {count}")));
    }
    survey.choose_meters(source);
    Ok((!survey.metered.is_empty()).then(|| survey.rebuild(source, &scope)))
}

/// The identity of a schema: the memory address of its value. The address does not change, because the source is
/// borrowed while it is examined.
type Address = usize;

fn address(value: &Value) -> Address {
    std::ptr::from_ref(value).addr()
}

/// The facts about the parts of a schema that decide where meters are added.
#[derive(Default)]
struct Survey<'s> {
    /// The schemas that have a URI.
    resources: HashMap<Url, &'s Value>,
    /// The schemas to visit.
    pending: Vec<(&'s Value, Scope)>,
    /// The schemas that were visited.
    schemas: HashSet<Address>,
    /// The schemas that may be the target of a reference.
    targets: HashSet<Address>,
    /// The schemas that apply to each item or property of a value.
    loop_bodies: HashSet<Address>,
    references: Vec<Reference<'s>>,
    /// Whether there is a reference that is resolved during validation.
    has_dynamic_references: bool,
    /// The schemas that get a meter, with their weight.
    metered: HashMap<Address, u64>,
}

impl<'s> Survey<'s> {
    fn find_resources(&mut self, schema: &'s Value, parent: &Scope) {
        let Some(fields) = schema.as_object() else { return };
        let scope = parent.enter(fields);
        if scope.base != parent.base {
            self.resources.entry(scope.base.clone()).or_insert(schema);
        }
        for (_, part) in subschemas(fields) {
            self.find_resources(part, &scope);
        }
    }

    /// Visits a schema and its parts, and records what they refer to.
    fn visit(&mut self, schema: &'s Value, parent: &Scope) -> Result<(), String> {
        let Some(fields) = schema.as_object() else { return Ok(()) };
        if !self.schemas.insert(address(schema)) {
            return Ok(());
        }
        if fields.contains_key(METER) {
            return Err(format!("`{METER}` is reserved; use another name"));
        }
        let scope = parent.enter(fields);
        if IDENTIFIERS.iter().any(|keyword| fields.contains_key(*keyword)) {
            self.targets.insert(address(schema));
        }
        self.has_dynamic_references |= fields.contains_key("$dynamicRef") || fields.contains_key("$recursiveRef");
        if let Some(text) = fields.get("$ref").and_then(Value::as_str) {
            self.follow(text, &scope)?;
        }
        for (keyword, part) in subschemas(fields) {
            if LOOPS.contains(&keyword) {
                self.loop_bodies.insert(address(part));
            }
            self.visit(part, &scope)?;
        }
        Ok(())
    }

    fn follow(&mut self, text: &'s str, scope: &Scope) -> Result<(), String> {
        let Some(reference) = self.resolve(text, scope) else {
            // The reference names an anchor, a schema with an identifier, or a meta-schema of JSON Schema. Schemas with
            // anchors and identifiers are targets already, and the validator contains the meta-schemas.
            let is_known =
                text.starts_with('#') || text.contains("//json-schema.org/") || self.is_resource(text, scope);
            return if is_known {
                Ok(())
            } else {
                Err(format!("`$ref` must refer to the same document, got `{text}`"))
            };
        };
        self.references.push(reference);
        match reference.target() {
            // The validator reports a reference whose target does not exist.
            None => Ok(()),
            Some(target) => {
                self.targets.insert(address(target));
                let mut scope = scope.clone();
                scope.base = scope.base.join(text).unwrap_or(scope.base);
                scope.base.set_fragment(None);
                self.pending.push((target, scope));
                Ok(())
            }
        }
    }

    /// Returns the schema that contains the target of a reference, if the reference names the target by its path.
    fn resolve(&self, text: &'s str, scope: &Scope) -> Option<Reference<'s>> {
        let path = text.split_once('#').map_or("", |(_, fragment)| fragment);
        let resource = (path.is_empty() || path.starts_with('/')).then(|| self.resource(text, scope))??;
        Some(Reference { text, resource })
    }

    fn resource(&self, text: &str, scope: &Scope) -> Option<&'s Value> {
        let mut url = scope.base.join(text).ok()?;
        url.set_fragment(None);
        self.resources.get(&url).copied()
    }

    fn is_resource(&self, text: &str, scope: &Scope) -> bool {
        self.resource(text, scope).is_some()
    }

    /// Rejects references into the value of `const` or `enum`, because no meter can be added there.
    fn check_references(&self) -> Result<(), String> {
        for reference in &self.references {
            let mut node = Some(reference.resource);
            for token in reference.tokens() {
                let Some(parent) = node else { break };
                if self.schemas.contains(&address(parent)) && LITERALS.contains(&token.as_str()) {
                    return Err(format!("`$ref` must refer to a schema, got `{}`", reference.text));
                }
                node = child(parent, &token);
            }
        }
        Ok(())
    }

    fn choose_meters(&mut self, source: &Value) {
        let mut weights = HashMap::new();
        weigh(source, &mut weights);
        let has_references = self.has_dynamic_references || !self.references.is_empty();
        if self.has_dynamic_references {
            self.targets.insert(address(source));
        }
        for schema in &self.schemas {
            let weight = weights.get(schema).copied().unwrap_or(0);
            let is_target = has_references && self.targets.contains(schema);
            let is_loop = weight > SMALL_LOOP && self.loop_bodies.contains(schema);
            if is_target || is_loop || weight > LARGE {
                self.metered.insert(*schema, weight);
            }
        }
    }

    /// Copies a part of the source and adds the meters.
    fn rebuild(&self, part: &Value, parent: &Scope) -> Value {
        let fields = match part {
            Value::Array(items) => return items.iter().map(|item| self.rebuild(item, parent)).collect(),
            Value::Object(fields) => fields,
            _ => return part.clone(),
        };
        if !self.schemas.contains(&address(part)) {
            return Value::Object(
                fields.iter().map(|(name, value)| (name.clone(), self.rebuild(value, parent))).collect(),
            );
        }
        let scope = parent.enter(fields);
        let copied = fields.iter().map(|(keyword, value)| {
            let value = match value {
                Value::String(text) if keyword == "$ref" => Value::String(self.redirect(text, &scope)),
                value if LITERALS.contains(&keyword.as_str()) => value.clone(),
                value => self.rebuild(value, &scope),
            };
            (keyword.clone(), value)
        });
        let Some(weight) = self.metered.get(&address(part)) else { return Value::Object(copied.collect()) };
        let (mut outer, inner): (Map<_, _>, Map<_, _>) =
            copied.partition(|(keyword, _)| stays_in_front(keyword, fields, &scope));
        outer.insert("allOf".to_owned(), json!([{ METER: weight }, inner]));
        Value::Object(outer)
    }

    /// Rewrites a reference for the copy, where meters may have changed the path of the target.
    fn redirect(&self, text: &str, scope: &Scope) -> String {
        let resource = self.resource(text, scope);
        let (Some((document, path)), Some(mut node)) = (text.split_once('#'), resource) else { return text.to_owned() };
        let Some(path) = path.strip_prefix('/') else { return text.to_owned() };
        let mut place = format!("{document}#");
        let mut scope = scope.clone();
        for segment in path.split('/') {
            let token = decode(segment);
            if let Some(fields) = node.as_object().filter(|_| self.metered.contains_key(&address(node))) {
                scope = scope.enter(fields);
                if !stays_in_front(&token, fields, &scope) {
                    place.push_str("/allOf/1");
                }
            }
            place.push('/');
            place.push_str(segment);
            match child(node, &token) {
                Some(next) => node = next,
                None => return text.to_owned(),
            }
        }
        place
    }
}

/// Whether a keyword of a schema that gets a meter stays beside the meter's `allOf`. All other keywords move into the
/// second part of the `allOf`.
fn stays_in_front(keyword: &str, fields: &Map<String, Value>, scope: &Scope) -> bool {
    let identifies = IDENTIFIERS.contains(&keyword) || keyword == "$schema" || keyword == "$vocabulary";
    matches!(keyword, "$defs" | "definitions") || identifies && !scope.keeps_identifier(fields)
}

/// Returns the direct subschemas of a schema, each with the keyword that contains it.
fn subschemas(fields: &Map<String, Value>) -> impl Iterator<Item = (&str, &Value)> {
    fields.iter().flat_map(|(keyword, value)| {
        let keyword = keyword.as_str();
        let parts: Vec<&Value> = match value {
            Value::Object(_) if SCHEMAS.contains(&keyword) => vec![value],
            Value::Object(map) if MAPS.contains(&keyword) => map.values().collect(),
            Value::Array(list) if LISTS.contains(&keyword) => list.iter().collect(),
            _ => Vec::new(),
        };
        parts.into_iter().map(move |part| (keyword, part))
    })
}

/// Returns the weight of a value, and collects the weights of all objects in it. The weight is the number of nodes, not
/// counting `$defs` and `definitions`.
fn weigh(value: &Value, weights: &mut HashMap<Address, u64>) -> u64 {
    match value {
        Value::Array(items) => 1 + items.iter().map(|item| weigh(item, weights)).sum::<u64>(),
        Value::Object(fields) => {
            let mut weight = 1;
            for (keyword, field) in fields {
                let own = weigh(field, weights);
                weight += if matches!(keyword.as_str(), "$defs" | "definitions") { 0 } else { own };
            }
            weights.insert(address(value), weight);
            weight
        }
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::Schema;
    use super::*;

    #[test]
    fn meters_are_added_where_a_schema_may_be_applied_many_times() {
        let copy = |schema: Value| with_meters(&schema).unwrap().unwrap_or(Value::Null);
        assert_eq!(
            copy(json!({ "type": "object", "properties": { "a": { "items": { "type": "string" } } } })),
            json!(null)
        );
        assert_eq!(
            copy(json!({ "$ref": "#/$defs/a", "$defs": { "a": { "type": "string" } } })),
            json!({ "$ref": "#/$defs/a", "$defs": { "a": { "allOf": [{ METER: 2 }, { "type": "string" }] } } })
        );
        let body = json!({ "properties": { "a": { "type": "string" }, "b": { "enum": [1, 2, 3, 4] } } });
        assert_eq!(
            copy(json!({ "items": body, "not": { "$ref": "#/items/properties/a" } })),
            json!({
                "items": { "allOf": [{ METER: 10 }, { "properties": {
                    "a": { "allOf": [{ METER: 2 }, { "type": "string" }] }, "b": { "enum": [1, 2, 3, 4] }
                } }] },
                "not": { "$ref": "#/items/allOf/1/properties/a" },
            })
        );
    }

    #[test]
    fn reference_into_the_value_of_const_or_enum_is_rejected() {
        for data in ["const", "enum"] {
            let schema = json!({ "$ref": format!("#/{data}/0"), data: [{ "type": "string" }] });
            assert!(with_meters(&schema).is_err(), "{data}");
            let property =
                json!({ "$ref": format!("#/properties/{data}"), "properties": { data: { "type": "string" } } });
            assert!(with_meters(&property).is_ok(), "{data}");
        }
    }

    #[test]
    fn schema_with_the_reserved_meter_keyword_is_rejected() {
        assert!(with_meters(&json!({ "properties": { "a": { METER: 1_000_000_000 } } })).is_err());
        assert!(with_meters(&json!({ "properties": { METER: { "type": "string" } } })).is_ok());
    }

    #[test]
    fn schema_with_too_many_referenced_definitions_is_rejected() {
        let schema = |count: usize| {
            let all: Vec<Value> = (0..count).map(|n| json!({ "$ref": format!("#/$defs/{n}") })).collect();
            let definitions: Map<String, Value> = (0..count).map(|n| (n.to_string(), json!({}))).collect();
            json!({ "allOf": all, "$defs": definitions })
        };
        assert!(with_meters(&schema(MAX_TARGETS)).is_ok());
        assert!(with_meters(&schema(MAX_TARGETS + 1)).is_err());
    }

    /// A schema with four definitions that refer to each other and to the root.
    fn schemas() -> impl Strategy<Value = Value> {
        let dialects = prop_oneof![
            Just("https://json-schema.org/draft/2020-12/schema"),
            Just("http://json-schema.org/draft-07/schema#"),
            Just("http://json-schema.org/draft-04/schema#"),
        ];
        let definitions = prop::collection::vec(subschema(), 4);
        (dialects, subschema(), definitions).prop_map(|(dialect, mut root, definitions)| {
            let definitions: Map<String, Value> =
                definitions.into_iter().enumerate().map(|(index, schema)| (format!("d{index}"), schema)).collect();
            root["$schema"] = json!(dialect);
            root["definitions"] = Value::Object(definitions);
            root
        })
    }

    fn subschema() -> impl Strategy<Value = Value> {
        let reference = prop_oneof![
            (0..4).prop_map(|index| format!("#/definitions/d{index}")),
            Just("#".to_owned()),
            Just("#/definitions/d0/properties/a".to_owned()),
            Just("#/definitions/d1/anyOf/0".to_owned()),
        ];
        let leaf = prop_oneof![
            3 => reference.prop_map(|target| json!({ "$ref": target })),
            1 => prop_oneof![Just("string"), Just("integer"), Just("object"), Just("array")]
                .prop_map(|name| json!({ "type": name })),
            1 => Just(json!({ "enum": [1, "a", {}, []] })),
        ];
        leaf.prop_recursive(3, 12, 3, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 1..3).prop_map(|parts| json!({ "anyOf": parts })),
                prop::collection::vec(inner.clone(), 1..3).prop_map(|parts| json!({ "allOf": parts })),
                (inner.clone(), inner.clone()).prop_map(|(a, b)| json!({ "properties": { "a": a, "b": b } })),
                inner.clone().prop_map(|body| json!({ "items": body, "additionalProperties": body })),
                inner.clone().prop_map(|body| json!({ "not": body })),
                (inner.clone(), inner)
                    .prop_map(|(a, b)| json!({ "type": "object", "properties": { "a": a }, "oneOf": [b] })),
            ]
        })
    }

    fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![Just(json!(1)), Just(json!("a")), Just(json!(null)), Just(json!({})), Just(json!([]))];
        leaf.prop_recursive(3, 8, 3, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
                (inner.clone(), inner).prop_map(|(a, b)| json!({ "a": a, "b": b })),
            ]
        })
    }

    proptest! {
        #[test]
        fn schema_reports_the_same_violations_with_and_without_meters(source in schemas(), value in values()) {
            let plain = jsonschema::options().offline().should_validate_formats(true).build(&source);
            let metered = Schema::compile(source);
            prop_assert_eq!(plain.is_ok(), metered.is_ok());
            if let (Ok(plain), Ok(metered)) = (plain, metered) {
                let expected: Vec<String> = plain.iter_errors(&value).map(|error| error.instance_path().to_string()).collect();
                let got = metered.check(&value).err().unwrap_or_default();
                let got: Vec<String> = got.into_iter().map(|violation| violation.path).collect();
                prop_assert_eq!(got, expected);
            }
        }
    }
}
