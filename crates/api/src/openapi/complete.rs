//! Completes the document that utoipa generates, so that validators and client generators accept it and so that it
//! describes what the server does.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

const REF_PREFIX: &str = "#/components/schemas/";
const SCHEMAS: &str = "/components/schemas";
/// The name of the schema with the fields that the server adds to every definition.
const MANAGED_FIELDS: &str = "MetaView";

pub(super) fn complete(document: &mut Value) {
    let definitions = definitions(document);
    inline_strings(document);
    name_variants(document);
    tag_variants(document);
    flatten_all_of(document);
    accept_managed_fields(document, &definitions);
    accept_signature(document);
    allow_null_in_requests(document);
    for operation in operations(document) {
        describe_event_stream(operation);
        complete_responses(operation);
    }
}

fn operations(document: &mut Value) -> impl Iterator<Item = &mut Value> {
    let paths = document.get_mut("paths").and_then(Value::as_object_mut);
    let items = paths.into_iter().flat_map(Map::values_mut).filter_map(Value::as_object_mut);
    items.flat_map(Map::values_mut)
}

/// Adds the problem responses, which every route can return, and the descriptions, which OpenAPI requires.
fn complete_responses(operation: &mut Value) {
    let Some(responses) = operation.get_mut("responses").and_then(Value::as_object_mut) else { return };
    for status in ["4XX", "5XX"] {
        let schema = json!({ "$ref": format!("{REF_PREFIX}Problem") });
        let problem = json!({ "content": { "application/problem+json": { "schema": schema } } });
        responses.insert(status.to_owned(), problem);
    }
    for (status, response) in responses {
        if let Some(response) = response.as_object_mut()
            && !response.contains_key("description")
        {
            response.shift_insert(0, "description".to_owned(), describe_status(status).into());
        }
    }
}

fn describe_status(status: &str) -> &'static str {
    match status {
        "201" => "Created.",
        "202" => "Accepted. The run continues or waits.",
        "204" => "Done. The response has no body.",
        "4XX" => "The request was rejected.",
        "5XX" => "The server or a system behind it failed.",
        _ => "The request succeeded.",
    }
}

/// Describes one event of a stream with the fields of the SSE format. The handlers describe only the JSON text in
/// `data`.
fn describe_event_stream(operation: &mut Value) {
    let content = operation.pointer_mut("/responses/200/content/text~1event-stream");
    let Some(schema) = content.and_then(|content| content.get_mut("schema")) else { return };
    let data = json!({ "type": "string", "contentMediaType": "application/json", "contentSchema": schema.take() });
    *schema = json!({
        "type": "object",
        "required": ["event", "data"],
        "properties": {
            "event": { "type": "string", "description": "The `type` of the event." },
            "data": data,
            "id": { "type": "string", "description": "The number of the journal entry, for `Last-Event-ID`." },
        },
    });
}

/// Replaces each reference to the schema `String` by the schema itself. utoipa writes such a reference for an alias of
/// `String`, and generators would need a type for it.
fn inline_strings(document: &mut Value) {
    let Some(schemas) = document.pointer_mut(SCHEMAS).and_then(Value::as_object_mut) else { return };
    schemas.shift_remove("String");
    visit(document, &mut |schema| {
        if schema.get("$ref").and_then(Value::as_str).and_then(|name| name.strip_prefix(REF_PREFIX)) == Some("String") {
            schema.shift_remove("$ref");
            schema.insert("type".to_owned(), "string".into());
        }
    });
}

