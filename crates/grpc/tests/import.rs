//! Methods as tools: names, schemas, effects.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use base64::Engine;
use prost_reflect::DescriptorPool;
use serde_json::{Value, json};
use toolwright_grpc::{ImportOptions, pool, tools};
use toolwright_testkit::grpc::Inventory;

fn described() -> DescriptorPool {
    pool(&base64::engine::general_purpose::STANDARD.encode(Inventory::descriptors().unwrap())).unwrap()
}

#[test]
fn every_method_that_takes_one_message_is_a_tool() {
    let imported = tools(&described(), &ImportOptions { provider: "stock".into(), ..ImportOptions::default() });
    let written: Vec<Value> = imported.tools.iter().map(|tool| serde_json::to_value(tool).unwrap()).collect();
    let summary: Vec<Value> = written
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
    assert_eq!(imported.skipped.len(), 1);
    assert!(imported.skipped[0].0.ends_with("Inventory/Upload"), "{:?}", imported.skipped);
    insta::assert_json_snapshot!("input_of_put_item", written[1]["inputJsonSchema"]);
    insta::assert_json_snapshot!("output_of_list_items", written[2]["outputJsonSchema"]);
}

#[test]
fn services_and_prefix_can_be_chosen() {
    let names = |services: &[&str], prefix: &str| -> Vec<String> {
        let services = services.iter().map(|name| (*name).to_owned()).collect();
        let options = ImportOptions { provider: "stock".into(), services, prefix: Some(prefix.into()) };
        tools(&described(), &options).tools.iter().map(|tool| tool.ref_name.to_string()).collect()
    };
    assert_eq!(names(&["toolwright.fixture.v1.Inventory"], "")[0], "GetItem");
    assert!(names(&["other.Service"], "").is_empty());
}

#[test]
fn what_is_no_descriptor_set_is_refused() {
    for (text, because) in [("?", "base64"), ("AAAA", "cannot be read"), ("", "")] {
        match pool(text) {
            Err(error) => assert!(error.to_string().contains(because), "{error}"),
            Ok(pool) => assert!(text.is_empty() && pool.services().len() == 0),
        }
    }
}
