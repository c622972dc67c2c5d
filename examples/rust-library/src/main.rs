//! Embeds the engine in a program: a tool in Rust, an additional policy, and one run of an agent. The program needs no
//! server and no network.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use toolwright_agents::AgentRequest;
use toolwright_engine::{Engine, Options};
use toolwright_store::SealKey;
use toolwright_tools::{Tool, ToolCx, ToolFailure, builtin};
use toolwright_types::{AgentDefinition, DefinitionSource};

/// Counts the words of a text.
#[derive(Deserialize, JsonSchema)]
struct CountWords {
    /// The text to count in.
    text: String,
}

impl Tool for CountWords {
    const NAME: &'static str = "count_words";
    type Output = usize;

    async fn call(self, _cx: &ToolCx<'_>) -> Result<usize, ToolFailure> {
        Ok(self.text.split_whitespace().count())
    }
}

/// The policy of this program, in addition to the built-in policies. It also applies to administrators, because
/// `forbid` takes precedence.
const POLICIES: &str = r#"
    @id("nobody-sends-http-requests")
    forbid (principal, action == Action::"execute", resource is Tool)
    when { resource.name == "http_request" };
"#;

/// Runs the agent with one message. Returns the status and the answer.
async fn ask(message: &str) -> Result<String, Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let mut options = Options::in_folder(folder.path().to_owned(), SealKey::from_file(folder.path().join("seal.key"))?);
    options.library = builtin::library().with::<CountWords>();
    options.policies = POLICIES.to_owned();
    let (engine, _) = Engine::open(options).await?;
    let session = engine.identity.admin_session().await?;

    let agent = json!({
        "refName": "counter",
        "systemPrompt": "Count the words of the user's message.",
        "toolRefs": ["count_words", "http_request"],
        // The agent follows rules instead of a model. Replace `llmConfig` to use a model.
        "llmConfig": { "provider": "scripted", "model": "counter", "extraParams": { "script": { "rules": [
            // The policy forbids the tool `http_request`, so the model is never offered this tool and this rule never
            // matches.
            { "when": { "offers": "http_request" }, "reply": { "text": "I can send HTTP requests." } },
            { "when": { "turn": 0 }, "reply": { "toolCalls": [{ "name": "count_words", "arguments": { "text": "{{user}}" } }] } },
            { "when": { "afterTool": "count_words" }, "reply": { "text": "{{result}} words" } },
        ] } } },
    });
    engine.registry.create::<AgentDefinition>(&session, agent, DefinitionSource::Manual).await?;
    let request = AgentRequest { message: message.into(), ..AgentRequest::default() };
    let started = engine.agents.start(&session, "counter", request).await?;
    let settled = engine.runs.settled(&started.handle).await.ok_or("the run was lost")?;
    let answer = format!("{}: {}", settled.run.status(), settled.run.outputs().response);
    engine.close().await;
    Ok(answer)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // The future of the engine is large, so it is on the heap.
    let answer = Box::pin(ask("to be or not to be")).await?;
    #[expect(clippy::print_stdout, reason = "the example prints its result")]
    {
        println!("{answer}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #[tokio::test]
    async fn agent_calls_the_tool_and_not_the_forbidden_one() {
        let answer = Box::pin(super::ask("to be or not to be")).await.map_err(|error| error.to_string());
        assert_eq!(answer.as_deref(), Ok("COMPLETED: 6 words"));
    }
}
