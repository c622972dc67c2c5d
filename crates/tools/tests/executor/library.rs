//! Late binding: one definition, other implementations.

use std::sync::Arc;

use serde_json::{Value, json};
use toolwright_tools::{DynTool, Executor, FunctionTool, Functions, Library};
use toolwright_types::ToolType;

use crate::world::{World, done, failure, request};

fn greets_with(word: &'static str) -> Arc<dyn DynTool> {
    let schema = json!({ "type": "object", "properties": { "name": { "type": "string" } }, "required": ["name"] });
    FunctionTool::erase("greet", "Greets someone.", schema, move |input| {
        Ok(json!(format!("{word}, {}!", input["name"].as_str().unwrap_or_default())))
    })
}

fn bound_to(world: &World, library: Library) -> Executor {
    world.executor.with_backend(ToolType::Function, Arc::new(Functions::new(Arc::new(library), world.http.clone())))
}

async fn world() -> World {
    let world = World::with_functions(Library::new("formal").with_dyn(greets_with("Good day"))).await;
    world.function("welcome", "greet", json!({ "cache": "forever" }));
    world
}

async fn welcome(world: &World, executor: &Executor) -> (Value, bool) {
    let envelope = done(executor.execute(&world.cx, request("welcome", json!({ "name": "Ada" }))).await);
    assert!(envelope.is_success(), "{:?}", envelope.error);
    (envelope.output, envelope.cached)
}

#[tokio::test]
async fn two_implementations_of_one_definition_answer_and_are_remembered_apart() {
    let world = world().await;
    let casual = bound_to(&world, Library::new("casual").with_dyn(greets_with("Hi")));
    for cached in [false, true] {
        assert_eq!(welcome(&world, &world.executor).await, (json!("Good day, Ada!"), cached));
        assert_eq!(welcome(&world, &casual).await, (json!("Hi, Ada!"), cached));
    }
}

#[tokio::test]
async fn an_implementation_that_does_not_fit_is_denied_with_the_place() {
    let world = world().await;
    let number = json!({ "type": "object", "properties": { "name": { "type": "number" } }, "required": ["name"] });
    let more = json!({ "type": "object", "properties": { "name": {}, "title": {} }, "required": ["name", "title"] });
    for (schema, because) in [(number, "/properties/name"), (more, "needs `title`")] {
        let tool = FunctionTool::erase("greet", "Greets otherwise.", schema, Ok);
        let other = bound_to(&world, Library::new("other").with_dyn(tool));
        let envelope = done(other.execute(&world.cx, request("welcome", json!({ "name": "Ada" }))).await);
        assert!(
            failure(&envelope).starts_with("POLICY_DENIED unbound_function: function `greet@1.0.0` does not fit"),
            "{}",
            failure(&envelope)
        );
        assert!(failure(&envelope).contains(because), "{}", failure(&envelope));
    }
}

#[tokio::test]
async fn a_library_without_the_function_says_so_and_the_original_goes_on() {
    let world = world().await;
    let empty = bound_to(&world, Library::new("empty"));
    let envelope = done(empty.execute(&world.cx, request("welcome", json!({ "name": "Ada" }))).await);
    assert_eq!(failure(&envelope), "POLICY_DENIED unbound_function: no function `greet` is registered");
    assert_eq!(welcome(&world, &world.executor).await.0, json!("Good day, Ada!"));
}

#[tokio::test]
async fn a_definition_takes_the_schemas_of_its_function_unless_it_has_its_own() {
    let world = world().await;
    let envelope = world.call("welcome", json!({ "name": 7 })).await;
    assert!(failure(&envelope).starts_with("VALIDATION_ERROR input_schema"), "{}", failure(&envelope));
    let narrower = json!({ "type": "object", "properties": { "name": { "type": "string", "maxLength": 3 } }, "required": ["name"] });
    world.function("short", "greet", json!({ "inputJsonSchema": narrower }));
    assert!(world.call("short", json!({ "name": "Ada" })).await.is_success());
    assert!(!world.call("short", json!({ "name": "Grace" })).await.is_success());
}

#[tokio::test]
async fn a_template_shapes_what_the_function_is_called_with() {
    let world = world().await;
    world.function("shaped", "greet", json!({ "invocation": { "path": "greet@^1", "bodyTemplate": { "name": "${param.first} ${param.last}" }, "responseMapping": "response.size()" } }));
    assert_eq!(world.output("shaped", json!({ "first": "Ada", "last": "L." })).await, json!(17));
}

#[tokio::test]
async fn a_definition_may_be_saved_before_its_function_exists() {
    let world = world().await;
    let tool = world.function("later", "not-yet", json!({}));
    assert!(tool.warnings().iter().any(|warning| warning.contains("no function `not-yet`")), "{:?}", tool.warnings());
    let library = Library::new("later").with_dyn(FunctionTool::erase("not-yet", "Now.", json!({}), Ok));
    let envelope = done(bound_to(&world, library).execute(&world.cx, request("later", json!(1))).await);
    assert_eq!(envelope.output, json!(1));
}

#[tokio::test]
async fn a_description_that_is_not_the_functions_own_is_worth_a_word() {
    let world = world().await;
    let described = |description: &str| {
        world.function("greeting", "greet", json!({ "description": description })).warnings().to_vec()
    };
    assert_eq!(described("Greets someone."), Vec::<String>::new());
    let warned = described("Sends an e-mail.");
    assert!(warned.iter().any(|warning| warning.contains("`greet@1.0.0` describes itself differently")), "{warned:?}");
}
