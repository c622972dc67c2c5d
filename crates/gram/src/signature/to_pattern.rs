//! Converts a signature to a pattern.

use serde_json::Value as Json;

use super::{Parameter, Signature, Type};
use crate::model::{Array, Map, MapValue, Pattern, Scalar, Value, WALK};

/// Returns a path if no node has elements, otherwise the bracket form of the path.
pub(super) fn signature(signature: &Signature) -> Pattern {
    let mut chain: Vec<Pattern> = signature.parameters.iter().map(parameter).collect();
    if chain.is_empty() {
        chain.push(Pattern::default());
    }
    chain.push(with_type(Pattern::default(), &signature.returns));
    if chain.len() == 2 || chain.iter().any(|node| !node.elements.is_empty()) {
        return Pattern { elements: chain, ..Pattern::default() };
    }
    let edges = chain.windows(2).map(|ends| Pattern { elements: ends.to_vec(), ..Pattern::default() });
    Pattern { elements: edges.collect(), ..Pattern::default().label(WALK) }
}

fn parameter(parameter: &Parameter) -> Pattern {
    let mut pattern = with_type(Pattern::named(&parameter.name), &parameter.kind);
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

/// Adds a type to `pattern`. The type name becomes a label. The fields or the item type become properties if possible,
/// otherwise elements.
fn with_type(pattern: Pattern, kind: &Type) -> Pattern {
    let pattern = pattern.label(kind.name());
    match kind {
        Type::Array(Some(item)) if is_plain(item) => pattern.property("elementType", item.name()),
        Type::Array(Some(item)) => pattern.element(with_type(Pattern::default(), item)),
        Type::Object(Some(fields)) => match fields_as_map(fields) {
            Some(map) => pattern.property("fields", map),
            None => fields.iter().map(parameter).fold(pattern, Pattern::element),
        },
        _ => pattern,
    }
}

/// Returns the fields as a map from names to types. Returns `None` if a map cannot express the fields: a field has more
/// than a name and a simple type, or the fields are not sorted by name.
fn fields_as_map(fields: &[Parameter]) -> Option<Map> {
    let is_flat =
        |field: &Parameter| is_plain(&field.kind) && *field == Parameter::required(&field.name, field.kind.clone());
    let flat = fields.iter().all(is_flat) && fields.is_sorted_by(|before, after| before.name < after.name);
    let entry =
        |field: &Parameter| (field.name.clone(), MapValue::Scalar(Scalar::String(field.kind.name().to_owned())));
    flat.then(|| fields.iter().map(entry).collect())
}

fn is_plain(kind: &Type) -> bool {
    !matches!(kind, Type::Array(Some(_)) | Type::Object(Some(_)))
}
