//! Checks the demo's definitions by running their examples against the fixture systems.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a panic fails the test")]

mod support;

use std::collections::BTreeSet;

use reqwest::Method;
use serde_json::{Map, Value, json};
use support::{Api, answer};
use toolwright_testkit::definitions::{
    BaseUrls, DefinitionKind, DemoDefinition, HUBSPOT_TOKEN, ORDERS_KEY, SECRETS, WEB_KEY, demo,
};
use toolwright_testkit::{Crm, LOOPBACK, Orders, Web};

const URLS: BaseUrls<'_> =
    BaseUrls { crm: "http://crm.example", orders: "http://orders.example", web: "http://web.example" };

fn bodies(kind: DefinitionKind) -> Vec<Value> {
    let all = demo(URLS);
    all.into_iter().filter(|demo| demo.kind == kind).map(|demo| demo.body).collect()
}

fn keys(value: &Value) -> impl Iterator<Item = &str> {
    value.as_object().into_iter().flat_map(Map::keys).map(String::as_str)
}

#[test]
fn demo_providers_come_before_tools_and_every_tool_has_a_provider() {
    let all = demo(URLS);
    assert!(all.is_sorted_by_key(|demo| demo.kind != DefinitionKind::Provider));
    let names: BTreeSet<_> = all.iter().map(|demo| demo.body["refName"].as_str().unwrap()).collect();
    assert_eq!(names.len(), 24);
    for DemoDefinition { body, .. } in all.iter().filter(|demo| demo.kind == DefinitionKind::Tool) {
        assert!(names.contains(body["providerRef"].as_str().unwrap()), "{}", body["refName"]);
    }
}

#[test]
fn demo_providers_have_base_urls_and_refer_to_known_secrets() {
    let providers = bodies(DefinitionKind::Provider);
    assert_eq!(providers[0]["baseUrl"], "http://crm.example");
    assert_eq!(providers[1]["baseUrl"], "http://orders.example");
    assert_eq!(providers[2]["baseUrl"], "http://web.example");
    assert!(!json!([providers, bodies(DefinitionKind::Tool)]).to_string().contains("{{"));
    for provider in &providers {
        let named = provider["auth"]["secretRef"].as_str().unwrap();
        assert!(SECRETS.iter().any(|secret| secret.name == named));
    }
    assert!(SECRETS.iter().all(|secret| secret.value.len() >= 16));
}

/// Agentic tools come after the tools that they use. Their reference data must be offered by the named provider.
#[test]
fn agentic_tools_use_earlier_tools_and_existing_reference_data_and_have_valid_example_inputs() {
    let providers = bodies(DefinitionKind::Provider);
    let all = demo(URLS);
    let at = |name: &Value| all.iter().position(|demo| demo.body["refName"] == *name);
    for (position, demo) in all.iter().enumerate().filter(|(_, demo)| demo.kind == DefinitionKind::AgenticTool) {
        let (name, agentic) = (&demo.body["refName"], &demo.body["agentic"]);
        let allocation = &agentic["toolAllocation"];
        let used =
            ["sequence", "availableTools"].map(|field| allocation[field].as_array().cloned().unwrap_or_default());
        let used: Vec<Value> = used.concat().into_iter().map(|entry| entry["actionSlug"].clone()).collect();
        assert!(used.len() >= 2, "{name}");
        for tool in used {
            assert!(at(&tool).is_some_and(|found| found < position), "{name} uses {tool}");
        }
        for selected in agentic["contextConfig"]["referenceData"].as_array().into_iter().flatten() {
            let provider = providers.iter().find(|provider| provider["refName"] == selected["integrationId"]).unwrap();
            for data_type in selected["dataTypes"].as_array().unwrap() {
                let mut sources = provider["referenceData"].as_array().unwrap().iter();
                assert!(sources.any(|source| source["dataType"] == *data_type), "{name} uses {data_type}");
            }
        }
        let input_schema = jsonschema::validator_for(&demo.body["inputJsonSchema"]).unwrap();
        for example in demo.body["examples"].as_array().unwrap() {
            assert!(input_schema.is_valid(&example["input"]), "{name}: {example}");
        }
    }
}

/// The server rejects definitions with unknown fields, so the tools of the demo must not have any.
#[test]
fn demo_tools_have_only_known_fields() {
    let tool: BTreeSet<&str> = [
        "refName",
        "name",
        "description",
        "longDescription",
        "category",
        "tags",
        "selectorCategory",
        "toolType",
        "providerRef",
        "invocation",
        "sideEffects",
        "idempotent",
        "requiresConfirmation",
        "verifyToolRef",
        "cache",
        "cacheTtlSeconds",
        "estimatedLatency",
        "costHint",
        "errorHandling",
        "inputJsonSchema",
        "outputJsonSchema",
        "examples",
    ]
    .into();
    let invocation: BTreeSet<&str> =
        ["method", "path", "query", "contentType", "bodyTemplate", "responseMapping"].into();
    for body in bodies(DefinitionKind::Tool) {
        assert!(keys(&body).all(|key| tool.contains(key)), "{}", body["refName"]);
        assert!(keys(&body["invocation"]).all(|key| invocation.contains(key)), "{}", body["refName"]);
        for example in body["examples"].as_array().unwrap() {
            assert!(keys(example).all(|key| ["scenario", "input", "output"].contains(&key)));
        }
    }
}

