//! Converts each object schema under `components.schemas` into a self-contained JSON Schema.

use serde_json::{Map, Value};

use crate::document::OpenApiDocument;
use crate::error::{ConversionError, DocumentError};
use crate::reference::follow;
use crate::schema::{Converter, Direction};
use crate::text;

/// The maximum number of schemas in a document.
const MAX_SCHEMAS: usize = 10_000;
/// The maximum total size of the converted schemas, in bytes.
const MAX_BYTES: usize = 64 << 20;
/// The maximum number of `allOf` parts of one schema that are inlined. Cycles were removed earlier, but a part can
/// itself have many parts.
const MAX_INLINED_PARTS: usize = 64;
/// The maximum length of a description, in characters.
const MAX_DESCRIPTION_CHARS: usize = 1000;

/// A schema under `components.schemas`.
#[derive(Debug)]
pub struct ComponentSchema {
    /// The name of the schema.
    pub name: String,
    /// The converted schema, if it describes objects.
    pub object: Result<ObjectSchema, NotAnObject>,
}

/// A schema that describes objects.
#[derive(Debug)]
pub struct ObjectSchema {
    /// The description of the objects.
    pub description: Option<String>,
    /// A self-contained JSON Schema 2020-12.
    pub schema: Value,
}

/// The reason why a schema does not describe objects.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NotAnObject(String);

/// Converts the schemas whose name satisfies `select`, in document order.
pub fn component_schemas(
    document: &OpenApiDocument,
    select: impl Fn(&str) -> bool,
) -> Result<Vec<ComponentSchema>, DocumentError> {
    const POINTER: &str = "/components/schemas";
    let schemas = document.root.pointer(POINTER).and_then(Value::as_object);
    let schemas: Vec<(&String, &Value)> = schemas.into_iter().flatten().collect();
    if schemas.len() > MAX_SCHEMAS {
        return Err(DocumentError::at(
            POINTER,
            format!("a document must not have more than {MAX_SCHEMAS} schemas; import a smaller document"),
        ));
    }
    let (mut found, mut bytes) = (Vec::new(), 0);
    for (name, schema) in schemas.into_iter().filter(|(name, _)| select(name)) {
        let object = convert_object(document, schema, &mut bytes);
        if bytes > MAX_BYTES {
            let message = format!("the schemas must not exceed {MAX_BYTES} bytes; select some of them by name");
            return Err(DocumentError::at(POINTER, message));
        }
        found.push(ComponentSchema { name: name.clone(), object });
    }
    Ok(found)
}

fn convert_object<'d>(
    document: &'d OpenApiDocument,
    schema: &'d Value,
    bytes: &mut usize,
) -> Result<ObjectSchema, NotAnObject> {
    let unconvertible = |error: ConversionError| NotAnObject(error.to_string());
    let source = follow(&document.root, schema).map_err(unconvertible)?;
    let mut converter = Converter::new(document, Direction::Both);
    let mut converted = converter.convert(source).map_err(unconvertible)?;
    let Some(fields) = converted.as_object_mut() else { return Err(NotAnObject("the schema is empty".to_owned())) };
    converter.finish(fields).map_err(unconvertible)?;
    if let Some(Value::Object(definitions)) = fields.get("$defs").cloned() {
        let mut remaining = MAX_INLINED_PARTS;
        inline_parts(fields, &definitions, &mut remaining);
    }
    merge_parts(fields);
    check_describes_objects(fields)?;
    *bytes += converter.estimated_bytes();
    let text = |name: &str| source.get(name).and_then(Value::as_str);
    let description = text::merge_description(text("title"), text("description"), MAX_DESCRIPTION_CHARS);
    fields.shift_remove("description");
    fields.shift_remove("title");
    fields.insert("type".into(), "object".into());
    Ok(ObjectSchema { description, schema: converted })
}

