//! Converts a pattern to a signature.

use std::collections::BTreeSet;

use serde_json::Value as Json;

use super::{Parameter, Signature, SignatureError, Type, type_check};
use crate::model::{MapValue, Pattern, Value};

type SignatureResult<T> = Result<T, SignatureError>;

pub(super) fn signature(pattern: &Pattern) -> SignatureResult<Signature> {
    let chain = chain(pattern).ok_or(SignatureError::NotAPath)?;
    let (last, parameters) = chain.split_last().ok_or(SignatureError::NotAPath)?;
    let parameters = match parameters {
        [none] if **none == Pattern::default() => Vec::new(),
        parameters => fields(parameters)?,
    };
    let returns = parse_type(last, "the result")?;
    Ok(Signature { parameters, returns })
}

/// Returns the nodes of a signature, which is a path or its bracket form `[ | p1, p2, …, result]`.
fn chain(pattern: &Pattern) -> Option<Vec<&Pattern>> {
    if !pattern.is_walk() {
        return (pattern.subject.is_empty() && pattern.elements.len() >= 2).then(|| pattern.elements.iter().collect());
    }
    let mut nodes: Vec<&Pattern> = Vec::new();
    for edge in &pattern.elements {
        let [from, to] = edge.elements.as_slice() else { return None };
        if !edge.subject.is_empty() || nodes.last().is_some_and(|last| *last != from) {
            return None;
        }
        if nodes.is_empty() {
            nodes.push(from);
        }
        nodes.push(to);
    }
    (nodes.len() >= 2).then_some(nodes)
}

fn fields(patterns: &[&Pattern]) -> SignatureResult<Vec<Parameter>> {
    let mut names = BTreeSet::new();
    let parameters = patterns.iter().enumerate().map(|(index, pattern)| {
        let parameter = parameter(pattern, index + 1)?;
        if !names.insert(parameter.name.clone()) {
            return Err(SignatureError::DuplicateName { name: parameter.name });
        }
        Ok(parameter)
    });
    parameters.collect()
}

fn parameter(pattern: &Pattern, position: usize) -> SignatureResult<Parameter> {
    let name = pattern.identity().to_owned();
    if name.is_empty() {
        return Err(SignatureError::MissingParameterName { position });
    }
    let mut parameter = Parameter::required(&name, parse_type(pattern, &format!("parameter `{name}`"))?);
    for (key, value) in &pattern.subject.properties {
        match key.as_str() {
            "default" => parameter.default = Some(typed_value("default", value, &parameter)?),
            "description" => parameter.description = Some(text(&name, "description", value)?),
            "enum" => parameter.choices = choices(value, &parameter)?,
            // `parse_type` has already read these properties.
            "elementType" | "fields" => {}
            _ => return Err(SignatureError::UnknownProperty { name, key: key.clone() }),
        }
    }
    match &parameter.default {
        Some(default) if !parameter.choices.is_empty() && !parameter.choices.contains(default) => {
            Err(SignatureError::DefaultNotInEnum { name })
        }
        _ => Ok(parameter),
    }
}

/// Returns the type of a node: the label, and the fields or the item type from the properties or the elements of the
/// node.
fn parse_type(pattern: &Pattern, what: &str) -> SignatureResult<Type> {
    let mut labels = pattern.subject.labels.iter();
    let (Some(label), None) = (labels.next(), labels.next()) else {
        return Err(SignatureError::TypeCount { what: what.to_owned() });
    };
    let unknown = || SignatureError::UnknownType { what: what.to_owned(), label: label.clone() };
    let name = || pattern.identity().to_owned();
    let invalid = |key, expected| SignatureError::InvalidProperty { name: name(), key, expected };
    let elements: Vec<&Pattern> = pattern.elements.iter().collect();
    match (Type::named(label).ok_or_else(unknown)?, pattern.get("elementType"), pattern.get("fields")) {
        (Type::Array(_), Some(item), None) if elements.is_empty() => {
            let item = item.as_string_or_symbol().ok_or_else(|| invalid("elementType", "the name of a type"))?;
            Ok(Type::Array(Some(Box::new(named_type(item, what)?))))
        }
        (Type::Object(_), None, Some(Value::Map(map))) if elements.is_empty() => fields_from_map(map, &name()),
        (_, Some(_), _) => Err(invalid("elementType", "on an Array that has no elements")),
        (_, _, Some(_)) => Err(invalid("fields", "a map of names and types, on an Object that has no elements")),
        (kind, None, None) if elements.is_empty() => Ok(kind),
        (Type::Object(_), ..) => Ok(Type::Object(Some(fields(&elements)?))),
        (Type::Array(_), ..) => match elements.as_slice() {
            [item] if item.identity().is_empty() => Ok(Type::Array(Some(Box::new(parse_type(item, "an item")?)))),
            _ => Err(SignatureError::InvalidElements { name: name() }),
        },
        _ => Err(SignatureError::InvalidElements { name: name() }),
    }
}

fn fields_from_map(map: &crate::model::Map, name: &str) -> SignatureResult<Type> {
    let fields = map.iter().map(|(field, entry)| {
        let kind = match entry {
            MapValue::Scalar(scalar) => scalar.as_string_or_symbol(),
            MapValue::Array(_) => None,
        };
        let expected = "a map of names and types";
        let invalid = || SignatureError::InvalidProperty { name: name.to_owned(), key: "fields", expected };
        let kind = named_type(kind.ok_or_else(invalid)?, &format!("field `{field}`"))?;
        Ok(Parameter::required(field, kind))
    });
    fields.collect::<SignatureResult<Vec<Parameter>>>().map(|fields| Type::Object(Some(fields)))
}

fn named_type(label: &str, what: &str) -> SignatureResult<Type> {
    Type::named(label).ok_or_else(|| SignatureError::UnknownType { what: what.to_owned(), label: label.to_owned() })
}

fn text(name: &str, key: &'static str, value: &Value) -> SignatureResult<String> {
    let invalid = || SignatureError::InvalidProperty { name: name.to_owned(), key, expected: "a string" };
    value.as_text().map(str::to_owned).ok_or_else(invalid)
}

fn choices(value: &Value, parameter: &Parameter) -> SignatureResult<Vec<Json>> {
    let expected = "an array of values";
    let Value::Array(items) = value else {
        return Err(SignatureError::InvalidProperty { name: parameter.name.clone(), key: "enum", expected });
    };
    items.as_slice().iter().map(|item| typed_value("enum", &Value::Scalar(item.clone()), parameter)).collect()
}

fn typed_value(property: &'static str, value: &Value, parameter: &Parameter) -> SignatureResult<Json> {
    let json = value.to_plain_json().filter(|json| type_check::has_type(json, &parameter.kind));
    json.ok_or_else(|| SignatureError::TypeMismatch {
        property,
        name: parameter.name.clone(),
        expected: type_check::describe_type(&parameter.kind),
    })
}
