//! Builds the definitions of the tools that are generated for an entity type. Does no IO.

use serde_json::{Map, Value, json};
use toolwright_types::{
    CostHint, GENERATED_CATEGORY, JsonSchema, Latency, Operation, SelectorCategory, SideEffects, ToolDefinition,
    ToolType, TypeDefinition,
};

use super::description;

/// The default page size of the tools `search_*` and `query_find`.
pub(super) const DEFAULT_LIMIT: u32 = 20;
/// The maximum page size of the tools `search_*` and `query_find`.
pub(super) const MAX_LIMIT: u32 = 100;

/// Returns one tool for each operation that is not excluded, in the order of [`Operation::ALL`].
pub fn tool_definitions(entity_type: &TypeDefinition, excluded: &[Operation]) -> Vec<ToolDefinition> {
    let operations = entity_type.operations().filter(|operation| !excluded.contains(operation));
    operations.filter_map(|operation| tool_definition(entity_type, operation)).collect()
}

/// Builds the tool for one operation; `None` if the type's name is too long for a tool name.
fn tool_definition(entity_type: &TypeDefinition, operation: Operation) -> Option<ToolDefinition> {
    let tool_type = match operation {
        Operation::Search | Operation::Count => ToolType::QuantumQuery,
        Operation::Get | Operation::Create | Operation::Update | Operation::Delete => ToolType::QuantumApi,
    };
    let mut tool = ToolDefinition::new(entity_type.tool_name(operation).parse().ok()?, tool_type);
    tool.description = Some(description::describe(entity_type, operation));
    tool.category = Some(entity_type.category.clone().unwrap_or_else(|| GENERATED_CATEGORY.to_owned()));
    tool.tags.clone_from(&entity_type.tags);
    tool.invocation.method = Some(operation.as_str().to_owned());
    tool.invocation.path = Some(entity_type.ref_name.to_string());
    tool.input_json_schema = Some(JsonSchema(input_schema(entity_type, operation)));
    tool.output_json_schema = Some(JsonSchema(output_schema(entity_type, operation)));
    tool.side_effects = Some(if operation.writes() { SideEffects::Writes } else { SideEffects::Reads });
    tool.idempotent = operation != Operation::Create;
    tool.estimated_latency = Some(Latency::Fast);
    tool.cost_hint = Some(CostHint::Free);
    tool.selector_category = Some(match operation {
        Operation::Search | Operation::Count => SelectorCategory::Search,
        _ => SelectorCategory::Data,
    });
    Some(tool)
}

fn input_schema(entity_type: &TypeDefinition, operation: Operation) -> Value {
    let query =
        json!({ "type": "string", "description": "The filter in the query language; absent matches every record." });
    let id = json!({ "type": "string", "description": format!("The id of the {}.", entity_type.singular().replace('_', " ")) });
    let fields = json!({ "type": "string", "description": "The fields to return, such as `+id, +name`, or to omit, such as `-note`." });
    let version = json!({ "type": "integer", "description": "The version that was read; the call fails if the record has changed since." });
    match operation {
        Operation::Search => json!({ "type": "object", "additionalProperties": false, "properties": {
            "query": query,
            "sort": { "type": "string", "description": "The sort order, such as `name, -created`; `-` sorts descending." },
            "fields": fields,
            "limit": { "type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": DEFAULT_LIMIT },
            "cursor": { "type": "string", "description": "`nextCursor` of the previous page, with the same query and sort." },
        } }),
        Operation::Count => {
            json!({ "type": "object", "additionalProperties": false, "properties": { "query": query } })
        }
        Operation::Get => json!({ "type": "object", "additionalProperties": false, "required": ["id"],
            "properties": { "id": id, "fields": fields } }),
        Operation::Delete => json!({ "type": "object", "additionalProperties": false, "required": ["id"],
            "properties": key_properties(entity_type, id, version) }),
        Operation::Create => create_schema(entity_type, entity_type.effective_schema()),
        Operation::Update => update_schema(entity_type.effective_schema(), key_properties(entity_type, id, version)),
    }
}

