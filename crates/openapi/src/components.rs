//! The objects that a document describes under `components.schemas`, each as a schema that stands alone.

use serde_json::{Map, Value};

use crate::document::{Document, Refused};
use crate::reference::{Lost, follow};
use crate::schema::{Converter, Direction};
use crate::text;

/// How many schemas a document may have.
const MOST_SCHEMAS: usize = 10_000;
/// How many bytes they may have together.
const MOST_BYTES: usize = 64 << 20;
/// Parts of one schema that are written out. Whatever leads in circles was opened before, but parts may have many parts each.
const MOST_PARTS: usize = 64;
/// Characters of a description.
const LONGEST_DESCRIPTION: usize = 1000;

/// One schema of a document.
#[derive(Debug)]
pub struct Component {
    /// Its name.
    pub name: String,
    /// What it says, if it speaks of objects.
    pub object: Result<Object, NoObject>,
}

/// A schema of objects.
#[derive(Debug)]
pub struct Object {
    /// What they are.
    pub description: Option<String>,
    /// JSON Schema 2020-12, without a reference that leads out of it.
    pub schema: Value,
}

/// Why a schema is none of objects.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NoObject(String);

/// The schemas of a document that `wanted` lets through, in its order.
pub fn components(document: &Document, wanted: impl Fn(&str) -> bool) -> Result<Vec<Component>, Refused> {
    const PLACE: &str = "/components/schemas";
    let schemas = document.root.pointer(PLACE).and_then(Value::as_object);
    let schemas: Vec<(&String, &Value)> = schemas.into_iter().flatten().collect();
    if schemas.len() > MOST_SCHEMAS {
        return Err(Refused::at(
            PLACE,
            format!("the document has more than {MOST_SCHEMAS} schemas; import a smaller one"),
        ));
    }
    let (mut found, mut bytes) = (Vec::new(), 0);
    for (name, schema) in schemas.into_iter().filter(|(name, _)| wanted(name)) {
        let object = object(document, schema, &mut bytes);
        if bytes > MOST_BYTES {
            let message = format!("the schemas have more than {MOST_BYTES} bytes; import a part of them, by name");
            return Err(Refused::at(PLACE, message));
        }
        found.push(Component { name: name.clone(), object });
    }
    Ok(found)
}

fn object<'d>(document: &'d Document, schema: &'d Value, bytes: &mut usize) -> Result<Object, NoObject> {
    let lost = |lost: Lost| NoObject(lost.to_string());
    let said = follow(&document.root, schema).map_err(lost)?;
    let mut converter = Converter::new(document, Direction::Both);
    let mut converted = converter.convert(said).map_err(lost)?;
    let Some(fields) = converted.as_object_mut() else { return Err(NoObject("it says nothing".to_owned())) };
    converter.finish(fields).map_err(lost)?;
    if let Some(Value::Object(definitions)) = fields.get("$defs").cloned() {
        let mut left = MOST_PARTS;
        write_out(fields, &definitions, &mut left);
    }
    merge_parts(fields);
    speaks_of_objects(fields)?;
    *bytes += converter.spent();
    let texts = |name: &str| said.get(name).and_then(Value::as_str);
    let description = text::described(texts("title"), texts("description"), LONGEST_DESCRIPTION);
    fields.shift_remove("description");
    fields.shift_remove("title");
    fields.insert("type".into(), "object".into());
    Ok(Object { description, schema: converted })
}

