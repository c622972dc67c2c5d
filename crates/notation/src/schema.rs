//! Converts between the JSON Schemas of a tool definition and the type signature of a tool pattern.

use serde_json::{Map, Value as Json, json};
use toolwright_gram::{Parameter, Signature, Type};

/// Returns the parameters whose schema is exactly `schema`, or `None` if a signature cannot express it.
pub(crate) fn parameters(schema: &Json) -> Option<Vec<Parameter>> {
    Signature::from_schema(schema, Type::Object(None)).ok().map(|signature| signature.parameters)
}

/// Returns an approximation of `schema` as parameters: names, descriptions, and types that a signature can express.
pub(crate) fn approximate_parameters(schema: &Json) -> Vec<Parameter> {
    let properties = schema.get("properties").and_then(Json::as_object);
    let named = properties.into_iter().flatten().filter(|(name, _)| !name.is_empty());
    named.map(|(name, schema)| parameter(name, schema)).collect()
}

/// Returns the type of an output schema, or `None` if a type cannot express it.
pub(crate) fn return_type(schema: &Json) -> Option<Type> {
    let around = json!({"type": "object", "properties": {"returned": schema}, "required": ["returned"]});
    let parameters = parameters(&around)?;
    let [only] = parameters.as_slice() else { return None };
    let is_bare = *only == Parameter::required(&only.name, only.kind.clone());
    // The return type `Object` without fields means that there is no output schema. So it cannot express an output
    // schema.
    (is_bare && only.kind != Type::Object(None)).then(|| only.kind.clone())
}

/// Returns the input schema and the output schema of a signature. A return type `Object` without fields has no output
/// schema.
pub fn signature_schemas(signature: &Signature) -> (Json, Option<Json>) {
    (signature.to_schema(), return_schema(&signature.returns))
}

/// Returns the output schema of a return type, or `None` for an `Object` without fields.
pub(crate) fn return_schema(kind: &Type) -> Option<Json> {
    if *kind == Type::Object(None) {
        return None;
    }
    let around =
        Signature { parameters: vec![Parameter::required("returned", kind.clone())], returns: Type::Object(None) };
    around.to_schema().pointer("/properties/returned").cloned()
}

fn parameter(name: &str, schema: &Json) -> Parameter {
    let kind = match schema.get("type") {
        Some(Json::String(kind)) => type_from_name(kind),
        Some(Json::Array(kinds)) => kinds.iter().filter_map(Json::as_str).find_map(type_from_name),
        _ => None,
    };
    let mut parameter = Parameter::required(name, kind.unwrap_or(Type::Object(None)));
    parameter.description = schema.get("description").and_then(Json::as_str).map(str::to_owned);
    parameter
}

fn type_from_name(kind: &str) -> Option<Type> {
    let schema: Map<String, Json> = [("type".to_owned(), Json::from(kind))].into_iter().collect();
    let around = json!({"type": "object", "properties": {"one": schema}, "required": ["one"]});
    parameters(&around)?.pop().map(|one| one.kind)
}
