//! What a schema without references allows, sorted by the type of the value: at most one set of keywords per type.
//!
//! `allOf` intersects shapes, `anyOf` and `oneOf` unite them, so any nesting of combinators ends in the same simple
//! form. A union demands only what all of its branches demand, and shows every property that one of them describes.

use std::collections::{BTreeMap, HashSet};

use serde_json::{Map, Value, json};

use super::walk::is_annotation;

/// Schemas collected for one property; further ones would not make it clearer.
const MOST_JOINED: usize = 16;
/// Branches of one combinator that are looked at.
const MOST_BRANCHES: usize = 256;

/// The keywords that hold for each type a value may have.
pub(super) type Shape = BTreeMap<Kind, Map<String, Value>>;

/// The type of a value. The order is that of preference where only one can be shown: structure before text, text
/// before numbers, because the earlier ones can say more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Object,
    Array,
    String,
    Number,
    Integer,
    Boolean,
    Null,
}

/// All kinds; `Integer` is a part of `Number`.
const ANY: [Kind; 6] = [Kind::Object, Kind::Array, Kind::String, Kind::Number, Kind::Boolean, Kind::Null];

impl Kind {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Kind::Object => "object",
            Kind::Array => "array",
            Kind::String => "string",
            Kind::Number => "number",
            Kind::Integer => "integer",
            Kind::Boolean => "boolean",
            Kind::Null => "null",
        }
    }

    fn named(name: &str) -> Option<Kind> {
        ANY.into_iter().chain([Kind::Integer]).find(|kind| kind.as_str() == name)
    }

    fn of(value: &Value) -> Kind {
        match value {
            Value::Object(_) => Kind::Object,
            Value::Array(_) => Kind::Array,
            Value::String(_) => Kind::String,
            Value::Number(number) if number.is_f64() && number.as_f64().is_none_or(|n| n.fract() != 0.0) => {
                Kind::Number
            }
            Value::Number(_) => Kind::Integer,
            Value::Bool(_) => Kind::Boolean,
            Value::Null => Kind::Null,
        }
    }

    /// Whether `value` has this type.
    pub(super) fn fits(self, value: &Value) -> bool {
        let kind = Kind::of(value);
        kind == self || (self, kind) == (Kind::Number, Kind::Integer)
    }

    /// The type of values that have both types.
    fn meet(self, other: Kind) -> Option<Kind> {
        match (self, other) {
            (Kind::Number, Kind::Integer) | (Kind::Integer, Kind::Number) => Some(Kind::Integer),
            (one, two) => (one == two).then_some(one),
        }
    }

    /// Whether `keyword` speaks about values of this type alone.
    fn owns(self, keyword: &str) -> bool {
        match self {
            Kind::Object => matches!(
                keyword,
                "properties"
                    | "required"
                    | "additionalProperties"
                    | "patternProperties"
                    | "propertyNames"
                    | "minProperties"
                    | "maxProperties"
                    | "unevaluatedProperties"
                    | "dependentRequired"
            ),
            Kind::Array => matches!(
                keyword,
                "items"
                    | "prefixItems"
                    | "minItems"
                    | "maxItems"
                    | "uniqueItems"
                    | "contains"
                    | "minContains"
                    | "maxContains"
                    | "unevaluatedItems"
            ),
            Kind::String => matches!(
                keyword,
                "minLength" | "maxLength" | "pattern" | "format" | "contentEncoding" | "contentMediaType"
            ),
            Kind::Number | Kind::Integer => {
                matches!(keyword, "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" | "multipleOf")
            }
            Kind::Boolean | Kind::Null => false,
        }
    }
}

/// The shape of `schema`, in which references are already written out. Empty when no value is allowed.
pub(super) fn shape(schema: &Value) -> Shape {
    let Some(fields) = schema.as_object() else {
        return if *schema == Value::Bool(false) { Shape::new() } else { anything() };
    };
    if fields.get("not").is_some_and(allows_anything) {
        return Shape::new();
    }
    let mut shape = by_kind(fields);
    for part in list(fields, "allOf") {
        shape = both(shape, self::shape(part));
    }
    for keyword in ["anyOf", "oneOf"] {
        let branches = list(fields, keyword).map(self::shape).reduce(either);
        shape = branches.into_iter().fold(shape, both);
    }
    for condition in conditions(fields) {
        shape = both(shape, condition);
    }
    shape
}

