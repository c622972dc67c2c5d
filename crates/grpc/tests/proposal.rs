//! The proposed tools for a server's methods: names, schemas and side effects.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test stops at the first unexpected value")]

use base64::Engine;
use prost_reflect::DescriptorPool;
use serde_json::{Value, json};
use toolwright_grpc::{GrpcImportOptions, parse_descriptor_set, propose_tools};
use toolwright_testkit::grpc::Inventory;

fn inventory() -> DescriptorPool {
    parse_descriptor_set(&base64::engine::general_purpose::STANDARD.encode(Inventory::descriptors().unwrap())).unwrap()
}

#[test]
fn every_grpc_method_without_client_streaming_becomes_a_tool() {
    let options = GrpcImportOptions { provider: "stock".into(), ..GrpcImportOptions::default() };
    let proposal = propose_tools(&inventory(), &options);
    let tools: Vec<Value> = proposal.tools.iter().map(|tool| serde_json::to_value(tool).unwrap()).collect();
    let summary: Vec<Value> = tools
        .iter()
        .map(|tool| {
            json!([
                tool["refName"],
                tool["invocation"]["path"],
                tool["sideEffects"],
                tool["idempotent"],
                tool["description"]
            ])
        })
        .collect();
    insta::assert_json_snapshot!("methods", summary);
    assert_eq!(proposal.skipped.len(), 1);
    assert!(proposal.skipped[0].method.ends_with("Inventory/Upload"), "{:?}", proposal.skipped);
    insta::assert_json_snapshot!("put_item_input", tools[1]["inputJsonSchema"]);
    insta::assert_json_snapshot!("list_items_output", tools[2]["outputJsonSchema"]);
}

#[test]
fn only_listed_grpc_services_become_tools_and_an_empty_prefix_is_omitted() {
    let names = |services: &[&str], prefix: &str| -> Vec<String> {
        let services = services.iter().map(|name| (*name).to_owned()).collect();
        let options = GrpcImportOptions { provider: "stock".into(), services, prefix: Some(prefix.into()) };
        propose_tools(&inventory(), &options).tools.iter().map(|tool| tool.ref_name.to_string()).collect()
    };
    assert_eq!(names(&["toolwright.fixture.v1.Inventory"], "")[0], "GetItem");
    assert!(names(&["other.Service"], "").is_empty());
}

#[test]
fn invalid_descriptor_set_is_rejected_and_an_empty_set_has_no_services() {
    for (text, expected) in [("?", "base64"), ("AAAA", "is invalid"), ("", "")] {
        match parse_descriptor_set(text) {
            Err(error) => assert!(error.to_string().contains(expected), "{error}"),
            Ok(pool) => assert!(text.is_empty() && pool.services().len() == 0),
        }
    }
}
