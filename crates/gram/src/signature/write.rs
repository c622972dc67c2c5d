//! From a signature to a pattern.

use serde_json::Value as Json;

use super::{Parameter, Signature, Type};
use crate::model::{Array, Entry, Map, Pattern, Scalar, Value, WALK};

/// A path if every node is flat, else its bracket form.
pub(super) fn signature(signature: &Signature) -> Pattern {
    let mut chain: Vec<Pattern> = signature.parameters.iter().map(parameter).collect();
    if chain.is_empty() {
        chain.push(Pattern::default());
    }
    chain.push(typed(Pattern::default(), &signature.returns));
    if chain.len() == 2 || chain.iter().any(|node| !node.elements.is_empty()) {
        return Pattern { elements: chain, ..Pattern::default() };
    }
    let edges = chain.windows(2).map(|ends| Pattern { elements: ends.to_vec(), ..Pattern::default() });
    Pattern { elements: edges.collect(), ..Pattern::default().label(WALK) }
}

fn parameter(parameter: &Parameter) -> Pattern {
    let mut pattern = typed(Pattern::named(&parameter.name), &parameter.kind);
    let properties = &mut pattern.subject.properties;
    if let Some(default) = parameter.default.as_ref().and_then(Value::from_plain_json) {
        properties.insert("default".to_owned(), default);
    }
    if let Some(description) = &parameter.description {
        properties.insert("description".to_owned(), Value::from(description.as_str()));
    }
    if let Some(choices) = choices(&parameter.choices) {
        properties.insert("enum".to_owned(), Value::Array(choices));
    }
    pattern
}

fn choices(choices: &[Json]) -> Option<Array> {
    let items = choices.iter().filter_map(|choice| match Value::from_plain_json(choice) {
        Some(Value::Scalar(scalar)) => Some(scalar),
        _ => None,
    });
    Array::new(items.collect())
}

/// `pattern` with a type: a label, and fields or items as properties where they are plain, else as elements.
fn typed(pattern: Pattern, kind: &Type) -> Pattern {
    let pattern = pattern.label(kind.name());
    match kind {
        Type::Array(Some(item)) if is_plain(item) => pattern.property("elementType", item.name()),
        Type::Array(Some(item)) => pattern.element(typed(Pattern::default(), item)),
        Type::Object(Some(fields)) => match flat_fields(fields) {
            Some(map) => pattern.property("fields", map),
            None => fields.iter().map(parameter).fold(pattern, Pattern::element),
        },
        _ => pattern,
    }
}

/// Fields that a name and a type say everything about, and whose order is that of a map.
fn flat_fields(fields: &[Parameter]) -> Option<Map> {
    let is_flat =
        |field: &Parameter| is_plain(&field.kind) && *field == Parameter::required(&field.name, field.kind.clone());
    let flat = fields.iter().all(is_flat) && fields.is_sorted_by(|before, after| before.name < after.name);
    let entry = |field: &Parameter| (field.name.clone(), Entry::Scalar(Scalar::String(field.kind.name().to_owned())));
    flat.then(|| fields.iter().map(entry).collect())
}

fn is_plain(kind: &Type) -> bool {
    !matches!(kind, Type::Array(Some(_)) | Type::Object(Some(_)))
}
