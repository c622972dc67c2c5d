//! Types of records that Rust structs declare.
#![allow(clippy::unwrap_used)]

use schemars::JsonSchema;
use serde_json::json;
use toolwright_tools::EntityType;
use toolwright_types::Operation;

/// People who buy.
///
/// And some who do not.
#[derive(JsonSchema, EntityType)]
#[tools(singular = "client", plural = "clientele", category = "crm", tags("people", "sales"))]
#[tools(exclude(delete, create), searchable(name, "address.city"))]
#[tools(relation(name = "orders", type = "Order", field = "orders", many))]
struct Customer {
    #[expect(dead_code, reason = "only its schema is looked at")]
    name: String,
    #[expect(dead_code, reason = "only its schema is looked at")]
    orders: Vec<String>,
}

#[test]
fn a_struct_says_everything_that_a_definition_can() {
    let written = serde_json::to_value(Customer::entity_type()).unwrap();
    let schema = json!({
        "description": "People who buy.\n\nAnd some who do not.",
        "type": "object",
        "properties": { "name": { "type": "string" }, "orders": { "type": "array", "items": { "type": "string" } } },
        "required": ["name", "orders"]
    });
    let expected = json!({
        "refName": "Customer", "singularName": "client", "pluralName": "clientele", "category": "crm",
        "description": "People who buy. And some who do not.", "tags": ["people", "sales"], "jsonSchema": schema,
        "searchableFields": ["name", "address.city"], "excludeOperations": ["delete", "create"],
        "relations": [{ "name": "orders", "type": "Order", "field": "orders", "many": true }]
    });
    assert_eq!(written, expected);
    assert_eq!(Customer::entity_type().tool_name(Operation::Search), "search_clientele");
}
