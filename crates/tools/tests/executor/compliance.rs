//! The compliance checklist (AGN-005 §8) for all built-in functions and all definitions of the demo.

use std::collections::BTreeSet;
use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value, json};
use toolwright_testkit::definitions::{self, BaseUrls, DefinitionKind};
use toolwright_testkit::{Crm, LOOPBACK, Orders, Web, crm, orders};
use toolwright_tools::{CompiledTool, ToolMatch, Toolbox, builtin};
use toolwright_types::{SideEffects, ToolType};

use crate::properties;
use crate::world::World;

struct AllTools {
    world: World,
    crm: crm::Handle,
    orders: orders::Handle,
}

impl AllTools {
    /// Starts the fixture with every tool and the servers that the tools call.
    async fn start() -> Self {
        let mut world = World::start().await;
        let crm = Crm::builder().start(LOOPBACK).await.unwrap();
        let orders = Orders::builder().start(LOOPBACK).await.unwrap();
        let web = Web::builder().start(LOOPBACK).await.unwrap();
        for secret in definitions::SECRETS {
            world.secret(secret.name, secret.value);
        }
        for tool in builtin::tools(&builtin::library()).into_values() {
            world.catalog.put(tool);
        }
        let (crm_url, orders_url, web_url) = (crm.base_url(), orders.base_url(), web.base_url());
        for demo in definitions::demo(BaseUrls { crm: &crm_url, orders: &orders_url, web: &web_url }) {
            match demo.kind {
                DefinitionKind::Provider => drop(world.provider(demo.body)),
                DefinitionKind::Tool => drop(world.tool(demo.body)),
                // Agentic tools start runs, and these tests have no runs.
                DefinitionKind::AgenticTool | DefinitionKind::Fragment | DefinitionKind::Agent => {}
            }
        }
        world.cx.resources.toolbox = Some(Arc::new(OneTool));
        Self { world, crm, orders }
    }

    fn tools(&self) -> Vec<Arc<CompiledTool>> {
        self.world.catalog.all()
    }
}

/// A toolbox with one tool. Agents provide such toolboxes to their calls.
#[derive(Debug)]
struct OneTool;

impl Toolbox for OneTool {
    fn search(&self, _query: &str, _limit: usize) -> Vec<ToolMatch> {
        vec![ToolMatch { name: "sayHello".into(), description: "Greets someone.".into() }]
    }
}

/// Returns an example input. The inputs of built-in functions are listed here; the demo's tools have examples in their
/// definitions.
fn example(tool: &CompiledTool) -> Value {
    match tool.definition.ref_name.as_str() {
        "echo" => json!({ "any": ["thing"] }),
        "sayHello" => json!({ "personName": "Ada" }),
        "calculator" => json!({ "expression": "2 * (3 + 4) ^ 2" }),
        "current_time" => json!({ "timezone": "Europe/Berlin" }),
        "json_query" => json!({ "selector": "$.a[?@ > 1]", "document": { "a": [1, 2, 3] } }),
        "search_tools" => json!({ "query": "greets people" }),
        "http_request" => json!({ "url": "http://127.0.0.1:1/" }),
        name => match tool.definition.examples.first() {
            Some(example) => Value::Object(example.input.clone()),
            None => panic!("{name} has no example; add one here or to its definition"),
        },
    }
}

#[tokio::test]
async fn every_tool_has_a_unique_name_and_a_description() {
    let all_tools = AllTools::start().await;
    let tools = all_tools.tools();
    assert!(tools.len() >= 7 + 11, "{}", tools.len());
    let names: BTreeSet<String> = tools.iter().map(|tool| tool.definition.ref_name.key()).collect();
    assert_eq!(names.len(), tools.len(), "names must be unique");
    let again: BTreeSet<String> =
        AllTools::start().await.tools().iter().map(|tool| tool.definition.ref_name.key()).collect();
    assert_eq!(names, again, "names must be stable");
    for tool in tools {
        let name = tool.definition.ref_name.as_str();
        let usage = tool.definition.usage();
        assert!(usage.len() > 20 && usage != tool.definition.display_name(), "{name}: `{usage}`");
        assert!(tool.definition.is_tool_fully_executed_on_server, "{name} must be fully executed on the server");
        assert!(tool.warnings().is_empty(), "{name}: {:?}", tool.warnings());
        assert!(tool.input.source().is_object() && tool.output.source().is_object(), "{name}");
    }
}