/// Whether `shape` says nothing about the type.
pub(super) fn is_anything(shape: &Shape) -> bool {
    ANY.iter().all(|kind| shape.contains_key(kind))
}

fn anything() -> Shape {
    ANY.into_iter().map(|kind| (kind, Map::new())).collect()
}

fn allows_anything(schema: &Value) -> bool {
    *schema == Value::Bool(true) || schema.as_object().is_some_and(Map::is_empty)
}

fn list<'a>(fields: &'a Map<String, Value>, keyword: &str) -> impl Iterator<Item = &'a Value> {
    fields.get(keyword).and_then(Value::as_array).into_iter().flatten().take(MOST_BRANCHES)
}

/// Keywords that hold under a condition are possible, not demanded.
fn conditions(fields: &Map<String, Value>) -> Vec<Shape> {
    let mut shapes = Vec::new();
    if fields.contains_key("if") {
        let branch = |keyword| fields.get(keyword).map_or_else(anything, shape);
        shapes.push(either(branch("then"), branch("else")));
    }
    let dependent =
        fields.get("dependentSchemas").and_then(Value::as_object).into_iter().flat_map(Map::values).take(MOST_BRANCHES);
    shapes.extend(dependent.map(|schema| either(shape(schema), anything())));
    shapes
}

fn by_kind(fields: &Map<String, Value>) -> Shape {
    let values: Option<Vec<&Value>> = match (fields.get("enum"), fields.get("const")) {
        (_, Some(one)) => Some(vec![one]),
        (Some(Value::Array(several)), None) => Some(several.iter().collect()),
        _ => None,
    };
    let mut kinds = named_kinds(fields, values.as_deref());
    if let Some(values) = &values {
        let possible: Vec<Kind> = kinds.iter().copied().filter(|kind| values.iter().any(|v| kind.fits(v))).collect();
        kinds = if possible.is_empty() { kinds } else { possible };
    }
    kinds.into_iter().map(|kind| (kind, keywords_for(kind, fields, values.as_deref()))).collect()
}

fn named_kinds(fields: &Map<String, Value>, values: Option<&[&Value]>) -> Vec<Kind> {
    let named: Vec<Kind> = match fields.get("type") {
        Some(Value::String(one)) => Kind::named(one).into_iter().collect(),
        Some(Value::Array(several)) => several.iter().filter_map(Value::as_str).filter_map(Kind::named).collect(),
        _ => Vec::new(),
    };
    if !named.is_empty() {
        return named;
    }
    match values {
        Some(values) if !values.is_empty() => values.iter().map(|value| Kind::of(value)).collect(),
        _ => hinted_kinds(fields),
    }
}

/// The types that a schema without `type` has in mind, judging by its other keywords.
fn hinted_kinds(fields: &Map<String, Value>) -> Vec<Kind> {
    let hinted: Vec<Kind> = ANY.into_iter().filter(|kind| fields.keys().any(|keyword| kind.owns(keyword))).collect();
    let example = fields.get("default").into_iter().chain(list(fields, "examples")).find(|value| !value.is_null());
    match (hinted.is_empty(), example) {
        (false, _) => hinted,
        (true, Some(example)) => vec![Kind::of(example)],
        (true, None) => ANY.to_vec(),
    }
}

fn keywords_for(kind: Kind, fields: &Map<String, Value>, values: Option<&[&Value]>) -> Map<String, Value> {
    let kept = fields.iter().filter(|(keyword, _)| is_annotation(keyword) || kind.owns(keyword));
    let mut keywords: Map<String, Value> = kept.map(|(keyword, value)| (keyword.clone(), value.clone())).collect();
    if let Some(values) = values {
        keywords.insert("enum".into(), values.iter().copied().filter(|value| kind.fits(value)).cloned().collect());
    }
    keywords
}