/// Gives the objects among the variants of an enum names of their own, because generators need a name for each object.
/// The name consists of the names of the enum and of the variant.
fn name_variants(document: &mut Value) {
    let Some(schemas) = document.pointer_mut(SCHEMAS).and_then(Value::as_object_mut) else { return };
    let mut named = Map::new();
    for (name, schema) in schemas.iter_mut() {
        for variant in schema.get_mut("oneOf").and_then(Value::as_array_mut).into_iter().flatten() {
            let fields = variant.get("properties").and_then(Value::as_object);
            let Some(field) = fields.and_then(|fields| fields.keys().next()) else { continue };
            let (first, rest) = field.split_at(field.chars().next().map_or(0, char::len_utf8));
            let name = format!("{name}{}{rest}", first.to_uppercase());
            let reference = json!({ "$ref": format!("{REF_PREFIX}{name}") });
            named.insert(name, std::mem::replace(variant, reference));
        }
    }
    schemas.extend(named);
    schemas.sort_keys();
}

/// Moves the tag of each enum variant into the schema of the variant, because generators need a name for each variant.
/// utoipa writes a variant as `allOf` of a named schema and an object with the tag.
fn tag_variants(document: &mut Value) {
    let schemas = document.pointer(SCHEMAS).cloned().unwrap_or_default();
    let mut tagged = Map::new();
    visit(document, &mut |schema| {
        for variant in schema.get_mut("oneOf").and_then(Value::as_array_mut).into_iter().flatten() {
            let name = variant.pointer("/allOf/0").and_then(reference).map(str::to_owned);
            let merged = variant.as_object().and_then(|variant| merge_all_of(variant, &schemas));
            if let (Some(name), Some(merged)) = (name, merged) {
                *variant = json!({ "$ref": format!("{REF_PREFIX}{name}") });
                tagged.insert(name, merged.into());
            }
        }
    });
    let components = document.pointer_mut(SCHEMAS).and_then(Value::as_object_mut).into_iter();
    components.for_each(|components| components.extend(std::mem::take(&mut tagged)));
}

/// Replaces each `allOf` by one object with the properties of all its parts.
///
/// utoipa writes `allOf` for `#[serde(flatten)]`. A part that rejects unknown fields would reject the fields of the
/// other parts, so no value would match.
fn flatten_all_of(document: &mut Value) {
    let schemas = document.pointer(SCHEMAS).cloned().unwrap_or_default();
    visit(document, &mut |schema| {
        if let Some(merged) = merge_all_of(schema, &schemas) {
            *schema = merged;
        }
    });
}

fn merge_all_of(schema: &Map<String, Value>, schemas: &Value) -> Option<Map<String, Value>> {
    let (mut required, mut properties) = (Vec::new(), Map::new());
    let (mut closed, mut open) = (false, false);
    for part in schema.get("allOf")?.as_array()? {
        let name = reference(part);
        let part = name.map_or(Some(part), |name| schemas.get(name))?.as_object()?;
        let nested = merge_all_of(part, schemas);
        let part = nested.as_ref().unwrap_or(part);
        required.extend(part.get("required").and_then(Value::as_array).into_iter().flatten().cloned());
        properties.extend(part.get("properties")?.as_object()?.clone());
        let rejects_others = part.get("additionalProperties") == Some(&Value::Bool(false));
        closed |= rejects_others;
        open |= name.is_some() && !rejects_others;
    }
    let mut merged = Map::from_iter([("type".to_owned(), json!("object"))]);
    merged.extend(schema.get("description").map(|text| ("description".to_owned(), text.clone())));
    if !required.is_empty() {
        merged.insert("required".to_owned(), required.into());
    }
    merged.insert("properties".to_owned(), properties.into());
    if closed && !open {
        merged.insert("additionalProperties".to_owned(), Value::Bool(false));
    }
    Some(merged)
}

/// Returns the names of the schemas of definitions. The schema of each view combines one of them with
/// [`MANAGED_FIELDS`].
fn definitions(document: &Value) -> Vec<String> {
    let views = document.pointer(SCHEMAS).and_then(Value::as_object).into_iter().flat_map(Map::values);
    let parts = views.filter_map(|view| match view.get("allOf")?.as_array()?.as_slice() {
        [meta, parts @ ..] if reference(meta) == Some(MANAGED_FIELDS) => parts.iter().find_map(reference),
        _ => None,
    });
    parts.map(str::to_owned).collect()
}