/// The input properties that identify the record to update or delete.
fn key_properties(entity_type: &TypeDefinition, id: Value, version: Value) -> Map<String, Value> {
    let version = entity_type.is_versioned().then(|| ("version".to_owned(), version));
    [("id".to_owned(), id)].into_iter().chain(version).collect()
}

/// The input schema to create a record: the type's schema with an explicit `"type": "object"`, which models need. For
/// external records it also has an id, because the table may require one.
fn create_schema(entity_type: &TypeDefinition, schema: Value) -> Value {
    let Value::Object(mut fields) = schema else { return json!({ "type": "object" }) };
    fields.insert("type".into(), json!("object"));
    if entity_type.records.is_some()
        && let Some(properties) = fields.get_mut("properties").and_then(Value::as_object_mut)
    {
        let id = json!({ "type": "string", "description": "The id of the new record; when absent, the table assigns one if it can." });
        properties.entry("id").or_insert(id);
    }
    Value::Object(fields)
}

/// The input schema to update a record. It has the properties of the type, but requires only the id. The complete
/// record is validated after the update is merged.
fn update_schema(schema: Value, known: Map<String, Value>) -> Value {
    let mut properties = known;
    let declared = schema.get("properties").and_then(Value::as_object).cloned().unwrap_or_default();
    let required: Vec<&str> =
        schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
    let mut has_root_refs = false;
    for (name, mut property) in declared {
        has_root_refs |= rewrite_root_refs(&mut property);
        let property = if required.contains(&name.as_str()) { property } else { nullable(property) };
        properties.entry(name).or_insert(property);
    }
    let mut input = json!({ "type": "object", "properties": properties, "required": ["id"] });
    if let Some(fields) = input.as_object_mut() {
        if schema.get("additionalProperties") == Some(&Value::Bool(false)) {
            fields.insert("additionalProperties".into(), json!(false));
        }
        if has_root_refs {
            let mut record_schema = schema;
            rewrite_root_refs(&mut record_schema);
            fields.insert("$defs".into(), json!({ RECORD_DEFINITION: record_schema }));
        }
    }
    input
}

/// A schema that also permits null. In an update, null removes the field.
fn nullable(schema: Value) -> Value {
    let Value::Object(mut fields) = schema else { return schema };
    match fields.get("type") {
        Some(Value::String(name)) if name != "null" => {
            let types = json!([name, "null"]);
            fields.insert("type".into(), types);
            if let Some(Value::Array(values)) = fields.get_mut("enum") {
                values.push(Value::Null);
            }
            Value::Object(fields)
        }
        _ => json!({ "anyOf": [fields, { "type": "null" }] }),
    }
}

/// The name of the type's schema under `$defs`. Properties that refer to the root of the type's schema refer to this
/// name instead.
const RECORD_DEFINITION: &str = "Record";

/// Rewrites references to the root of a schema so that they point to the schema under `$defs`. Returns whether a
/// reference was rewritten.
fn rewrite_root_refs(schema: &mut Value) -> bool {
    match schema {
        Value::Array(items) => items.iter_mut().fold(false, |any, item| rewrite_root_refs(item) | any),
        // References inside a schema with an `$id` refer to that schema, not to the root.
        Value::Object(fields) if fields.contains_key("$id") => false,
        Value::Object(fields) => {
            let mut any = false;
            if let Some(Value::String(reference)) = fields.get_mut("$ref")
                && let Some(pointer) = reference.strip_prefix('#')
                && (pointer.is_empty() || pointer.starts_with('/'))
            {
                *reference = format!("#/$defs/{RECORD_DEFINITION}{pointer}");
                any = true;
            }
            fields
                .iter_mut()
                .filter(|(name, _)| *name != "$ref")
                .fold(any, |any, (_, value)| rewrite_root_refs(value) | any)
        }
        _ => false,
    }
}

