//! Tests tool exports, the evaluation of selectors and expressions, and the documentation pages of error codes.

use serde_json::json;

use crate::harness::Server;

crate::on_both_databases!(
    tool_can_be_exported_in_six_formats,
    jsonpath_selectors_and_expressions_are_evaluated_over_rest,
    every_error_code_has_a_documentation_page
);

async fn tool_can_be_exported_in_six_formats(server: Server) {
    let schema = json!({ "type": "object", "properties": { "q": { "type": "string", "description": "what to find" } }, "required": ["q"] });
    let tool = json!({ "refName": "crm/search-deals", "description": "Finds deals.", "toolType": "FUNCTION", "invocation": { "path": "echo" }, "inputJsonSchema": schema });
    server.post("tools", tool).await.expect(201);
    for (format, schema_at) in [
        ("universal", "/parameters"),
        ("langchain", "/schema"),
        ("mcp", "/inputSchema"),
        ("openai", "/function/parameters"),
        ("anthropic", "/input_schema"),
        ("gemini", ""),
    ] {
        let exported = server.get(&format!("tools/crm%2Fsearch-deals/export/{format}")).await.expect(200);
        assert!(exported.to_string().contains("Finds deals."), "{format}: {exported}");
        let schema = exported.pointer(schema_at).unwrap_or_else(|| panic!("{format}: {exported}"));
        assert!(schema.to_string().contains("what to find"), "{format}: {exported}");
    }
    assert_eq!(server.get("tools/echo/export/mcp").await.expect(200)["annotations"]["readOnlyHint"], true);
    server.get("tools/nothing/export/mcp").await.problem(404, "not-found");
}

async fn jsonpath_selectors_and_expressions_are_evaluated_over_rest(server: Server) {
    let document = json!({ "orders": [{ "id": 1, "total": 50 }, { "id": 2, "total": 150 }] });
    let nodes = server
        .post("jsonpath", json!({ "selector": "$.orders[?@.total > 100].id", "document": document }))
        .await
        .expect(200);
    assert_eq!(nodes, json!({ "nodes": [2] }));
    for (expression, value) in
        [("${validate.errors.length > 0}", json!(true)), ("1 + 0.5", json!(1.5)), ("${input.missing}", json!(null))]
    {
        let scope = json!({ "validate": { "errors": ["x"] }, "input": {} });
        let evaluated =
            server.post("expressions/evaluate", json!({ "expression": expression, "scope": scope })).await.expect(200);
        assert_eq!(evaluated["value"], value, "{expression}");
        assert_eq!(evaluated["warnings"].as_array().unwrap().is_empty(), !value.is_null(), "{evaluated}");
    }
}

async fn every_error_code_has_a_documentation_page(server: Server) {
    for code in toolwright_api::Code::ALL {
        let page = server.with_key("").get(&format!("/errors/{}", code.as_str())).await;
        assert!(page.text.starts_with(&format!("# {}\n", code.as_str())), "{}", page.text);
        assert!(page.text.contains("## What to do"));
    }
    server.get("/errors/nothing").await.problem(404, "not-found");
}

/// The index has a row for each code, and the folder has pages only for existing codes.
#[test]
fn index_of_error_codes_is_complete() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/errors");
    let index = std::fs::read_to_string(format!("{folder}/README.md")).unwrap();
    for code in toolwright_api::Code::ALL {
        let row = format!("| [{0}]({0}.md) |", code.as_str());
        assert!(index.contains(&row), "docs/errors/README.md has no row `{row}`");
    }
    for entry in std::fs::read_dir(folder).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let code = name.strip_suffix(".md").unwrap();
        assert!(code == "README" || toolwright_api::Code::parse(code).is_some(), "no code has the page `{name}`");
    }
}
