//! Schemas of an OpenAPI document as types. Looks nothing up.

use serde_json::{Map, Value, json};
use toolwright_openapi::{Component, Object};
use toolwright_types::{JsonSchema, RefName, TypeDefinition};

use super::naming::{self, Names};
use super::{PlannedType, SkippedType, TypePlan};

/// What the server fills in, whatever a document says of it.
const MANAGED: [&str; 4] = ["id", "version", "auditInfo", "dataDomain"];

/// A type for each object.
pub(super) fn plan(components: Vec<Component>) -> TypePlan {
    let mut plan = TypePlan::default();
    let mut names = Names::default();
    for Component { name, object } in components {
        let planned = match object {
            Ok(object) => definition(&names.give(&type_name(&name)), object),
            Err(reason) => Err(reason.to_string()),
        };
        match planned {
            Ok(definition) => plan.types.push(PlannedType { from: name, definition }),
            Err(reason) => plan.skipped.push(SkippedType { name, reason }),
        }
    }
    plan
}

/// As it is, where it can be the name of a type.
fn type_name(name: &str) -> String {
    match name.parse::<RefName>() {
        Ok(_) => name.to_owned(),
        Err(_) => naming::of_type(name),
    }
}

fn definition(name: &str, object: Object) -> Result<TypeDefinition, String> {
    let Object { description, mut schema } = object;
    if let Some(fields) = schema.as_object_mut() {
        leave_to_the_server(fields);
    }
    let mut definition: TypeDefinition =
        serde_json::from_value(json!({ "refName": name })).map_err(|error| error.to_string())?;
    definition.description = description;
    definition.json_schema = Some(JsonSchema(schema));
    Ok(definition)
}

/// Says nothing of what the server fills in, in any part of the record. Records inside of it keep theirs.
fn leave_to_the_server(schema: &mut Map<String, Value>) {
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        MANAGED.iter().for_each(|name| drop(properties.shift_remove(*name)));
    }
    if let Some(Value::Array(required)) = schema.get_mut("required") {
        required.retain(|name| !MANAGED.iter().any(|managed| name == managed));
    }
    if let Some(Value::Array(parts)) = schema.get_mut("allOf") {
        parts.iter_mut().filter_map(Value::as_object_mut).for_each(leave_to_the_server);
    }
}
