//! Descriptions of agentic tools, and their exports.

use serde_json::{Value, json};
use toolwright_tools::export::{ExportFormat, export, export_named};

use super::{compile, with};

/// Returns the definition of an agentic tool that selects and updates deals.
fn deal_manager(more: Value) -> Value {
    let definition = json!({
        "refName": "hubspot-deal-manager",
        "name": "HubSpot Deal Manager",
        "description": "Manages HubSpot deals using natural language commands.",
        "toolType": "AGENTIC",
        "agentic": {
            "executionMode": "deterministic",
            "embeddedLLMConfig": { "provider": "anthropic", "model": "claude-sonnet-4" },
            "systemPrompt": "You are the secret instructions.",
            "toolAllocation": { "sequence": [
                { "step": 1, "actionSlug": "hubspot/search-deals", "purpose": "Search for deals." },
                { "step": 2, "actionSlug": "hubspot/batch-update-deals@^1" },
            ] },
        },
    });
    with(definition, more)
}

fn researcher(more: Value) -> Value {
    let tools = json!([{ "actionSlug": "google/search" }, { "actionId": "tool_01JBBBBBBBBBBBBBBBBBBBBBBB" }]);
    let definition = json!({
        "refName": "research/assistant",
        "description": "An assistant for market research",
        "toolType": "AGENTIC",
        "agentic": { "executionMode": "agentic", "toolAllocation": { "availableTools": tools } },
        "inputSchema": {
            "task": { "type": "string", "description": "What to find out", "required": true },
            "depth": { "type": "string", "enumValues": ["quick", "thorough"], "defaultValue": "quick" },
            "max_sources": { "type": "integer" },
        },
        "outputSchema": {
            "report": { "type": "string", "description": "The findings in Markdown.", "required": true },
            "sources": { "type": "array", "description": "The URLs." },
        },
        "examples": [{ "scenario": "s", "input": { "task": "Find the prices of \"Acme\"" } }],
    });
    with(definition, more)
}

#[test]
fn description_of_an_agentic_tool_lists_its_operations_inputs_and_outputs() {
    insta::assert_snapshot!("description_deterministic", compile(deal_manager(json!({}))).description());
    insta::assert_snapshot!("description_agentic", compile(researcher(json!({}))).description());
}

#[test]
fn generated_description_of_an_agentic_tool_starts_with_use_this_tool_to() {
    for (description, expected) in [
        ("Manages deals", "Use this tool to manage deals."),
        ("Manage deals.", "Use this tool to manage deals."),
        ("Searches the web! Cites its sources.", "Use this tool to search the web! Cites its sources."),
        ("Summarizes a text", "Use this tool to summarize a text."),
        ("Queries orders", "Use this tool to query orders."),
        ("Deploys services", "Use this tool to do the following: Deploys services."),
        ("Reports", "Use this tool to do the following: Reports."),
        ("CRM assistant", "Use this tool to do the following: CRM assistant."),
        ("Use this tool to greet.", "Use this tool to greet."),
        ("  ", "Use this tool to perform tasks of \"HubSpot Deal Manager\" in natural language."),
    ] {
        let tool = compile(deal_manager(json!({ "description": description })));
        let first = tool.description().split(" It performs").next().unwrap();
        assert_eq!(first, expected);
    }
}

#[test]
fn long_description_replaces_the_generated_text() {
    let text = "Use this tool to manage deals.\n\n# Required inputs:\n- task";
    let tool = compile(deal_manager(json!({ "longDescription": text })));
    assert_eq!(tool.description(), text);
    assert_eq!(compile(deal_manager(json!({ "longDescription": " " }))).description().lines().count(), 7);
}

#[test]
fn description_of_an_agentic_tool_has_a_maximum_length() {
    let properties: Value =
        (0..40).map(|n| (format!("p{n}"), json!({ "type": "string", "description": "x".repeat(500) }))).collect();
    let schema = json!({ "type": "object", "properties": properties });
    let long = "Manages deals. ".repeat(200);
    let tool = compile(deal_manager(json!({ "description": long, "inputJsonSchema": schema })));
    assert_eq!(tool.description().chars().count(), 2500);
    assert!(tool.description().contains("# Optional inputs (include when the task needs them):\n- p0: xxx"));
    assert!(tool.description().ends_with("..."));
    let universal = export(&tool, ExportFormat::Universal)["description"].as_str().unwrap().to_owned();
    assert_eq!((universal.chars().count(), universal.ends_with("...")), (2000, true));
    let written = compile(deal_manager(json!({ "longDescription": "é".repeat(3000) })));
    assert_eq!(written.description().chars().count(), 2500);
    assert_eq!(written.warnings(), ["callers see only 2500 characters of `longDescription`"]);
}

#[test]
fn every_format_shows_the_description_and_hides_the_model_and_the_tools() {
    let tool = compile(deal_manager(json!({})));
    for format in ExportFormat::ALL {
        let exported = export_named(&tool, format);
        let function = exported.get("function").unwrap_or(&exported);
        assert_eq!(function["name"], "hubspot_deal_manager", "{format}");
        assert_eq!(function["description"], tool.description(), "{format}");
        let text = exported.to_string();
        for hidden in ["claude", "anthropic", "secret instructions", "hubspot/", "deterministic"] {
            assert!(!text.contains(hidden), "{format} shows `{hidden}`: {text}");
        }
    }
    insta::assert_json_snapshot!("agentic_universal", export_named(&tool, ExportFormat::Universal));
}

#[test]
fn tool_that_is_not_agentic_keeps_its_own_description() {
    let echo = json!({ "refName": "e", "toolType": "FUNCTION", "invocation": { "path": "echo" } });
    for (more, expected) in [
        (json!({ "description": "Echoes.", "longDescription": "Notes." }), "Echoes."),
        (json!({ "longDescription": "Notes." }), "Notes."),
        (json!({}), "e"),
    ] {
        assert_eq!(compile(with(echo.clone(), more)).description(), expected);
    }
}