#[tokio::test]
async fn every_tool_runs_end_to_end_and_matches_its_output_schema() {
    let all_tools = AllTools::start().await;
    for tool in all_tools.tools() {
        let name = tool.definition.ref_name.as_str();
        let envelope = all_tools.world.call(name, example(&tool)).await;
        if name == "http_request" {
            // The example URL is on loopback, which the egress rules of this test deny. So the call must fail.
            assert!(crate::world::failure(&envelope).starts_with("POLICY_DENIED egress"));
            continue;
        }
        assert!(envelope.is_success(), "{name}: {:?}", envelope.error);
        assert_eq!(tool.output.check(&envelope.output), Ok(()), "{name}: {}", envelope.output);
        assert!(envelope.metadata.warnings.is_empty(), "{name}: {:?}", envelope.metadata.warnings);
        assert_eq!((envelope.name.as_str(), envelope.metadata.attempt), (name, 1));
    }
    let written = all_tools.crm.writes() + all_tools.orders.writes();
    let writing =
        all_tools.tools().iter().filter(|tool| tool.effects == SideEffects::Writes && tool.provider.is_some()).count();
    assert!(written >= writing as u64, "{written} writes by {writing} tools");
}

#[tokio::test]
async fn tool_without_side_effects_returns_the_same_output_twice() {
    let all_tools = AllTools::start().await;
    let pure: Vec<_> = all_tools.tools().into_iter().filter(|tool| tool.effects == SideEffects::None).collect();
    assert!(pure.len() >= 4, "{}", pure.len());
    for tool in pure {
        let name = tool.definition.ref_name.as_str();
        let first = all_tools.world.output(name, example(&tool)).await;
        let second = all_tools.world.output(name, example(&tool)).await;
        assert_eq!(first.to_string(), second.to_string(), "{name}");
    }
}

#[tokio::test]
async fn every_example_is_a_valid_input() {
    for tool in AllTools::start().await.tools() {
        for example in &tool.definition.examples {
            assert_eq!(tool.input.check(&Value::Object(example.input.clone())), Ok(()), "{}", tool.definition.ref_name);
        }
    }
}

/// AGN-005 requires the tag and the ids in the log.
#[tokio::test]
async fn panic_is_logged_with_a_tag_and_the_ids_of_conversation_and_session() {
    let log = crate::redaction::Log::default();
    let capturing = log.capture();
    let mut world =
        World::with_functions(crate::test_functions::library("fragile", |_| async { panic!("always") })).await;
    world.cx.caller.conversation = Some("conv-17".into());
    world.cx.caller.session = Some("sess-4".into());
    world.function("t", "fragile", json!({}));
    world.call("t", json!({})).await;
    drop(capturing);
    for expected in ["[t_ExecuteAsync__Exception]", "conv-17", "sess-4", "ERROR"] {
        assert!(log.text().contains(expected), "{expected}: {}", log.text());
    }
}

#[tokio::test]
async fn failed_attempt_is_logged_with_the_tag_and_the_message() {
    let log = crate::redaction::Log::default();
    let capturing = log.capture();
    let world = World::start().await;
    world.get("upstream", "/status/500", json!({}));
    world.call("upstream", json!({})).await;
    drop(capturing);
    for expected in ["[upstream_ExecuteAsync__Exception]", "the upstream answered 500", "PROVIDER_ERROR"] {
        assert!(log.text().contains(expected), "{expected}: {}", log.text());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn no_tool_panics_on_generated_input(input in properties::any_json(), text in any::<String>(), number in any::<f64>()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let all_tools = AllTools::start().await;
            for tool in all_tools.tools() {
                let mut inputs = vec![input.clone()];
                // Also uses the example input with its strings and numbers replaced.
                inputs.push(with_values(example(&tool), &text, number));
                for input in inputs {
                    let envelope = all_tools.world.call(tool.definition.ref_name.as_str(), input.clone()).await;
                    let reason = crate::world::detail(&envelope, "reason");
                    assert_ne!(reason, json!("panic"), "{}: {input}", tool.definition.ref_name);
                    properties::check(&envelope, &input);
                    if envelope.is_success() && tool.definition.tool_type == ToolType::Function {
                        assert_eq!(tool.output.check(&envelope.output), Ok(()), "{}", tool.definition.ref_name);
                    }
                }
            }
        });
    }
}

fn with_values(value: Value, text: &str, number: f64) -> Value {
    match value {
        Value::String(_) => json!(text),
        Value::Number(_) => json!(number),
        Value::Array(items) => items.into_iter().map(|item| with_values(item, text, number)).collect(),
        Value::Object(fields) => fields.into_iter().map(|(key, item)| (key, with_values(item, text, number))).collect(),
        other => other,
    }
}