/// Allows a client to send a definition back as the server returned it: the server ignores the fields that it manages.
/// Also makes `refName` optional, because the server can derive it from `name`, and describes it for definitions that
/// store it as `name`.
fn accept_managed_fields(document: &mut Value, definitions: &[String]) {
    let managed = document.pointer(&format!("{SCHEMAS}/{MANAGED_FIELDS}/properties")).cloned().unwrap_or_default();
    for name in definitions {
        let Some(schema) = document.pointer_mut(&format!("{SCHEMAS}/{name}")) else { continue };
        let is_stored_as_name = schema.pointer("/properties/refName").is_none();
        if let Some(required) = schema.get_mut("required").and_then(Value::as_array_mut) {
            required.retain(|field| field != if is_stored_as_name { "name" } else { "refName" });
        }
        if is_stored_as_name && let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
            let text = "The same as `name`. One of the two is required.";
            properties.insert("refName".to_owned(), json!({ "type": "string", "description": text }));
        }
        let properties = schema.get_mut("properties").and_then(Value::as_object_mut).into_iter();
        properties.for_each(|properties| properties.extend(managed.as_object().cloned().unwrap_or_default()));
    }
}

/// Describes the field `signature` of a tool. Only requests contain this field: the server derives the schemas of the
/// tool from the signature, and stores only the schemas.
fn accept_signature(document: &mut Value) {
    let Some(tool) = document.pointer_mut(&format!("{SCHEMAS}/ToolDefinition")) else { return };
    if let Some(required) = tool.get_mut("required").and_then(Value::as_array_mut) {
        required.retain(|field| field != "toolType");
    }
    let text = "A type signature in gram, such as `(personName::Text)==>(::String)`, instead of the schemas. A tool with a signature is by default a FUNCTION with its own name.";
    if let Some(properties) = tool.get_mut("properties").and_then(Value::as_object_mut) {
        properties.insert("signature".to_owned(), json!({ "type": "string", "description": text, "writeOnly": true }));
    }
}

/// Allows null for every optional field of a request, because the server treats null as absent.
fn allow_null_in_requests(document: &mut Value) {
    let mut names = BTreeSet::new();
    let bodies: Vec<Value> =
        operations(document).filter_map(|operation| operation.get("requestBody").cloned()).collect();
    let schemas = document.pointer(SCHEMAS).cloned().unwrap_or_default();
    bodies.iter().for_each(|body| collect_references(body, &schemas, &mut names));
    let components = document.pointer_mut(SCHEMAS).and_then(Value::as_object_mut).into_iter().flatten();
    for (_, schema) in components.filter(|(name, _)| names.contains(*name)) {
        visit(schema, &mut allow_null_in_optional_properties);
    }
}

fn collect_references(value: &Value, schemas: &Value, names: &mut BTreeSet<String>) {
    if let Some(name) = reference(value)
        && names.insert(name.to_owned())
        && let Some(schema) = schemas.get(name)
    {
        collect_references(schema, schemas, names);
    }
    match value {
        Value::Object(fields) => fields.values().for_each(|field| collect_references(field, schemas, names)),
        Value::Array(items) => items.iter().for_each(|item| collect_references(item, schemas, names)),
        _ => {}
    }
}

fn allow_null_in_optional_properties(schema: &mut Map<String, Value>) {
    let required = schema.get("required").cloned().unwrap_or_default();
    let is_required = |name: &str| required.as_array().is_some_and(|names| names.iter().any(|known| known == name));
    let properties = schema.get_mut("properties").and_then(Value::as_object_mut).into_iter().flatten();
    properties.filter(|(name, _)| !is_required(name)).for_each(|(_, property)| allow_null(property));
}