fn check_describes_objects(fields: &Map<String, Value>) -> Result<(), NotAnObject> {
    let types: Vec<&str> = match fields.get("type") {
        Some(Value::String(name)) => vec![name],
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    let reject = |reason: String| Err(NotAnObject(reason));
    match types.iter().find(|name| !matches!(**name, "object" | "null")) {
        Some(other) => return reject(format!("the schema must describe objects, got type `{other}`")),
        None if fields.contains_key("enum") => {
            return reject("the schema must describe objects, got an `enum`".to_owned());
        }
        None => {}
    }
    if fields.contains_key("oneOf") || fields.contains_key("anyOf") {
        return reject("the schema must have one shape, got `oneOf` or `anyOf`".to_owned());
    }
    if fields.get("properties").and_then(Value::as_object).is_none_or(Map::is_empty) && !fields.contains_key("allOf") {
        return reject("the schema declares no properties".to_owned());
    }
    Ok(())
}

/// Replaces each `allOf` part that is only a reference with a copy of the referenced definition. Merging then changes
/// the copy and not the definition, which other schemas may use.
fn inline_parts(schema: &mut Map<String, Value>, definitions: &Map<String, Value>, remaining: &mut usize) {
    let Some(Value::Array(parts)) = schema.get_mut("allOf") else { return };
    for part in parts.iter_mut().filter_map(Value::as_object_mut) {
        if *remaining == 0 {
            return;
        }
        *remaining -= 1;
        let reference = part.get("$ref").and_then(Value::as_str).filter(|_| part.len() == 1);
        let name = reference.and_then(|reference| reference.strip_prefix("#/$defs/"));
        if let Some(Value::Object(definition)) = name.and_then(|name| definitions.get(name)) {
            *part = definition.clone();
        }
        inline_parts(part, definitions, remaining);
    }
}

/// Merges `allOf` parts that only declare properties into the schema. All other parts stay as they are.
fn merge_parts(schema: &mut Map<String, Value>) {
    let Some(Value::Array(parts)) = schema.shift_remove("allOf") else { return };
    let mut unmerged = Vec::new();
    for part in parts {
        match part {
            Value::Object(mut part) if is_plain(&part) => {
                merge_parts(&mut part);
                if let Some(Value::Array(rest)) = part.shift_remove("allOf") {
                    unmerged.extend(rest);
                }
                merge_part(schema, part);
            }
            other => unmerged.push(other),
        }
    }
    if !unmerged.is_empty() {
        schema.insert("allOf".into(), Value::Array(unmerged));
    }
}

/// Returns whether a part only declares properties.
fn is_plain(part: &Map<String, Value>) -> bool {
    let is_plain_keyword = |keyword: &str| {
        matches!(keyword, "type" | "properties" | "required" | "description" | "title" | "allOf" | "examples")
    };
    part.keys().all(|keyword| is_plain_keyword(keyword)) && part.get("type").is_none_or(|kind| kind == "object")
}

/// Adds the properties and required names of `part`. Existing properties take precedence.
fn merge_part(schema: &mut Map<String, Value>, part: Map<String, Value>) {
    for (keyword, value) in part {
        match (keyword.as_str(), value) {
            ("properties", Value::Object(properties)) => {
                let own = schema.entry("properties").or_insert_with(|| Value::Object(Map::new()));
                if let Value::Object(own) = own {
                    for (name, property) in properties {
                        own.entry(name).or_insert(property);
                    }
                }
            }
            ("required", Value::Array(names)) => {
                let own = schema.entry("required").or_insert_with(|| Value::Array(Vec::new()));
                if let Value::Array(own) = own {
                    let new: Vec<Value> = names.into_iter().filter(|name| !own.contains(name)).collect();
                    own.extend(new);
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn convert(schemas: Value) -> Vec<ComponentSchema> {
        let document = json!({ "openapi": "3.1.0", "components": { "schemas": schemas } });
        component_schemas(&OpenApiDocument::from_value_for_schemas(document).unwrap(), |_| true).unwrap()
    }

    #[test]
    fn schemas_that_do_not_describe_objects_are_rejected_with_a_reason() {
        let found = convert(json!({
            "Order": { "type": "object", "description": "What was bought.", "required": ["id"], "properties": { "id": { "type": "string", "readOnly": true }, "of": { "$ref": "#/components/schemas/Customer" } } },
            "Customer": { "properties": { "name": { "type": "string" } } },
            "Status": { "type": "string", "enum": ["open"] },
            "Choice": { "enum": ["a"] },
            "List": { "type": "array", "items": {} },
            "Pet": { "oneOf": [{ "$ref": "#/components/schemas/Order" }] },
            "Free": { "type": "object" },
            "Lost": { "$ref": "#/components/schemas/None" },
            "Loop": { "$ref": "#/components/schemas/Loop" },
            "Alias": { "$ref": "#/components/schemas/Customer" },
        }));
        let results: Vec<(&str, Result<usize, &str>)> = found
            .iter()
            .map(|component| {
                let count = |object: &ObjectSchema| object.schema["properties"].as_object().unwrap().len();
                (component.name.as_str(), component.object.as_ref().map(count).map_err(|reason| reason.0.as_str()))
            })
            .collect();
        let reason = |name: &str| results.iter().find(|(found, _)| *found == name).unwrap().1.unwrap_err();
        assert_eq!(results[..2], [("Order", Ok(2)), ("Customer", Ok(1))]);
        assert_eq!(results[9], ("Alias", Ok(1)));
        for (name, expected) in [
            ("Status", "string"),
            ("Choice", "`enum`"),
            ("List", "array"),
            ("Pet", "one shape"),
            ("Free", "no properties"),
            ("Lost", "no target"),
            ("Loop", "circular"),
        ] {
            assert!(reason(name).contains(expected), "{name}: {}", reason(name));
        }
        let order = found[0].object.as_ref().unwrap();
        assert_eq!(order.description.as_deref(), Some("What was bought."));
        assert_eq!(order.schema["properties"]["of"], json!({ "properties": { "name": { "type": "string" } } }));
    }

    #[test]
    fn allof_parts_that_only_declare_properties_are_merged() {
        let found = convert(json!({
            "Base": { "type": "object", "required": ["id"], "properties": { "id": { "type": "string" }, "kind": { "type": "string" } } },
            "Plain": { "allOf": [{ "$ref": "#/components/schemas/Base" }, { "properties": { "kind": { "const": "p" } }, "required": ["kind", "id"] }] },
            "Strict": { "properties": { "a": {} }, "allOf": [{ "$ref": "#/components/schemas/Base" }, { "minProperties": 2 }] },
        }));
        let schema = |at: usize| &found[at].object.as_ref().unwrap().schema;
        assert_eq!(
            schema(1),
            &json!({ "properties": { "id": { "type": "string" }, "kind": { "type": "string" } }, "required": ["id", "kind"], "type": "object" })
        );
        assert_eq!(schema(2)["allOf"], json!([{ "minProperties": 2 }]));
        assert_eq!(schema(2)["properties"].as_object().unwrap().len(), 3);
    }

    #[test]
    fn recursive_schema_is_kept_under_defs() {
        let found = convert(
            json!({ "Node": { "type": "object", "properties": { "children": { "type": "array", "items": { "$ref": "#/components/schemas/Node" } } } } }),
        );
        let schema = &found[0].object.as_ref().unwrap().schema;
        assert!(schema["$defs"]["Node"].is_object(), "{schema}");
    }

    #[test]
    fn allof_part_that_refers_back_to_its_schema_is_merged() {
        let found = convert(json!({
            "Entity": { "type": "object", "required": ["id"], "properties": { "id": { "type": "string" }, "parent": { "$ref": "#/components/schemas/Folder" } } },
            "Closed": { "type": "object", "required": ["id"], "minProperties": 1, "properties": { "id": {}, "of": { "$ref": "#/components/schemas/File" } } },
            "Folder": { "allOf": [{ "$ref": "#/components/schemas/Entity" }, { "required": ["name"], "properties": { "name": { "type": "string" } } }] },
            "File": { "allOf": [{ "$ref": "#/components/schemas/Closed" }, { "properties": { "name": { "type": "string" } } }] },
        }));
        let schema = |at: usize| &found[at].object.as_ref().unwrap().schema;
        assert_eq!(schema(2).get("allOf"), None, "{}", schema(2));
        assert_eq!(schema(2)["required"], json!(["id", "name"]));
        let names: Vec<&String> = schema(2)["properties"].as_object().unwrap().keys().collect();
        assert_eq!(names, ["id", "parent", "name"]);
        assert_eq!(schema(3)["allOf"][0]["required"], json!(["id"]), "{}", schema(3));
    }

    #[test]
    fn document_without_schemas_is_rejected() {
        let error = OpenApiDocument::from_value_for_schemas(json!({ "openapi": "3.1.0", "paths": {} })).unwrap_err();
        assert_eq!(error.pointer, "/components/schemas");
    }
}
