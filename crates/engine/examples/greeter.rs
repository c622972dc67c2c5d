//! Defines and runs an agent with the Rust API. The example opens an engine in a temporary folder, defines a tool as a
//! closure and executes one run.
//!
//! `examples/greeter.yaml` contains the same agent. This program checks that the two definitions are equal.

use serde_json::json;
use toolwright_agents::AgentRequest;
use toolwright_engine::{Engine, Options};
use toolwright_store::SealKey;
use toolwright_tools::{FunctionTool, Library};
use toolwright_types::{AgentDefinition, DefinitionSource};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let seal = SealKey::from_file(folder.path().join("seal.key"))?;
    let mut options = Options::in_folder(folder.path().to_owned(), seal);
    let schema =
        json!({ "type": "object", "properties": { "personName": { "type": "string" } }, "required": ["personName"] });
    let hello = FunctionTool::erase("sayHello", "Greets a person by name.", schema, |input| {
        let name = input.get("personName").and_then(|name| name.as_str()).unwrap_or("stranger");
        Ok(json!(format!("Hello, {name}! Nice to meet you.")))
    });
    options.library = Library::new("example").with_dyn(hello);
    let (engine, _) = Engine::open(options).await?;
    let session = engine.identity.admin_session().await?;

    let mut agent = AgentDefinition::new("greeter".parse()?);
    agent.description = Some("Greets people by name.".into());
    agent.system_prompt =
        Some("You greet people. Use the tool `sayHello` for every greeting, and speak {{language}}.".into());
    agent.tool_refs = vec!["sayHello".into()];
    agent.execution_config.max_iterations = Some(4);
    agent.policy.max_tool_calls = Some(5);
    agent.llm_config.provider = Some("scripted".into());
    agent.llm_config.model = Some("greeter".into());
    let script = json!({ "rules": [
        { "when": { "turn": 0 }, "reply": { "toolCalls": [{ "name": "sayHello", "arguments": { "personName": "{{user}}" } }] } },
        { "when": { "afterTool": "sayHello" }, "reply": { "text": "The tool says: {{result}}" } },
    ] });
    agent.llm_config.extra_params.insert("script".into(), script);
    let file: AgentDefinition = serde_norway::from_str(include_str!("../../../examples/greeter.yaml"))?;
    assert_eq!(agent, file, "the file and the program define the same agent");

    engine.registry.create::<AgentDefinition>(&session, serde_json::to_value(agent)?, DefinitionSource::Manual).await?;
    let mut request = AgentRequest { message: "World".into(), ..AgentRequest::default() };
    request.context.insert("language".into(), json!("English"));
    let started = engine.agents.start(&session, "greeter", request).await?;
    let settled = engine.runs.settled(&started.handle).await.ok_or("the run was lost")?;
    let outputs = settled.run.outputs();
    #[expect(clippy::print_stdout, reason = "the example prints its result")]
    {
        println!("{} after {} call(s): {}", settled.run.status(), outputs.tool_order.len(), outputs.response);
    }
    engine.close().await;
    Ok(())
}
