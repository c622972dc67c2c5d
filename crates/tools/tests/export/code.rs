//! Code that calls exported tools. `scripts/check-snippets` runs it.

use serde_json::{Value, json};
use toolwright_tools::export::{ExportFormat, McpServer, code_snippets, export_named};

use super::{compile, compile_with_provider, fixtures, with};

fn get_deal() -> Value {
    json!({
        "refName": "hubspot/get-deal",
        "description": "Reads a deal. \"\"\" ${x} `y` \\",
        "toolType": "EXTERNAL_REST",
        "invocation": { "path": "https://crm.example.com/deals/${param.id}" },
        "inputSchema": { "id": { "type": "string", "description": "The id.", "required": true } },
        "version": "1.2.0",
    })
}

#[test]
fn snippets_contain_the_tools_in_their_format() {
    let tools = [compile(get_deal()), compile(fixtures().remove(0))];
    for format in ExportFormat::ALL.into_iter().filter(|format| *format != ExportFormat::Mcp) {
        let snippets = code_snippets(&tools, format);
        let exported: Value = tools.iter().map(|tool| export_named(tool, format)).collect();
        let names: Value = json!({ tools[0].exported_name(): "hubspot/get-deal", tools[1].exported_name(): tools[1].definition.ref_name });
        assert_eq!(constant_of_typescript(&snippets.typescript, "TOOLS"), exported, "{format}");
        assert_eq!(constant_of_typescript(&snippets.typescript, "REF_NAMES"), names, "{format}");
        assert_eq!(constant_of_python(&snippets.python, "TOOLS"), exported, "{format}");
        assert_eq!(constant_of_python(&snippets.python, "REF_NAMES"), names, "{format}");
    }
}

#[test]
fn snippets_match_their_snapshots() {
    let tools = [compile(get_deal())];
    for (name, format) in [("tools", ExportFormat::OpenAi), ("langchain", ExportFormat::LangChain)] {
        let snippets = code_snippets(&tools, format);
        insta::assert_snapshot!(format!("{name}_typescript"), snippets.typescript);
        insta::assert_snapshot!(format!("{name}_python"), snippets.python);
    }
    let files = McpServer::of_tool(&tools[0]).files();
    insta::assert_snapshot!("mcp_typescript", files.typescript);
    insta::assert_snapshot!("mcp_python", files.python);
    insta::assert_snapshot!("mcp_package", format!("{}{}", files.package_json, files.claude_desktop_config));
}

#[test]
fn mcp_server_has_the_name_and_version_of_its_tool() {
    let tool = compile(get_deal());
    let server = McpServer::of_tool(&tool);
    assert_eq!((server.name.as_str(), server.version.as_str()), ("toolwright-hubspot-get-deal", "1.2.0"));
    assert_eq!(server.tools, [export_named(&tool, ExportFormat::Mcp)]);
    assert_eq!((server.capabilities(), server.resources.len()), (json!({ "tools": {} }), 0));
    assert_eq!(McpServer::of_tools([&tool, &tool]).name, "toolwright");
}

#[test]
fn reference_data_of_the_provider_becomes_resources() {
    let source = |name: &str| json!({ "dataType": name, "toolRef": "list", "extractionPath": "$", "idField": "id", "nameField": "name" });
    let provider = json!({ "refName": "acme/crm", "baseUrl": "http://localhost", "referenceData": [source("deal_stages"), source("users")] });
    let tool = with(get_deal(), json!({ "providerRef": "acme/crm", "invocation": { "path": "/deals" } }));
    let tool = compile_with_provider(tool, provider);
    let server = McpServer::of_tools([&tool, &tool]);
    let uris: Vec<&str> = server.resources.iter().map(|resource| resource.uri.as_str()).collect();
    assert_eq!(uris, ["toolwright://acme%2Fcrm/deal_stages", "toolwright://acme%2Fcrm/users"]);
    assert_eq!(server.capabilities(), json!({ "tools": {}, "resources": {} }));
    let resources = constant_of_typescript(&server.files().typescript, "RESOURCES");
    assert_eq!(resources[0]["mimeType"], "application/json");
    assert_eq!(resources, constant_of_python(&server.files().python, "RESOURCES"));
}

/// Reads the value of a constant, whose declaration ends at the first line that ends with `;`.
fn constant_of_typescript(code: &str, name: &str) -> Value {
    let start = code.split_once(&format!("const {name}: ")).unwrap().1;
    let value = start.split_once(" = ").unwrap().1;
    serde_json::from_str(value.split_once(";\n").unwrap().0).unwrap()
}

fn constant_of_python(code: &str, name: &str) -> Value {
    let start = code.split_once(&format!("\n{name} = json.loads(r\"\"\"")).unwrap().1;
    serde_json::from_str(start.split_once("\"\"\")\n").unwrap().0).unwrap()
}
