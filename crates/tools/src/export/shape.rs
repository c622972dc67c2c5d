//! The shape of a schema: its keywords grouped by the type of the value, with at most one group per type.
//!
//! `allOf` intersects shapes; `anyOf` and `oneOf` unite them. So nested combinators are reduced to one simple form. A
//! union requires only the properties that all of its branches require, and has every property that at least one of
//! them describes.

use std::collections::{BTreeMap, HashSet};

use serde_json::{Map, Value, json};

use super::normalize::is_annotation;

/// The maximum number of schemas that are joined for one property.
const MAX_JOINED: usize = 16;
/// The maximum number of branches of one combinator.
const MAX_BRANCHES: usize = 256;

/// The keywords for each type that a value may have.
pub(super) type Shape = BTreeMap<Kind, Map<String, Value>>;

/// The type of a value. If an export can show only one type, it shows the first one in this order. The earlier types
/// can express more: objects and lists more than strings, strings more than numbers.
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

/// All types except `Integer`, which `Number` includes.
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

    fn from_name(name: &str) -> Option<Kind> {
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

    /// Returns the intersection of two types, or `None` if no value has both.
    fn meet(self, other: Kind) -> Option<Kind> {
        match (self, other) {
            (Kind::Number, Kind::Integer) | (Kind::Integer, Kind::Number) => Some(Kind::Integer),
            (single, two) => (single == two).then_some(single),
        }
    }

    /// Whether `keyword` applies to values of this type only.
    fn applies(self, keyword: &str) -> bool {
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

/// Returns the shape of `schema`. The caller must have inlined the references of the schema. The shape is empty if the
/// schema allows no value.
pub(super) fn shape(schema: &Value) -> Shape {
    let Some(fields) = schema.as_object() else {
        return if *schema == Value::Bool(false) { Shape::new() } else { any_shape() };
    };
    if fields.get("not").is_some_and(is_trivial) {
        return Shape::new();
    }
    let mut shape = by_kind(fields);
    for part in list(fields, "allOf") {
        shape = intersect_shapes(shape, self::shape(part));
    }
    for keyword in ["anyOf", "oneOf"] {
        let branches = list(fields, keyword).map(self::shape).reduce(unite_shapes);
        shape = branches.into_iter().fold(shape, intersect_shapes);
    }
    for condition in conditions(fields) {
        shape = intersect_shapes(shape, condition);
    }
    shape
}

/// Whether `shape` allows every type.
pub(super) fn is_unconstrained(shape: &Shape) -> bool {
    ANY.iter().all(|kind| shape.contains_key(kind))
}

fn any_shape() -> Shape {
    ANY.into_iter().map(|kind| (kind, Map::new())).collect()
}

fn is_trivial(schema: &Value) -> bool {
    *schema == Value::Bool(true) || schema.as_object().is_some_and(Map::is_empty)
}

fn list<'a>(fields: &'a Map<String, Value>, keyword: &str) -> impl Iterator<Item = &'a Value> {
    fields.get(keyword).and_then(Value::as_array).into_iter().flatten().take(MAX_BRANCHES)
}

/// Returns the shapes of `if` and `dependentSchemas`. The condition depends on the value, so each shape allows the
/// values that are valid if the condition is true, and those that are valid if it is false.
fn conditions(fields: &Map<String, Value>) -> Vec<Shape> {
    let mut shapes = Vec::new();
    if fields.contains_key("if") {
        let branch = |keyword| fields.get(keyword).map_or_else(any_shape, shape);
        shapes.push(unite_shapes(branch("then"), branch("else")));
    }
    let dependent =
        fields.get("dependentSchemas").and_then(Value::as_object).into_iter().flat_map(Map::values).take(MAX_BRANCHES);
    shapes.extend(dependent.map(|schema| unite_shapes(shape(schema), any_shape())));
    shapes
}

