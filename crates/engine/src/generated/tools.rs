//! The tools that a type gives rise to, as definitions. Looks nothing up.

use serde_json::{Map, Value, json};
use toolwright_types::{
    CostHint, GENERATED_CATEGORY, JsonSchema, Latency, Operation, SelectorCategory, SideEffects, ToolDefinition,
    ToolType, TypeDefinition,
};

use super::describe;

/// Records of a page of `search_*` when nobody says how many, and at most.
pub(super) const PAGE: (u32, u32) = (20, 100);

/// One tool for each operation that is not excluded, in the order of operations.
pub(crate) fn tools(of: &TypeDefinition, excluded: &[Operation]) -> Vec<ToolDefinition> {
    let wanted = of.operations().filter(|operation| !excluded.contains(operation));
    wanted.filter_map(|operation| tool(of, operation)).collect()
}

/// None if the names of the type are too long to name a tool.
fn tool(of: &TypeDefinition, operation: Operation) -> Option<ToolDefinition> {
    let tool_type = match operation {
        Operation::Search | Operation::Count => ToolType::QuantumQuery,
        Operation::Get | Operation::Create | Operation::Update | Operation::Delete => ToolType::QuantumApi,
    };
    let mut tool = ToolDefinition::new(of.tool_name(operation).parse().ok()?, tool_type);
    tool.description = Some(describe::description(of, operation));
    tool.category = Some(of.category.clone().unwrap_or_else(|| GENERATED_CATEGORY.to_owned()));
    tool.tags.clone_from(&of.tags);
    tool.invocation.method = Some(operation.as_str().to_owned());
    tool.invocation.path = Some(of.ref_name.to_string());
    tool.input_json_schema = Some(JsonSchema(input(of, operation)));
    tool.output_json_schema = Some(JsonSchema(output(of, operation)));
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

fn input(of: &TypeDefinition, operation: Operation) -> Value {
    let query =
        json!({ "type": "string", "description": "Which ones, in the query language; all of them when absent." });
    let id = json!({ "type": "string", "description": format!("The id of the {}.", of.singular().replace('_', " ")) });
    let fields = json!({ "type": "string", "description": "Only these fields, such as `+id, +name`, or all but some, such as `-note`." });
    let version = json!({ "type": "integer", "description": "The version that was read; refuses the call if it is another by now." });
    match operation {
        Operation::Search => json!({ "type": "object", "additionalProperties": false, "properties": {
            "query": query,
            "sort": { "type": "string", "description": "The order, such as `name, -created`; `-` is for the largest first." },
            "fields": fields,
            "limit": { "type": "integer", "minimum": 1, "maximum": PAGE.1, "default": PAGE.0 },
            "cursor": { "type": "string", "description": "`nextCursor` of the page before, with the same query and sort." },
        } }),
        Operation::Count => {
            json!({ "type": "object", "additionalProperties": false, "properties": { "query": query } })
        }
        Operation::Get => json!({ "type": "object", "additionalProperties": false, "required": ["id"],
            "properties": { "id": id, "fields": fields } }),
        Operation::Delete => json!({ "type": "object", "additionalProperties": false, "required": ["id"],
            "properties": known(of, id, version) }),
        Operation::Create => whole(of, of.effective_schema()),
        Operation::Update => partial(of.effective_schema(), known(of, id, version)),
    }
}

/// What a record is known by that is changed or removed.
fn known(of: &TypeDefinition, id: Value, version: Value) -> Map<String, Value> {
    let version = of.is_versioned().then(|| ("version".to_owned(), version));
    [("id".to_owned(), id)].into_iter().chain(version).collect()
}

/// The type's own schema. Models want to be told that it is an object. A table that gives no ids wants to be sent one, which the
/// schema does not speak of.
fn whole(of: &TypeDefinition, schema: Value) -> Value {
    let Value::Object(mut fields) = schema else { return json!({ "type": "object" }) };
    fields.insert("type".into(), json!("object"));
    if of.records.is_some()
        && let Some(properties) = fields.get_mut("properties").and_then(Value::as_object_mut)
    {
        let id = json!({ "type": "string", "description": "The id of the new record; the table gives one if it can when this is absent." });
        properties.entry("id").or_insert(id);
    }
    Value::Object(fields)
}

/// The type's properties, none of them required; what the whole must look like is checked after the change is merged.
fn partial(schema: Value, known: Map<String, Value>) -> Value {
    let mut properties = known;
    let declared = schema.get("properties").and_then(Value::as_object).cloned().unwrap_or_default();
    let required: Vec<&str> =
        schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
    let mut refers = false;
    for (name, mut property) in declared {
        refers |= moved(&mut property);
        let property = if required.contains(&name.as_str()) { property } else { or_null(property) };
        properties.entry(name).or_insert(property);
    }
    let mut input = json!({ "type": "object", "properties": properties, "required": ["id"] });
    if let Some(fields) = input.as_object_mut() {
        if schema.get("additionalProperties") == Some(&Value::Bool(false)) {
            fields.insert("additionalProperties".into(), json!(false));
        }
        if refers {
            let mut whole = schema;
            moved(&mut whole);
            fields.insert("$defs".into(), json!({ RECORD: whole }));
        }
    }
    input
}

/// The schema, or null, which removes what it is of.
fn or_null(schema: Value) -> Value {
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

/// Where a schema is put that others refer to from outside of it.
const RECORD: &str = "Record";

/// Lets references to the root lead to the same schema in its new place. Says whether there were any.
fn moved(schema: &mut Value) -> bool {
    match schema {
        Value::Array(items) => items.iter_mut().fold(false, |any, item| moved(item) | any),
        // A schema with an id of its own is a root of its own.
        Value::Object(fields) if fields.contains_key("$id") => false,
        Value::Object(fields) => {
            let mut any = false;
            if let Some(Value::String(reference)) = fields.get_mut("$ref")
                && let Some(pointer) = reference.strip_prefix('#')
                && (pointer.is_empty() || pointer.starts_with('/'))
            {
                *reference = format!("#/$defs/{RECORD}{pointer}");
                any = true;
            }
            fields.iter_mut().filter(|(name, _)| *name != "$ref").fold(any, |any, (_, value)| moved(value) | any)
        }
        _ => false,
    }
}

fn output(of: &TypeDefinition, operation: Operation) -> Value {
    match operation {
        Operation::Search => {
            json!({ "type": "object", "required": ["items", "total", "nextCursor", "hint"], "properties": {
            "items": { "type": "array", "items": { "type": "object" } },
            "total": { "type": "integer", "description": "How many there are on all pages." },
            "nextCursor": { "type": ["string", "null"], "description": "Where the next page begins; null on the last." },
            "hint": { "type": "string", "description": "What is shown, and how to see more." },
        } })
        }
        Operation::Count => {
            json!({ "type": "object", "required": ["count"], "properties": { "count": { "type": "integer" } } })
        }
        Operation::Delete => json!({ "type": "object", "required": ["id", "deleted"], "properties": {
            "id": { "type": "string" },
            "deleted": { "type": "boolean", "description": "False if it was not there any more." },
        } }),
        Operation::Get => json!({ "type": "object" }),
        Operation::Create | Operation::Update if !of.is_versioned() => {
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
    fn a_type_gives_exactly_its_tools() {
        let made = tools(&order(), &[Operation::Get]);
        let names: Vec<_> = made.iter().map(|tool| tool.ref_name.to_string()).collect();
        assert_eq!(names, ["search_orders", "count_orders", "create_order", "update_order"]);
        for tool in &made {
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
    fn schemas_of_inputs_say_what_the_schema_of_the_type_says() {
        let made = tools(&order(), &[]);
        let schema = |name: &str| {
            let tool = made.iter().find(|tool| tool.ref_name.as_str() == name).unwrap();
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