fn speaks_of_objects(fields: &Map<String, Value>) -> Result<(), NoObject> {
    let types: Vec<&str> = match fields.get("type") {
        Some(Value::String(one)) => vec![one],
        Some(Value::Array(several)) => several.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    let no = |text: String| Err(NoObject(text));
    match types.iter().find(|name| !matches!(**name, "object" | "null")) {
        Some(other) => return no(format!("it is of type {other}, and records are objects")),
        None if fields.contains_key("enum") => return no("it is a list of choices, and records are objects".to_owned()),
        None => {}
    }
    if fields.contains_key("oneOf") || fields.contains_key("anyOf") {
        return no("it is one of several shapes; records of a type have one".to_owned());
    }
    if fields.get("properties").and_then(Value::as_object).is_none_or(Map::is_empty) && !fields.contains_key("allOf") {
        return no("it names no properties".to_owned());
    }
    Ok(())
}

/// Writes parts out that are nothing but references: what is said of the record itself is not said of all that is shaped like it.
fn write_out(whole: &mut Map<String, Value>, definitions: &Map<String, Value>, left: &mut usize) {
    let Some(Value::Array(parts)) = whole.get_mut("allOf") else { return };
    for part in parts.iter_mut().filter_map(Value::as_object_mut) {
        if *left == 0 {
            return;
        }
        *left -= 1;
        let reference = part.get("$ref").and_then(Value::as_str).filter(|_| part.len() == 1);
        let name = reference.and_then(|reference| reference.strip_prefix("#/$defs/"));
        if let Some(Value::Object(definition)) = name.and_then(|name| definitions.get(name)) {
            *part = definition.clone();
        }
        write_out(part, definitions, left);
    }
}

/// Lays parts that only name properties into the whole; all others stay as they are.
fn merge_parts(whole: &mut Map<String, Value>) {
    let Some(Value::Array(parts)) = whole.shift_remove("allOf") else { return };
    let mut kept = Vec::new();
    for part in parts {
        match part {
            Value::Object(mut part) if is_plain(&part) => {
                merge_parts(&mut part);
                if let Some(Value::Array(rest)) = part.shift_remove("allOf") {
                    kept.extend(rest);
                }
                lay(whole, part);
            }
            other => kept.push(other),
        }
    }
    if !kept.is_empty() {
        whole.insert("allOf".into(), Value::Array(kept));
    }
}

fn is_plain(part: &Map<String, Value>) -> bool {
    let plain = |keyword: &str| {
        matches!(keyword, "type" | "properties" | "required" | "description" | "title" | "allOf" | "examples")
    };
    part.keys().all(|keyword| plain(keyword)) && part.get("type").is_none_or(|kind| kind == "object")
}

fn lay(whole: &mut Map<String, Value>, part: Map<String, Value>) {
    for (keyword, value) in part {
        match (keyword.as_str(), value) {
            ("properties", Value::Object(properties)) => {
                let own = whole.entry("properties").or_insert_with(|| Value::Object(Map::new()));
                if let Value::Object(own) = own {
                    for (name, property) in properties {
                        own.entry(name).or_insert(property);
                    }
                }
            }
            ("required", Value::Array(names)) => {
                let own = whole.entry("required").or_insert_with(|| Value::Array(Vec::new()));
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

    fn read(schemas: Value) -> Vec<Component> {
        let document = json!({ "openapi": "3.1.0", "components": { "schemas": schemas } });
        components(&Document::of_schemas(document).unwrap(), |_| true).unwrap()
    }

    #[test]
    fn objects_are_found_and_all_else_has_a_reason() {
        let found = read(json!({
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
        let told: Vec<(&str, Result<usize, &str>)> = found
            .iter()
            .map(|one| {
                let count = |object: &Object| object.schema["properties"].as_object().unwrap().len();
                (one.name.as_str(), one.object.as_ref().map(count).map_err(|reason| reason.0.as_str()))
            })
            .collect();
        let reason = |name: &str| told.iter().find(|(found, _)| *found == name).unwrap().1.unwrap_err();
        assert_eq!(told[..2], [("Order", Ok(2)), ("Customer", Ok(1))]);
        assert_eq!(told[9], ("Alias", Ok(1)));
        for (name, part) in [
            ("Status", "string"),
            ("Choice", "choices"),
            ("List", "array"),
            ("Pet", "several"),
            ("Free", "no properties"),
            ("Lost", "nothing"),
            ("Loop", "circle"),
        ] {
            assert!(reason(name).contains(part), "{name}: {}", reason(name));
        }
        let order = found[0].object.as_ref().unwrap();
        assert_eq!(order.description.as_deref(), Some("What was bought."));
        assert_eq!(order.schema["properties"]["of"], json!({ "properties": { "name": { "type": "string" } } }));
    }

    #[test]
    fn parts_are_laid_together_where_they_only_name_properties() {
        let found = read(json!({
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
    fn a_schema_may_hold_itself() {
        let found = read(
            json!({ "Node": { "type": "object", "properties": { "children": { "type": "array", "items": { "$ref": "#/components/schemas/Node" } } } } }),
        );
        let schema = &found[0].object.as_ref().unwrap().schema;
        assert!(schema["$defs"]["Node"].is_object(), "{schema}");
    }

    #[test]
    fn a_part_that_leads_back_is_laid_in_too() {
        let found = read(json!({
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
    fn a_document_without_schemas_is_refused() {
        let refused = Document::of_schemas(json!({ "openapi": "3.1.0", "paths": {} })).unwrap_err();
        assert_eq!(refused.place, "/components/schemas");
    }
}
