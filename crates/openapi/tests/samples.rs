//! Real descriptions, far too large for this repository: `scripts/openapi-samples` brings one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use toolwright_openapi::{Document, Filter, Options, Plan, plan};
use toolwright_tools::export::{Format, export};
use toolwright_tools::{CompiledTool, Schema, builtin};

fn sample() -> Document {
    let path = std::env::var("TOOLWRIGHT_TEST_OPENAPI_SAMPLE")
        .expect("TOOLWRIGHT_TEST_OPENAPI_SAMPLE is not set; run through `make test` or `scripts/openapi-samples`");
    Document::parse(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn planned(document: &Document) -> Plan {
    let options = Options {
        provider: "sample".parse().unwrap(),
        prefix: None,
        base_url: Some("https://api.example.com".into()),
        came_from: None,
        only: Filter::default(),
    };
    plan(document, &options).unwrap()
}

#[test]
fn every_tool_of_a_large_api_can_be_saved_called_and_shown_to_any_provider() {
    let plan = planned(&sample());
    assert!(plan.operations > 500, "{}", plan.operations);
    assert!(plan.skipped.len() * 50 < plan.operations, "{:?}", plan.skipped);
    let library = builtin::library();
    for planned in plan.tools {
        let name = planned.definition.ref_name.clone();
        let document = toolwright_types::Document::unsaved(name.clone(), planned.definition);
        let tool = CompiledTool::compile(document, None, &library).unwrap_or_else(|issues| panic!("{name}: {issues}"));
        for format in Format::ALL {
            let shown = export(&tool, format);
            let schema = ["/parameters", "/schema", "/inputSchema", "/function/parameters", "/input_schema"];
            let schema = schema.iter().find_map(|place| shown.pointer(place)).unwrap();
            if format != Format::Gemini {
                Schema::compile(schema.clone()).unwrap_or_else(|error| panic!("{name} as {format}: {error:?}"));
            }
            assert!(schema["properties"].is_object(), "{name} as {format}");
        }
    }
}
