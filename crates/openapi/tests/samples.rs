//! Imports a real API document. `scripts/openapi-samples` downloads it, because it is too large for this repository.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops at the first unexpected value"
)]

use toolwright_openapi::{OpenApiDocument, OpenApiImportOptions, OpenApiProposal, OperationFilter, propose_tools};
use toolwright_tools::export::{ExportFormat, export};
use toolwright_tools::{CompiledTool, Schema, builtin};

fn sample() -> OpenApiDocument {
    let path = std::env::var("TOOLWRIGHT_TEST_OPENAPI_SAMPLE")
        .expect("TOOLWRIGHT_TEST_OPENAPI_SAMPLE is not set; run through `make test` or `scripts/openapi-samples`");
    OpenApiDocument::parse(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn propose(document: &OpenApiDocument) -> OpenApiProposal {
    let options = OpenApiImportOptions {
        provider: "sample".parse().unwrap(),
        prefix: None,
        base_url: Some("https://api.example.com".into()),
        source_url: None,
        document_name: "openapi.json".to_owned(),
        filter: OperationFilter::default(),
    };
    propose_tools(document, &options).unwrap()
}

#[test]
fn every_tool_of_the_sample_api_compiles_and_exports_to_every_format() {
    let proposal = propose(&sample());
    assert!(proposal.operations > 500, "{}", proposal.operations);
    assert!(proposal.skipped.len() * 50 < proposal.operations, "{:?}", proposal.skipped);
    let library = builtin::library();
    for proposed in proposal.tools {
        let name = proposed.definition.ref_name.clone();
        let document = toolwright_types::Document::unsaved(name.clone(), proposed.definition);
        let tool = CompiledTool::compile(document, None, &library).unwrap_or_else(|issues| panic!("{name}: {issues}"));
        for format in ExportFormat::ALL {
            let exported = export(&tool, format);
            let pointers = ["/parameters", "/schema", "/inputSchema", "/function/parameters", "/input_schema"];
            let schema = pointers.iter().find_map(|pointer| exported.pointer(pointer)).unwrap();
            if format != ExportFormat::Gemini {
                Schema::compile(schema.clone()).unwrap_or_else(|error| panic!("{name} as {format}: {error:?}"));
            }
            assert!(schema["properties"].is_object(), "{name} as {format}");
        }
    }
}
