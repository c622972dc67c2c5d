//! The demo's entity types and records (customers and orders, which the server stores) and an agent that uses them.
//!
//! They must be loaded in this order: types, records, agent. The agent comes last because its tools are generated from
//! the types.

use serde_json::Value;

/// An entity type of the demo and its records.
pub struct DemoEntityType {
    /// The body of the request that defines the type.
    pub definition: Value,
    /// The name of the type.
    pub name: &'static str,
    /// The records as CSV.
    pub records: &'static str,
}

/// Returns the entity types. A type comes after the types that it refers to.
pub fn types() -> [DemoEntityType; 2] {
    [
        DemoEntityType {
            definition: parse(include_str!("../demo/type-customer.json")),
            name: "Customer",
            records: include_str!("../demo/customers.csv"),
        },
        DemoEntityType {
            definition: parse(include_str!("../demo/type-order.json")),
            name: "Order",
            records: include_str!("../demo/orders.csv"),
        },
    ]
}

/// Returns the definition of the agent that answers from the records.
pub fn agent() -> Value {
    parse(include_str!("../demo/agent-order-desk.json"))
}

#[expect(clippy::expect_used, reason = "the files are compiled in, and the demo test parses all of them")]
fn parse(text: &str) -> Value {
    serde_json::from_str(text).expect("the files in demo/ are JSON")
}