/// What both shapes allow. Shapes that exclude each other leave the first: a schema that allows nothing helps no one.
fn both(first: Shape, mut second: Shape) -> Shape {
    let meets = |kind: &Kind| second.keys().any(|other| kind.meet(*other).is_some());
    if !first.keys().any(meets) {
        return first;
    }
    let mut met = Shape::new();
    for (kind, keywords) in first {
        let partners: Vec<Kind> = second.keys().copied().filter(|other| kind.meet(*other).is_some()).collect();
        for partner in partners {
            // A number may meet both a number and an integer, anything else only its like.
            let others = if kind == partner { second.remove(&partner) } else { second.get(&partner).cloned() };
            if let (Some(meet), Some(others)) = (kind.meet(partner), others) {
                met.entry(meet).or_insert_with(|| intersect(keywords.clone(), others));
            }
        }
    }
    met
}

/// What one of the shapes allows.
fn either(mut first: Shape, second: Shape) -> Shape {
    for (kind, keywords) in second {
        let united = match first.remove(&kind) {
            Some(own) => unite(own, keywords),
            None => keywords,
        };
        first.insert(kind, united);
    }
    // Integers are numbers: what holds for only one of them holds for neither.
    if first.contains_key(&Kind::Number)
        && let Some(integer) = first.remove(&Kind::Integer)
        && let Some(number) = first.remove(&Kind::Number)
    {
        first.insert(Kind::Number, unite(number, integer));
    }
    first
}

fn intersect(mut first: Map<String, Value>, second: Map<String, Value>) -> Map<String, Value> {
    for (keyword, value) in second {
        let Some(own) = first.get_mut(&keyword) else {
            first.insert(keyword, value);
            continue;
        };
        match keyword.as_str() {
            "properties" | "patternProperties" => merge_properties(own, value, "allOf"),
            "items" => join(own, value, "allOf"),
            "required" => append_new(own, value),
            "enum" => retain_common(own, &value),
            _ => {}
        }
    }
    first
}

fn unite(mut first: Map<String, Value>, mut second: Map<String, Value>) -> Map<String, Value> {
    let mut united = Map::new();
    if first.get("patternProperties") != second.get("patternProperties") {
        // Whether other properties are allowed depends on the patterns, which are about to be lost.
        for closing in ["additionalProperties", "unevaluatedProperties"] {
            first.shift_remove(closing);
        }
    }
    if let Some(other) = second.shift_remove("properties") {
        let own = first.entry("properties").or_insert_with(|| json!({}));
        merge_properties(own, other, "anyOf");
    }
    for (keyword, mut own) in first {
        match (keyword.as_str(), second.shift_remove(&keyword)) {
            ("properties", _) => {}
            (annotation, _) if is_annotation(annotation) => {}
            ("required", Some(other)) => retain_common(&mut own, &other),
            ("enum", Some(other)) => append_new(&mut own, other),
            ("items", Some(other)) => join(&mut own, other, "anyOf"),
            (_, Some(other)) if own == other => {}
            _ => continue,
        }
        united.insert(keyword, own);
    }
    united.extend(second.into_iter().filter(|(keyword, _)| is_annotation(keyword)));
    united
}

fn merge_properties(own: &mut Value, other: Value, combinator: &str) {
    let (Value::Object(own), Value::Object(other)) = (own, other) else {
        return;
    };
    for (name, schema) in other {
        match own.get_mut(&name) {
            Some(known) => join(known, schema, combinator),
            None => {
                own.insert(name, schema);
            }
        }
    }
}

/// Puts two schemas under one combinator, flat however often it is done: depth stays that of the source.
fn join(own: &mut Value, other: Value, combinator: &str) {
    if *own == other {
        return;
    }
    let joined = own.as_object_mut().filter(|fields| fields.len() == 1);
    if let Some(Value::Array(parts)) = joined.and_then(|fields| fields.get_mut(combinator)) {
        if parts.len() < MOST_JOINED && !parts.contains(&other) {
            parts.push(other);
        }
        return;
    }
    *own = json!({ combinator: [own.take(), other] });
}

fn append_new(own: &mut Value, other: Value) {
    if let (Value::Array(own), Value::Array(other)) = (own, other) {
        let mut known: HashSet<String> = own.iter().map(Value::to_string).collect();
        own.extend(other.into_iter().filter(|value| known.insert(value.to_string())));
    }
}

/// Keeps what is in both lists.
fn retain_common(own: &mut Value, other: &Value) {
    if let (Value::Array(own), Value::Array(other)) = (own, other) {
        let known: HashSet<String> = other.iter().map(Value::to_string).collect();
        own.retain(|value| known.contains(&value.to_string()));
    }
}
