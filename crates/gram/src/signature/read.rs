//! From a pattern to a signature.

use std::collections::BTreeSet;

use serde_json::Value as Json;

use super::{Parameter, Signature, SignatureError, Type, defaults};
use crate::model::{Entry, Pattern, Value};

type Read<T> = Result<T, SignatureError>;

pub(super) fn signature(pattern: &Pattern) -> Read<Signature> {
    let chain = chain(pattern).ok_or(SignatureError::NotAPath)?;
    let (last, parameters) = chain.split_last().ok_or(SignatureError::NotAPath)?;
    let parameters = match parameters {
        [none] if **none == Pattern::default() => Vec::new(),
        parameters => fields(parameters)?,
    };
    let returns = shape(last, "the result")?;
    Ok(Signature { parameters, returns })
}

/// The nodes of a path, or of its bracket form.
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

fn fields(patterns: &[&Pattern]) -> Read<Vec<Parameter>> {
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

fn parameter(pattern: &Pattern, position: usize) -> Read<Parameter> {
    let name = pattern.identity().to_owned();
    if name.is_empty() {
        return Err(SignatureError::Unnamed { position });
    }
    let mut parameter = Parameter::required(&name, shape(pattern, &format!("parameter `{name}`"))?);
    for (key, value) in &pattern.subject.properties {
        match key.as_str() {
            "default" => parameter.default = Some(typed("default", value, &parameter)?),
            "description" => parameter.description = Some(text(&name, "description", value)?),
            "enum" => parameter.choices = choices(value, &parameter)?,
            // These two are part of the type.
            "elementType" | "fields" => {}
            _ => return Err(SignatureError::UnknownProperty { name, key: key.clone() }),
        }
    }
    match &parameter.default {
        Some(default) if !parameter.choices.is_empty() && !parameter.choices.contains(default) => {
            Err(SignatureError::NotAChoice { name })
        }
        _ => Ok(parameter),
    }
}

/// The type of a node: its label, and what its properties or elements say about fields and items.
fn shape(pattern: &Pattern, what: &str) -> Read<Type> {
    let mut labels = pattern.subject.labels.iter();
    let (Some(label), None) = (labels.next(), labels.next()) else {
        return Err(SignatureError::NotOneType { what: what.to_owned() });
    };
    let unknown = || SignatureError::UnknownType { what: what.to_owned(), label: label.clone() };
    let name = || pattern.identity().to_owned();
    let wrong = |key, expected| SignatureError::WrongProperty { name: name(), key, expected };
    let elements: Vec<&Pattern> = pattern.elements.iter().collect();
    match (Type::named(label).ok_or_else(unknown)?, pattern.get("elementType"), pattern.get("fields")) {
        (Type::Array(_), Some(item), None) if elements.is_empty() => {
            let item = item.as_word().ok_or_else(|| wrong("elementType", "the name of a type"))?;
            Ok(Type::Array(Some(Box::new(word(item, what)?))))
        }
        (Type::Object(_), None, Some(Value::Map(map))) if elements.is_empty() => flat_fields(map, &name()),
        (_, Some(_), _) => Err(wrong("elementType", "on an Array that has no elements")),
        (_, _, Some(_)) => Err(wrong("fields", "a map of names and types, on an Object that has no elements")),
        (kind, None, None) if elements.is_empty() => Ok(kind),
        (Type::Object(_), ..) => Ok(Type::Object(Some(fields(&elements)?))),
        (Type::Array(_), ..) => match elements.as_slice() {
            [item] if item.identity().is_empty() => Ok(Type::Array(Some(Box::new(shape(item, "an item")?)))),
            _ => Err(SignatureError::WrongElements { name: name() }),
        },
        _ => Err(SignatureError::WrongElements { name: name() }),
    }
}

fn flat_fields(map: &crate::model::Map, name: &str) -> Read<Type> {
    let fields = map.iter().map(|(field, entry)| {
        let kind = match entry {
            Entry::Scalar(scalar) => scalar.as_word(),
            Entry::Array(_) => None,
        };
        let expected = "a map of names and types";
        let wrong = || SignatureError::WrongProperty { name: name.to_owned(), key: "fields", expected };
        let kind = word(kind.ok_or_else(wrong)?, &format!("field `{field}`"))?;
        Ok(Parameter::required(field, kind))
    });
    fields.collect::<Read<Vec<Parameter>>>().map(|fields| Type::Object(Some(fields)))
}

fn word(label: &str, what: &str) -> Read<Type> {
    Type::named(label).ok_or_else(|| SignatureError::UnknownType { what: what.to_owned(), label: label.to_owned() })
}

fn text(name: &str, key: &'static str, value: &Value) -> Read<String> {
    let wrong = || SignatureError::WrongProperty { name: name.to_owned(), key, expected: "a string" };
    value.as_text().map(str::to_owned).ok_or_else(wrong)
}

fn choices(value: &Value, parameter: &Parameter) -> Read<Vec<Json>> {
    let expected = "an array of values";
    let Value::Array(items) = value else {
        return Err(SignatureError::WrongProperty { name: parameter.name.clone(), key: "enum", expected });
    };
    items.as_slice().iter().map(|item| typed("enum", &Value::Scalar(item.clone()), parameter)).collect()
}

fn typed(property: &'static str, value: &Value, parameter: &Parameter) -> Read<Json> {
    let json = value.to_plain_json().filter(|json| defaults::fits(json, &parameter.kind));
    json.ok_or_else(|| SignatureError::WrongType {
        property,
        name: parameter.name.clone(),
        expected: defaults::expected(&parameter.kind),
    })
}