fn allow_null(property: &mut Value) {
    let has = |key: &str| property.get(key).is_some();
    let only_null = json!({ "type": "null" });
    let is_nullable = property["type"].is_array()
        || property["oneOf"].as_array().is_some_and(|alternatives| alternatives.contains(&only_null));
    let accepts_everything = !["type", "$ref", "oneOf", "anyOf", "enum"].into_iter().any(has);
    if is_nullable || accepts_everything {
        return;
    }
    if has("type") && !has("enum") {
        property["type"] = json!([property["type"].take(), "null"]);
    } else {
        *property = json!({ "oneOf": [property.take(), only_null] });
    }
}

fn reference(value: &Value) -> Option<&str> {
    value.get("$ref")?.as_str()?.strip_prefix(REF_PREFIX)
}

/// Calls `change` for each object within the value, outer objects first.
fn visit(value: &mut Value, change: &mut impl FnMut(&mut Map<String, Value>)) {
    match value {
        Value::Object(fields) => {
            change(fields);
            fields.values_mut().for_each(|field| visit(field, change));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| visit(item, change)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flattened_object_rejects_unknown_fields_only_if_all_referenced_parts_do() {
        let kind = json!({ "type": "object", "required": ["kind"], "properties": { "kind": { "type": "string" } } });
        let part = |name: &str| json!({ "$ref": format!("{REF_PREFIX}{name}") });
        let object = |name: &str| json!({ "type": "object", "required": [name], "properties": { name: {} } });
        let mut closed = object("a");
        closed["additionalProperties"] = json!(false);
        let mut document = json!({ "components": { "schemas": {
            "Closed": closed,
            "Open": object("b"),
            "Tagged": { "allOf": [part("Closed"), kind] },
            "View": { "allOf": [part("Open"), part("Tagged")], "description": "A view." },
        } } });
        flatten_all_of(&mut document);
        let schemas = &document["components"]["schemas"];
        assert_eq!(
            schemas["Tagged"],
            json!({ "type": "object", "required": ["a", "kind"], "properties": { "a": {}, "kind": { "type": "string" } }, "additionalProperties": false })
        );
        assert_eq!(
            schemas["View"],
            json!({ "type": "object", "description": "A view.", "required": ["b", "a", "kind"], "properties": { "b": {}, "a": {}, "kind": { "type": "string" } } })
        );
    }

    #[test]
    fn objects_among_the_variants_of_an_enum_get_names() {
        let fallback = json!({ "type": "object", "required": ["fallback"], "properties": {
            "fallback": { "$ref": "#/components/schemas/String", "description": "The step." } } });
        let mut document = json!({ "components": { "schemas": {
            "String": { "type": "string" },
            "OnError": { "oneOf": [{ "type": "string", "enum": ["fail"] }, fallback] },
        } } });
        inline_strings(&mut document);
        name_variants(&mut document);
        assert_eq!(
            document["components"]["schemas"],
            json!({
                "OnError": { "oneOf": [{ "type": "string", "enum": ["fail"] }, { "$ref": "#/components/schemas/OnErrorFallback" }] },
                "OnErrorFallback": { "type": "object", "required": ["fallback"], "properties": {
                    "fallback": { "type": "string", "description": "The step." } } },
            })
        );
    }

    #[test]
    fn null_is_added_only_to_schemas_that_do_not_allow_null_yet() {
        let reference = json!({ "$ref": "#/components/schemas/X" });
        for (before, after) in [
            (json!({ "type": "string" }), json!({ "type": ["string", "null"] })),
            (json!({ "type": ["string", "null"] }), json!({ "type": ["string", "null"] })),
            (json!({ "description": "any value" }), json!({ "description": "any value" })),
            (reference.clone(), json!({ "oneOf": [reference, { "type": "null" }] })),
            (
                json!({ "type": "string", "enum": ["a"] }),
                json!({ "oneOf": [{ "type": "string", "enum": ["a"] }, { "type": "null" }] }),
            ),
        ] {
            let mut schema = before;
            allow_null(&mut schema);
            assert_eq!(schema, after);
            allow_null(&mut schema);
            assert_eq!(schema, after);
        }
    }
}
