//! Proposes entity types for the schemas of an OpenAPI document.

use serde_json::{Map, Value, json};
use toolwright_openapi::{ComponentSchema, ObjectSchema};
use toolwright_types::{JsonSchema, RefName, TypeDefinition};

use super::naming::{self, UniqueNames};
use super::{ProposedType, SkippedType, TypeProposal};

/// The fields that the server sets. Their schemas in a document are ignored.
const MANAGED: [&str; 4] = ["id", "version", "auditInfo", "dataDomain"];

/// Proposes a type for each object schema.
pub(super) fn propose(components: Vec<ComponentSchema>) -> TypeProposal {
    let mut proposal = TypeProposal::default();
    let mut names = UniqueNames::default();
    for ComponentSchema { name, object } in components {
        let proposed = match object {
            Ok(object) => definition(&names.assign(&type_name(&name)), object),
            Err(reason) => Err(reason.to_string()),
        };
        match proposed {
            Ok(definition) => proposal.types.push(ProposedType { source_name: name, definition }),
            Err(reason) => proposal.skipped.push(SkippedType { name, reason }),
        }
    }
    proposal
}

/// Returns the name of a schema if it is a valid type name, otherwise derives a type name from it.
fn type_name(name: &str) -> String {
    match name.parse::<RefName>() {
        Ok(_) => name.to_owned(),
        Err(_) => naming::type_name(name),
    }
}

fn definition(name: &str, object: ObjectSchema) -> Result<TypeDefinition, String> {
    let ObjectSchema { description, mut schema } = object;
    if let Some(fields) = schema.as_object_mut() {
        remove_managed_fields(fields);
    }
    let mut definition: TypeDefinition =
        serde_json::from_value(json!({ "refName": name })).map_err(|error| error.to_string())?;
    definition.description = description;
    definition.json_schema = Some(JsonSchema(schema));
    Ok(definition)
}

/// Removes the fields that the server sets from the schema of a record, also inside `allOf`. Fields of nested objects
/// with these names are kept.
fn remove_managed_fields(schema: &mut Map<String, Value>) {
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        MANAGED.iter().for_each(|name| drop(properties.shift_remove(*name)));
    }
    if let Some(Value::Array(required)) = schema.get_mut("required") {
        required.retain(|name| !MANAGED.iter().any(|managed| name == managed));
    }
    if let Some(Value::Array(parts)) = schema.get_mut("allOf") {
        parts.iter_mut().filter_map(Value::as_object_mut).for_each(remove_managed_fields);
    }
}