fn output_schema(entity_type: &TypeDefinition, operation: Operation) -> Value {
    match operation {
        Operation::Search => {
            json!({ "type": "object", "required": ["items", "total", "nextCursor", "hint"], "properties": {
            "items": { "type": "array", "items": { "type": "object" } },
            "total": { "type": "integer", "description": "The number of records on all pages." },
            "nextCursor": { "type": ["string", "null"], "description": "The cursor of the next page; null on the last page." },
            "hint": { "type": "string", "description": "What the page shows, and how to get more." },
        } })
        }
        Operation::Count => {
            json!({ "type": "object", "required": ["count"], "properties": { "count": { "type": "integer" } } })
        }
        Operation::Delete => json!({ "type": "object", "required": ["id", "deleted"], "properties": {
            "id": { "type": "string" },
            "deleted": { "type": "boolean", "description": "False if the record did not exist." },
        } }),
        Operation::Get => json!({ "type": "object" }),
        Operation::Create | Operation::Update if !entity_type.is_versioned() => {
            json!({ "type": "object", "required": ["id"], "properties": { "id": { "type": "string" } } })
        }
        Operation::Create | Operation::Update => {
            json!({ "type": "object", "required": ["id", "version"], "properties": {
            "id": { "type": "string" }, "version": { "type": "integer" },
        } })
        }
    }
}

#[cfg(test)]
mod tests {
    use toolwright_tools::Schema;

    use super::*;

    fn order() -> TypeDefinition {
        serde_json::from_value(json!({
            "refName": "Order", "description": "Purchase orders.", "category": "order_management", "tags": ["oms"],
            "excludeOperations": ["DELETE"], "searchableFields": ["status"],
            "jsonSchema": {
                "type": "object", "required": ["status"], "additionalProperties": false,
                "properties": { "status": { "type": "string", "enum": ["open", "paid"] }, "parent": { "$ref": "#" }, "lines": { "type": "array", "items": { "$ref": "#/$defs/line" } } },
                "$defs": { "line": { "type": "object", "required": ["sku"] } },
            },
        }))
        .unwrap()
    }

    #[test]
    fn generated_tools_inherit_category_and_tags_and_excluded_operations_have_no_tool() {
        let tools = tool_definitions(&order(), &[Operation::Get]);
        let names: Vec<_> = tools.iter().map(|tool| tool.ref_name.to_string()).collect();
        assert_eq!(names, ["search_orders", "count_orders", "create_order", "update_order"]);
        for tool in &tools {
            let operation = Operation::parse(tool.invocation.method.as_deref().unwrap()).unwrap();
            let queries = matches!(operation, Operation::Search | Operation::Count);
            assert_eq!(tool.tool_type, if queries { ToolType::QuantumQuery } else { ToolType::QuantumApi });
            assert_eq!(tool.invocation.path.as_deref(), Some("Order"));
            assert_eq!(
                (tool.category.as_deref(), tool.tags.as_slice()),
                (Some("order_management"), ["oms".to_owned()].as_slice())
            );
            assert_eq!(tool.effects() == SideEffects::Writes, operation.writes());
        }
    }

    #[test]
    fn inputs_of_create_and_update_tools_are_checked_against_the_schema_of_the_type() {
        let tools = tool_definitions(&order(), &[]);
        let schema = |name: &str| {
            let tool = tools.iter().find(|tool| tool.ref_name.as_str() == name).unwrap();
            Schema::compile(tool.effective_input_schema()).unwrap()
        };
        let (create, update) = (schema("create_order"), schema("update_order"));
        for (input, creates, updates) in [
            (json!({ "status": "open" }), true, false),
            (json!({ "id": "x" }), false, true),
            (json!({ "id": "x", "status": "lost" }), false, false),
            (json!({ "id": "x", "version": 3, "parent": { "status": "open" } }), false, true),
            (json!({ "id": "x", "parent": {} }), false, false),
            (json!({ "id": "x", "lines": [{ "sku": 1 }] }), false, true),
            (json!({ "id": "x", "lines": [{}] }), false, false),
            (json!({ "id": "x", "lines": null, "parent": null }), false, true),
            (json!({ "id": "x", "status": null }), false, false),
            (json!({ "id": "x", "parent": { "status": "open", "lines": [{}] } }), false, false),
            (json!({ "id": "x", "surprise": 1 }), false, false),
        ] {
            assert_eq!(create.check(&input).is_ok(), creates, "create {input}");
            assert_eq!(update.check(&input).is_ok(), updates, "update {input}");
        }
    }
}
