//! The checklist that every tool must pass (AGN-005 §8), over all built-in functions and all definitions of the demo.

use std::collections::BTreeSet;
use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value, json};
use toolwright_testkit::definitions::{self, Kind};
use toolwright_testkit::{Crm, LOOPBACK, Orders, crm, orders};
use toolwright_tools::{CompiledTool, Found, Toolbox, builtin};
use toolwright_types::{SideEffects, ToolType};

use crate::properties;
use crate::world::World;

struct Everything {
    world: World,
    crm: crm::Handle,
    orders: orders::Handle,
}

impl Everything {
    /// A world with every tool there is, and the systems behind them.
    async fn start() -> Self {
        let mut world = World::start().await;
        let crm = Crm::builder().start(LOOPBACK).await.unwrap();
        let orders = Orders::builder().start(LOOPBACK).await.unwrap();
        for secret in definitions::SECRETS {
            world.secret(secret.name, secret.value);
        }
        for tool in builtin::tools(&builtin::library()).into_values() {
            world.shelf.put(tool);
        }
        for demo in definitions::demo(&crm.base_url(), &orders.base_url()) {
            match demo.kind {
                Kind::Provider => drop(world.provider(demo.body)),
                Kind::Tool => drop(world.tool(demo.body)),
                Kind::Fragment | Kind::Agent => {}
            }
        }
        world.cx.lent.toolbox = Some(Arc::new(OneTool));
        Self { world, crm, orders }
    }

    fn tools(&self) -> Vec<Arc<CompiledTool>> {
        self.world.shelf.all()
    }
}

/// What there is to search, as an agent would lend it.
#[derive(Debug)]
struct OneTool;

impl Toolbox for OneTool {
    fn search(&self, _query: &str, _limit: usize) -> Vec<Found> {
        vec![Found { name: "sayHello".into(), description: "Greets someone.".into() }]
    }
}

/// An input that each built-in function takes; the demo's tools bring examples of their own.
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
async fn every_tool_says_who_it_is_and_how_it_is_used() {
    let everything = Everything::start().await;
    let tools = everything.tools();
    assert!(tools.len() >= 7 + 11, "{}", tools.len());
    let names: BTreeSet<String> = tools.iter().map(|tool| tool.definition.ref_name.key()).collect();
    assert_eq!(names.len(), tools.len(), "names are unique");
    let again: BTreeSet<String> =
        Everything::start().await.tools().iter().map(|tool| tool.definition.ref_name.key()).collect();
    assert_eq!(names, again, "names are stable");
    for tool in tools {
        let name = tool.definition.ref_name.as_str();
        let usage = tool.definition.usage();
        assert!(usage.len() > 20 && usage != tool.definition.display_name(), "{name}: `{usage}`");
        assert!(tool.definition.is_tool_fully_executed_on_server, "{name} is meant to be final on the server");
        assert!(tool.warnings().is_empty(), "{name}: {:?}", tool.warnings());
        assert!(tool.input.source().is_object() && tool.output.source().is_object(), "{name}");
    }
}

#[tokio::test]
async fn every_tool_goes_end_to_end_and_keeps_its_promise() {
    let everything = Everything::start().await;
    for tool in everything.tools() {
        let name = tool.definition.ref_name.as_str();
        let envelope = everything.world.call(name, example(&tool)).await;
        if name == "http_request" {
            // Its example leads to loopback, which is as far as it may go here.
            assert!(crate::world::failure(&envelope).starts_with("POLICY_DENIED egress"));
            continue;
        }
        assert!(envelope.is_success(), "{name}: {:?}", envelope.error);
        assert_eq!(tool.output.check(&envelope.output), Ok(()), "{name}: {}", envelope.output);
        assert!(envelope.metadata.warnings.is_empty(), "{name}: {:?}", envelope.metadata.warnings);
        assert_eq!((envelope.name.as_str(), envelope.metadata.attempt), (name, 1));
    }
    let written = everything.crm.writes() + everything.orders.writes();
    let writing =
        everything.tools().iter().filter(|tool| tool.effects == SideEffects::Writes && tool.provider.is_some()).count();
    assert!(written >= writing as u64, "{written} writes by {writing} tools");
}

#[tokio::test]
async fn a_pure_tool_answers_the_same_every_time() {
    let everything = Everything::start().await;
    let pure: Vec<_> = everything.tools().into_iter().filter(|tool| tool.effects == SideEffects::None).collect();
    assert!(pure.len() >= 4, "{}", pure.len());
    for tool in pure {
        let name = tool.definition.ref_name.as_str();
        let first = everything.world.output(name, example(&tool)).await;
        let second = everything.world.output(name, example(&tool)).await;
        assert_eq!(first.to_string(), second.to_string(), "{name}");
    }
}

#[tokio::test]
async fn every_example_of_a_definition_is_a_valid_input() {
    for tool in Everything::start().await.tools() {
        for example in &tool.definition.examples {
            assert_eq!(tool.input.check(&Value::Object(example.input.clone())), Ok(()), "{}", tool.definition.ref_name);
        }
    }
}

/// The log has the tag and the ids that the contract asks for.
#[tokio::test]
async fn an_exception_is_logged_with_its_tag_and_ids() {
    let log = crate::redaction::Log::default();
    let listening = log.listen();
    let mut world =
        World::with_functions(crate::stand_ins::library("fragile", |_| async { panic!("it breaks") })).await;
    world.cx.caller.conversation = Some("conv-17".into());
    world.cx.caller.session = Some("sess-4".into());
    world.function("t", "fragile", json!({}));
    world.call("t", json!({})).await;
    drop(listening);
    for expected in ["[t_ExecuteAsync__Exception]", "conv-17", "sess-4", "ERROR"] {
        assert!(log.text().contains(expected), "{expected}: {}", log.text());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn no_tool_panics_whatever_it_is_given(input in properties::any_json(), text in any::<String>(), number in any::<f64>()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let everything = Everything::start().await;
            for tool in everything.tools() {
                let mut inputs = vec![input.clone()];
                // One that is right in shape, with arbitrary values in the places of the example's.
                inputs.push(scrambled(example(&tool), &text, number));
                for input in inputs {
                    let envelope = everything.world.call(tool.definition.ref_name.as_str(), input.clone()).await;
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

fn scrambled(value: Value, text: &str, number: f64) -> Value {
    match value {
        Value::String(_) => json!(text),
        Value::Number(_) => json!(number),
        Value::Array(items) => items.into_iter().map(|item| scrambled(item, text, number)).collect(),
        Value::Object(fields) => fields.into_iter().map(|(key, item)| (key, scrambled(item, text, number))).collect(),
        other => other,
    }
}
