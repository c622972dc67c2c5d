//! Runs the agent of `examples/hello_world.gram` without a server. Its tool is a closure.

use serde_json::json;
use toolwright_engine::execute_agent_with_library;
use toolwright_tools::{FunctionTool, Library};

const AGENT: &str = include_str!("../../../examples/hello_world.gram");

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let schema =
        json!({ "type": "object", "properties": { "personName": { "type": "string" } }, "required": ["personName"] });
    let say_hello =
        FunctionTool::erase("sayHello", "Returns a friendly greeting message for the given name", schema, |input| {
            let name = input.get("personName").and_then(|name| name.as_str()).unwrap_or("stranger");
            Ok(json!(format!("Hello, {name}! Nice to meet you.")))
        });
    let library = Library::new("hello world").with_dyn(say_hello);

    let answer = execute_agent_with_library(AGENT, "World", Vec::new(), library).await?;
    #[expect(clippy::print_stdout, reason = "the example prints its result")]
    {
        println!("{}", answer.response_text);
    }
    Ok(())
}
