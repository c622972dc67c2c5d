//! The demo's own records: customers and orders that the server keeps itself, and an agent that works on them.
//!
//! Types are defined first, then their records are imported, then the agent finds its tools.

use serde_json::Value;

/// A type of the demo, and its records.
pub struct Entity {
    /// The body of the request that defines the type.
    pub definition: Value,
    /// Its name.
    pub name: &'static str,
    /// Its records as CSV.
    pub records: &'static str,
}

/// The types, those that others refer to first.
pub fn types() -> [Entity; 2] {
    [
        Entity {
            definition: parse(include_str!("../demo/type-customer.json")),
            name: "Customer",
            records: include_str!("../demo/customers.csv"),
        },
        Entity {
            definition: parse(include_str!("../demo/type-order.json")),
            name: "Order",
            records: include_str!("../demo/orders.csv"),
        },
    ]
}

/// The agent that answers from the records.
pub fn agent() -> Value {
    parse(include_str!("../demo/agent-order-desk.json"))
}

#[expect(clippy::expect_used, reason = "the files are part of the program; the test of the demo reads all of them")]
fn parse(text: &str) -> Value {
    serde_json::from_str(text).expect("the files in demo/ are JSON")
}