#[test]
fn every_parameter_that_a_demo_tool_uses_is_in_its_input_schema() {
    for body in bodies(DefinitionKind::Tool) {
        let declared = &body["inputJsonSchema"]["properties"];
        let templates = body["invocation"].to_string();
        for rest in templates.split("${param.").skip(1) {
            let (name, _) = rest.split_once('}').unwrap();
            assert!(declared.get(name).is_some(), "{} uses `{name}`", body["refName"]);
        }
    }
}

#[tokio::test]
async fn every_demo_tool_example_succeeds_and_matches_the_output_schema() {
    let crm = Crm::builder().start(LOOPBACK).await.unwrap();
    let orders = Orders::builder().start(LOOPBACK).await.unwrap();
    let crm_api = Api::new(crm.base_url(), "authorization", format!("Bearer {HUBSPOT_TOKEN}"));
    let web = Web::builder().start(LOOPBACK).await.unwrap();
    let orders_api = Api::new(orders.base_url(), "x-api-key", ORDERS_KEY);
    let web_api = Api::new(web.base_url(), "authorization", format!("Bearer {WEB_KEY}"));

    for tool in bodies(DefinitionKind::Tool) {
        let input_schema = jsonschema::validator_for(&tool["inputJsonSchema"]).unwrap();
        let output_schema = jsonschema::validator_for(&tool["outputJsonSchema"]).unwrap();
        let api = match tool["providerRef"].as_str().unwrap() {
            "hubspot" => &crm_api,
            "web" => &web_api,
            _ => &orders_api,
        };
        for example in tool["examples"].as_array().unwrap() {
            let scenario = &example["scenario"];
            assert!(input_schema.is_valid(&example["input"]), "{scenario}");
            let Some(output) = execute(api, &tool["invocation"], &example["input"]).await else { continue };
            assert!(output_schema.is_valid(&output), "{scenario}: {output}");
            if let Some(expected) = example.get("output") {
                assert_eq!(&output, expected, "{scenario}");
            }
        }
    }
    let writes = |side_effects: &str| {
        let tools = bodies(DefinitionKind::Tool).into_iter();
        tools.filter(|tool| tool["sideEffects"] == side_effects).count()
    };
    assert_eq!((writes("writes"), writes("reads")), (7, 10));
    assert_eq!((crm.writes(), orders.writes()), (8, 2));
    assert_eq!(web.audit().reads, 5);
}

/// Sends the request of a tool. Implements only the parts of the HTTP backend that the tools of the demo need. A
/// template that consists of one expression keeps the type of the value, and a missing value becomes null. Returns
/// `None` if the response mapping is an expression, because this function cannot evaluate expressions.
async fn execute(api: &Api, invocation: &Value, input: &Value) -> Option<Value> {
    let method: Method = invocation["method"].as_str().unwrap().parse().unwrap();
    let path = render(&invocation["path"], input);
    let query: Vec<(String, String)> = keys(&invocation["query"])
        .map(|name| (name.to_owned(), render(&invocation["query"][name], input)))
        .filter(|(_, value)| !value.is_null())
        .map(|(name, value)| (name, text(&value)))
        .collect();
    let mut request = api.request(method, path.as_str().unwrap()).query(&query);
    if let Some(template) = invocation.get("bodyTemplate") {
        request = request.json(&render(template, input));
    }
    let (status, body) = answer(request).await;
    assert!(status < 300, "{path}: {status} {body}");
    match invocation.get("responseMapping").and_then(Value::as_str) {
        None => Some(body),
        Some(mapping) => mapping.strip_prefix("$.").map(|field| body[field].clone()),
    }
}

fn render(template: &Value, input: &Value) -> Value {
    match template {
        Value::Object(fields) => {
            let rendered = fields.iter().map(|(name, field)| (name.clone(), render(field, input)));
            Value::Object(rendered.collect())
        }
        Value::String(template) => match template.split_once("${param.") {
            None => json!(template),
            Some((before, rest)) => {
                let (name, after) = rest.split_once('}').unwrap();
                let value = input.get(name).cloned().unwrap_or_default();
                if before.is_empty() && after.is_empty() {
                    return value;
                }
                render(&json!(format!("{before}{}{after}", text(&value))), input)
            }
        },
        other => panic!("unsupported template: {other}"),
    }
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
