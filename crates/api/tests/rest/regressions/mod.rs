//! Regression tests for combinations of features: delegation with approvals, concurrent messages, deeply nested values,
//! and two servers.

mod agents;
mod conversations;
mod delegation;
mod nesting;

use serde_json::{Value, json};

fn str_field<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_else(|| panic!("no {field} in {value}"))
}

fn delegate_call(agent: &str) -> Value {
    json!({ "name": agent, "arguments": { "task": "x" } })
}
