//! Libraries: one definition is bound to different implementations.

use std::sync::Arc;

use serde_json::{Value, json};
use toolwright_tools::{DynTool, Executor, FunctionTool, Library};

use crate::world::{World, done, execute, failure, request};

fn greets_with(word: &'static str) -> Arc<dyn DynTool> {
    let schema = json!({ "type": "object", "properties": { "name": { "type": "string" } }, "required": ["name"] });
    FunctionTool::erase("greet", "Greets someone.", schema, move |input| {
        Ok(json!(format!("{word}, {}!", input["name"].as_str().unwrap_or_default())))
    })
}

async fn world() -> World {
    let world = World::with_functions(Library::new("formal").with_dyn(greets_with("Good day"))).await;
    world.function("welcome", "greet", json!({ "cache": "forever" }));
    world
}

async fn welcome(world: &World, executor: &Executor) -> (Value, bool) {
    let envelope = done(execute(executor, &world.cx, request("welcome", json!({ "name": "Ada" }))).await);
    assert!(envelope.is_success(), "{:?}", envelope.error);
    (envelope.output, envelope.cached)
}

#[tokio::test]
async fn results_of_two_implementations_of_one_definition_are_cached_separately() {
    let world = world().await;
    let casual = world.executor_with(Library::new("casual").with_dyn(greets_with("Hi")));
    for cached in [false, true] {
        assert_eq!(welcome(&world, &world.executor).await, (json!("Good day, Ada!"), cached));
        assert_eq!(welcome(&world, &casual).await, (json!("Hi, Ada!"), cached));
    }
}

#[tokio::test]
async fn call_to_a_function_with_an_incompatible_schema_is_refused_with_the_schema_path() {
    let world = world().await;
    let number = json!({ "type": "object", "properties": { "name": { "type": "number" } }, "required": ["name"] });
    let more = json!({ "type": "object", "properties": { "name": {}, "title": {} }, "required": ["name", "title"] });
    for (schema, because) in [(number, "/properties/name"), (more, "requires `title`")] {
        let tool = FunctionTool::erase("greet", "Greets otherwise.", schema, Ok);
        let other = world.executor_with(Library::new("other").with_dyn(tool));
        let envelope = done(execute(&other, &world.cx, request("welcome", json!({ "name": "Ada" }))).await);
        assert!(
            failure(&envelope).starts_with("POLICY_DENIED unbound_function: function `greet@1.0.0` does not match"),
            "{}",
            failure(&envelope)
        );
        assert!(failure(&envelope).contains(because), "{}", failure(&envelope));
    }
}

#[tokio::test]
async fn function_missing_in_one_library_can_still_be_called_in_another() {
    let world = world().await;
    let empty = world.executor_with(Library::new("empty"));
    let envelope = done(execute(&empty, &world.cx, request("welcome", json!({ "name": "Ada" }))).await);
    assert_eq!(failure(&envelope), "POLICY_DENIED unbound_function: no function `greet` is registered");
    assert_eq!(welcome(&world, &world.executor).await.0, json!("Good day, Ada!"));
}

#[tokio::test]
async fn definition_without_schemas_uses_the_schemas_of_its_function() {
    let world = world().await;
    let envelope = world.call("welcome", json!({ "name": 7 })).await;
    assert!(failure(&envelope).starts_with("VALIDATION_ERROR input_schema"), "{}", failure(&envelope));
    let narrower = json!({ "type": "object", "properties": { "name": { "type": "string", "maxLength": 3 } }, "required": ["name"] });
    world.function("short", "greet", json!({ "inputJsonSchema": narrower }));
    assert!(world.call("short", json!({ "name": "Ada" })).await.is_success());
    assert!(!world.call("short", json!({ "name": "Grace" })).await.is_success());
}

#[tokio::test]
async fn body_template_produces_the_arguments_of_a_function() {
    let world = world().await;
    world.function("shaped", "greet", json!({ "invocation": { "path": "greet@^1", "bodyTemplate": { "name": "${param.first} ${param.last}" }, "responseMapping": "response.size()" } }));
    assert_eq!(world.output("shaped", json!({ "first": "Ada", "last": "L." })).await, json!(17));
}

/// Counts something and says what it left out.
#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Count {
    fail: bool,
}

impl toolwright_tools::Tool for Count {
    const NAME: &'static str = "tally";
    type Output = u64;

    async fn call(self, cx: &toolwright_tools::ToolCx<'_>) -> Result<u64, toolwright_tools::ToolFailure> {
        cx.messages.add("2 rows were skipped");
        if self.fail { Err(toolwright_tools::ToolFailure::invalid("no rows")) } else { Ok(3) }
    }
}

#[tokio::test]
async fn messages_of_a_function_are_in_the_envelope_of_a_successful_and_of_a_failed_call() {
    let world = World::with_functions(Library::new("counting").with::<Count>()).await;
    world.function("tally", "tally", json!({ "cache": "forever" }));
    for cached in [false, true] {
        let envelope = world.call("tally", json!({ "fail": false })).await;
        assert_eq!((envelope.output, envelope.cached), (json!(3), cached));
        assert_eq!(envelope.metadata.messages, ["2 rows were skipped"]);
    }
    let failed = world.call("tally", json!({ "fail": true })).await;
    assert_eq!((failed.is_success(), failed.metadata.messages), (false, vec!["2 rows were skipped".to_owned()]));
}

#[tokio::test]
async fn definition_compiles_with_a_warning_before_its_function_exists() {
    let world = world().await;
    let tool = world.function("later", "not-yet", json!({}));
    assert!(tool.warnings().iter().any(|warning| warning.contains("no function `not-yet`")), "{:?}", tool.warnings());
    let library = Library::new("later").with_dyn(FunctionTool::erase("not-yet", "Now.", json!({}), Ok));
    let envelope = done(execute(&world.executor_with(library), &world.cx, request("later", json!(1))).await);
    assert_eq!(envelope.output, json!(1));
}
