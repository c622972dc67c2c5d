//! Tests of the entity type definitions that `#[derive(EntityType)]` generates.
#![allow(clippy::unwrap_used, dead_code, reason = "the tests only describe the structs and never read their fields")]

use schemars::JsonSchema;
use serde_json::json;
use toolwright_derive::EntityType;
use toolwright_tools::EntityType as _;
use toolwright_types::Operation;

/// Purchase orders of our customers.
#[derive(JsonSchema, EntityType)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
#[tools(exclude(delete, count), searchable(status, customerId))]
#[tools(singular = "order", category = "sales", tags("oms", "fulfillment"))]
struct PurchaseOrder {
    /// The state of the order.
    status: Status,
    #[relation(type = "Customer")]
    customer_id: String,
    #[relation(type = "Person", name = "buyer")]
    #[schemars(rename = "boughtBy")]
    buyer_id: Option<String>,
    #[relation(type = "Product", many)]
    sold_product_ids: Vec<String>,
    parts: Vec<PurchaseOrder>,
}

#[derive(JsonSchema)]
#[schemars(rename_all = "lowercase")]
enum Status {
    Open,
    Paid,
}

#[derive(JsonSchema, EntityType)]
struct Plain {
    n: u8,
}

#[test]
fn derived_definition_contains_the_attributes_and_the_schema() {
    let definition = PurchaseOrder::type_definition().unwrap();
    assert_eq!(definition.ref_name.as_str(), "PurchaseOrder");
    assert_eq!(definition.description.as_deref(), Some("Purchase orders of our customers."));
    assert_eq!(definition.tool_name(Operation::Search), "search_orders");
    assert_eq!(definition.exclude_operations, [Operation::Delete, Operation::Count]);
    assert_eq!((definition.category.as_deref(), definition.tags.len()), (Some("sales"), 2));
    assert_eq!(definition.searchable_fields, ["status", "customerId"]);
    let schema = definition.effective_schema();
    assert_eq!((&schema["type"], &schema["additionalProperties"]), (&json!("object"), &json!(false)));
    assert!(schema["properties"]["customerId"]["type"] == "string");
    for relation in &definition.relations {
        assert!(schema["properties"].get(&relation.field).is_some(), "{relation:?}");
    }
    let schema = toolwright_tools::Schema::compile(schema).unwrap();
    let order = |status: &str, parts: Vec<serde_json::Value>| json!({ "status": status, "customerId": "c", "soldProductIds": ["p"], "parts": parts });
    assert_eq!(schema.check(&order("open", vec![order("paid", vec![])])), Ok(()));
    assert!(schema.check(&order("lost", vec![])).is_err());
}

#[test]
fn fields_with_relation_attribute_become_relations() {
    let relations = PurchaseOrder::type_definition().unwrap().relations;
    assert_eq!(
        serde_json::to_value(relations).unwrap(),
        json!([
            { "name": "customer", "type": "Customer", "field": "customerId", "many": false },
            { "name": "buyer", "type": "Person", "field": "boughtBy", "many": false },
            { "name": "soldProducts", "type": "Product", "field": "soldProductIds", "many": true },
        ])
    );
    assert!(Plain::type_definition().unwrap().relations.is_empty());
}

#[test]
fn struct_without_attributes_has_default_names_and_no_category() {
    let definition = Plain::type_definition().unwrap();
    assert_eq!((definition.ref_name.as_str(), definition.plural().as_str()), ("Plain", "plains"));
    assert_eq!((definition.description, definition.category), (None, None));
}