fn by_kind(fields: &Map<String, Value>) -> Shape {
    let values: Option<Vec<&Value>> = match (fields.get("enum"), fields.get("const")) {
        (_, Some(single)) => Some(vec![single]),
        (Some(Value::Array(list)), None) => Some(list.iter().collect()),
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
    let declared: Vec<Kind> = match fields.get("type") {
        Some(Value::String(single)) => Kind::from_name(single).into_iter().collect(),
        Some(Value::Array(list)) => list.iter().filter_map(Value::as_str).filter_map(Kind::from_name).collect(),
        _ => Vec::new(),
    };
    if !declared.is_empty() {
        return declared;
    }
    match values {
        Some(values) if !values.is_empty() => values.iter().map(|value| Kind::of(value)).collect(),
        _ => inferred_kinds(fields),
    }
}

/// Infers the types of a schema without `type` from its other keywords.
fn inferred_kinds(fields: &Map<String, Value>) -> Vec<Kind> {
    let inferred: Vec<Kind> =
        ANY.into_iter().filter(|kind| fields.keys().any(|keyword| kind.applies(keyword))).collect();
    let example = fields.get("default").into_iter().chain(list(fields, "examples")).find(|value| !value.is_null());
    match (inferred.is_empty(), example) {
        (false, _) => inferred,
        (true, Some(example)) => vec![Kind::of(example)],
        (true, None) => ANY.to_vec(),
    }
}

fn keywords_for(kind: Kind, fields: &Map<String, Value>, values: Option<&[&Value]>) -> Map<String, Value> {
    let kept = fields.iter().filter(|(keyword, _)| is_annotation(keyword) || kind.applies(keyword));
    let mut keywords: Map<String, Value> = kept.map(|(keyword, value)| (keyword.clone(), value.clone())).collect();
    if let Some(values) = values {
        keywords.insert("enum".into(), values.iter().copied().filter(|value| kind.fits(value)).cloned().collect());
    }
    keywords
}

/// Returns the intersection of two shapes. If they have no type in common, returns the first, because a schema that
/// allows no value is of no use.
fn intersect_shapes(first: Shape, mut second: Shape) -> Shape {
    let meets = |kind: &Kind| second.keys().any(|other| kind.meet(*other).is_some());
    if !first.keys().any(meets) {
        return first;
    }
    let mut met = Shape::new();
    for (kind, keywords) in first {
        let partners: Vec<Kind> = second.keys().copied().filter(|other| kind.meet(*other).is_some()).collect();
        for partner in partners {
            // `Number` and `Integer` overlap. Every other type overlaps only with itself.
            let others = if kind == partner { second.remove(&partner) } else { second.get(&partner).cloned() };
            if let (Some(meet), Some(others)) = (kind.meet(partner), others) {
                met.entry(meet).or_insert_with(|| intersect(keywords.clone(), others));
            }
        }
    }
    met
}

/// Returns the union of two shapes.
fn unite_shapes(mut first: Shape, second: Shape) -> Shape {
    for (kind, keywords) in second {
        let united = match first.remove(&kind) {
            Some(own) => unite(own, keywords),
            None => keywords,
        };
        first.insert(kind, united);
    }
    // Integers are numbers, so the group for integers is united with the group for numbers. A keyword that only one of
    // the two groups has is dropped.
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
        // `additionalProperties` applies to properties that match no pattern. The two schemas have different patterns,
        // which are dropped below, so `additionalProperties` is dropped too.
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

/// Joins two schemas under one combinator. Further joins extend the same list, so the nesting depth does not grow.
fn join(own: &mut Value, other: Value, combinator: &str) {
    if *own == other {
        return;
    }
    let joined = own.as_object_mut().filter(|fields| fields.len() == 1);
    if let Some(Value::Array(parts)) = joined.and_then(|fields| fields.get_mut(combinator)) {
        if parts.len() < MAX_JOINED && !parts.contains(&other) {
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

/// Keeps the values that are in both lists.
fn retain_common(own: &mut Value, other: &Value) {
    if let (Value::Array(own), Value::Array(other)) = (own, other) {
        let known: HashSet<String> = other.iter().map(Value::to_string).collect();
        own.retain(|value| known.contains(&value.to_string()));
    }
}
