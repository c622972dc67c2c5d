//! What a tool takes and returns: JSON Schema in a definition, a type signature in a pattern.

use serde_json::{Map, Value as Json, json};
use toolwright_gram::{Parameter, Signature, Type};

/// The parameters whose schema is exactly `schema`; none when a signature cannot say it.
pub(crate) fn parameters(schema: &Json) -> Option<Vec<Parameter>> {
    Signature::from_schema(schema, Type::Object(None)).ok().map(|signature| signature.parameters)
}

/// The parameters of `schema` as well as a signature can say them: names, and types where there is one.
pub(crate) fn about(schema: &Json) -> Vec<Parameter> {
    let properties = schema.get("properties").and_then(Json::as_object);
    let named = properties.into_iter().flatten().filter(|(name, _)| !name.is_empty());
    named.map(|(name, schema)| parameter(name, schema)).collect()
}

/// What a tool returns whose output has this schema; none when a type cannot say it.
pub(crate) fn returned(schema: &Json) -> Option<Type> {
    let around = json!({"type": "object", "properties": {"returned": schema}, "required": ["returned"]});
    let parameters = parameters(&around)?;
    let [only] = parameters.as_slice() else { return None };
    let is_bare = *only == Parameter::required(&only.name, only.kind.clone());
    // A plain object promises nothing; it is what a tool returns that has no schema.
    (is_bare && only.kind != Type::Object(None)).then(|| only.kind.clone())
}

/// The schema of what a tool returns; none where the signature promises nothing.
pub(crate) fn of_returned(kind: &Type) -> Option<Json> {
    if *kind == Type::Object(None) {
        return None;
    }
    let around =
        Signature { parameters: vec![Parameter::required("returned", kind.clone())], returns: Type::Object(None) };
    around.to_schema().pointer("/properties/returned").cloned()
}

fn parameter(name: &str, schema: &Json) -> Parameter {
    let kind = match schema.get("type") {
        Some(Json::String(kind)) => of_name(kind),
        Some(Json::Array(kinds)) => kinds.iter().filter_map(Json::as_str).find_map(of_name),
        _ => None,
    };
    let mut parameter = Parameter::required(name, kind.unwrap_or(Type::Object(None)));
    parameter.description = schema.get("description").and_then(Json::as_str).map(str::to_owned);
    parameter
}

fn of_name(kind: &str) -> Option<Type> {
    let schema: Map<String, Json> = [("type".to_owned(), Json::from(kind))].into_iter().collect();
    let around = json!({"type": "object", "properties": {"one": schema}, "required": ["one"]});
    parameters(&around)?.pop().map(|one| one.kind)
}
