//! Tests that run agents from gram texts: interpreted agents, compiled agents, and agents with different libraries.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests may panic; the exemption of the lints for tests does not cover helper functions"
)]

use std::path::Path;
use std::sync::Arc;

use regex::Regex;
use serde_json::{Value, json};
use tempfile::TempDir;
use toolwright_agents::{AgentPattern, AgentRequest, AgentSource, ExecutionModel, PatternError, StartedRun};
use toolwright_catalog::Session;
use toolwright_engine::{Engine, ExecuteError, Options, execute_agent_with_library};
use toolwright_machine::agent::Decision;
use toolwright_runs::RunSnapshot;
use toolwright_store::{Location, SealKey, Store};
use toolwright_tools::{FunctionTool, Library};
use toolwright_types::{Message, RunId, RunStatus, SystemClock};

const RESPONSE: &str = r#"The tool says: "Hello, World! Nice to meet you.""#;
/// The description of the tool in the gram text.
const DESCRIPTION: &str = "Returns a friendly greeting message for the given name";
const HELLO: &str = include_str!("../../../examples/hello_world.gram");

/// A library with a function `sayHello` that uses the given greeting.
fn library(greeting: &'static str) -> Library {
    let schema =
        json!({ "type": "object", "properties": { "personName": { "type": "string" } }, "required": ["personName"] });
    let hello = FunctionTool::erase("sayHello", DESCRIPTION, schema, move |input| {
        Ok(json!(format!("{greeting}, {}! Nice to meet you.", input["personName"].as_str().unwrap())))
    });
    Library::new(greeting).with_dyn(hello)
}

/// An engine in a temporary folder.
struct Fixture {
    folder: TempDir,
    engine: Engine,
    session: Session,
}

impl Fixture {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut options = Options::in_folder(folder.path().to_owned(), seal(folder.path()));
        options.library = library("Hello");
        let (engine, _) = Engine::open(options).await.unwrap();
        let session = engine.identity.admin_session().await.unwrap();
        Self { folder, engine, session }
    }

    async fn run(&self, source: AgentSource<'_>, message: &str) -> (RunId, Arc<RunSnapshot>) {
        let request = AgentRequest { message: message.into(), ..AgentRequest::default() };
        let started: StartedRun = self.engine.agents.start(&self.session, source, request).await.unwrap();
        let settled = self.engine.runs.settled(&started.handle).await.unwrap();
        (started.run, settled)
    }

    /// Closes the engine, and returns the stored journal of each run.
    async fn journals(self, runs: &[RunId]) -> Vec<Vec<String>> {
        self.engine.close().await;
        let options = toolwright_store::StoreOptions {
            url: Location::Sqlite(self.folder.path().join("toolwright.db")),
            sync: toolwright_store::SyncMode::Disk,
            clock: Arc::new(SystemClock),
            seal: seal(self.folder.path()),
        };
        let store = Store::open(options).await.unwrap();
        let mut journals = Vec::new();
        for run in runs {
            let entries = store.runs(&self.session.realm).entries(*run, 0, 1000).await.unwrap();
            journals.push(entries.iter().map(|entry| entry.body.to_string()).collect());
        }
        journals
    }
}

fn seal(folder: &Path) -> SealKey {
    SealKey::from_file(folder.join("seal.key")).unwrap()
}

/// Replaces the ids and times in an entry, because they differ between runs.
fn normalized(entry: &str) -> String {
    let replacements = [
        ("(run|conv)_[0-9A-Z]{26}", "ID"),
        (r#""(t_start|t_end|at)":("[^"]*"|\d+)"#, r#""$1":TIME"#),
        (r#""(latency_ms|duration_ms|micros)":\d+"#, r#""$1":TIME"#),
    ];
    replacements.iter().fold(entry.to_owned(), |text, (pattern, name)| {
        Regex::new(pattern).unwrap().replace_all(&text, *name).into_owned()
    })
}

#[tokio::test]
async fn interpreted_and_compiled_agents_write_the_same_journal() {
    let fixture = Fixture::new().await;
    let agent = AgentPattern::parse(HELLO).unwrap();
    let (interpreted, first) = fixture.run(AgentSource::Interpreted(&agent), "World").await;
    let mut runs = vec![interpreted];
    for model in [ExecutionModel::Compile, ExecutionModel::Hybrid, ExecutionModel::Interpret] {
        let compiled = fixture.engine.agents.compile(&fixture.session, &agent, model).await.unwrap();
        runs.push(fixture.run(AgentSource::Compiled(&compiled), "World").await.0);
    }
    assert_eq!(first.run.outputs().response, RESPONSE);
    let journals = fixture.journals(&runs).await;
    let expected: Vec<String> = journals[0].iter().map(|entry| normalized(entry)).collect();
    assert!(expected.len() >= 5, "at least a start, two replies, a preparation and a call: {expected:#?}");
    assert!(!expected.iter().any(|entry| entry.contains("run_")), "{expected:#?}");
    for journal in &journals {
        assert_eq!(journal.iter().map(|entry| normalized(entry)).collect::<Vec<_>>(), expected);
    }
}

#[tokio::test]
async fn unknown_property_is_an_error_when_compiling_and_a_warning_when_interpreting() {
    let fixture = Fixture::new().await;
    let agent = AgentPattern::parse(&HELLO.replace("model:", "mood: \"sunny\", model:")).unwrap();
    let result = fixture.engine.agents.compile(&fixture.session, &agent, ExecutionModel::Compile).await;
    let Err(PatternError::Problems(problems)) = result else { panic!("expected problems") };
    assert_eq!(problems[0].to_string(), "property `mood` of agent `hello_world_agent` is unknown");

    let compiled = fixture.engine.agents.compile(&fixture.session, &agent, ExecutionModel::Hybrid).await.unwrap();
    for source in [AgentSource::Compiled(&compiled), AgentSource::Interpreted(&agent)] {
        let (_, settled) = fixture.run(source, "World").await;
        assert_eq!(settled.run.status(), RunStatus::Completed);
        assert_eq!(
            settled.start.warnings,
            ["property `mood` of agent `hello_world_agent` was ignored: unknown property"]
        );
    }
    fixture.engine.close().await;
}

#[tokio::test]
async fn invalid_agent_is_rejected_whether_it_is_compiled_or_interpreted() {
    let fixture = Fixture::new().await;
    for (property, message) in [
        ("policy.maxCostUsd: 1.5, fallbackModel: \"openai/of-no-price\"", "price"),
        ("llmConfig.temperature: 7", "between 0 and 1"),
        ("policy.maxToolCalls: \"many\"", "policy.maxToolCalls"),
        ("guardrails: json`[{\"type\":\"no_such\"}]`", "/guardrails/0"),
    ] {
        let agent = AgentPattern::parse(&HELLO.replace("model:", &format!("{property}, model:"))).unwrap();
        for model in [ExecutionModel::Interpret, ExecutionModel::Compile, ExecutionModel::Hybrid] {
            let result = fixture.engine.agents.compile(&fixture.session, &agent, model).await;
            let error = result.err().map(|error| error.to_string()).unwrap_or_default();
            assert!(error.contains(message), "{property}, {model:?}: {error}");
        }
    }
    fixture.engine.close().await;
}

#[tokio::test]
async fn inline_tool_is_called_after_its_approval() {
    let fixture = Fixture::new().await;
    let text = HELLO.replace("given name\"\n", "given name\",\n    requiresConfirmation: true\n");
    let agent = AgentPattern::parse(&text).unwrap();
    let (run, settled) = fixture.run(AgentSource::Interpreted(&agent), "World").await;
    assert_eq!(settled.run.status(), RunStatus::AwaitingApproval);
    let call = settled.run.pending_approvals()[0].call_id.clone();
    let steered = fixture.engine.runs.decide(&fixture.session, run, call, Decision::Approve, None).await.unwrap();
    let settled = steered.settled().await.unwrap();
    assert_eq!(settled.run.outputs().response, RESPONSE);
    let envelopes: Vec<Value> =
        settled.run.outputs().in_order().map(|envelope| serde_json::to_value(envelope).unwrap()).collect();
    assert_eq!(envelopes.len(), 1, "{envelopes:#?}");
    fixture.engine.close().await;
}

#[tokio::test]
async fn execute_agent_with_library_returns_the_response_and_the_tool_calls() {
    let answer = execute_agent_with_library(HELLO, "World", Vec::new(), library("Hello")).await.unwrap();
    assert_eq!(answer.response_text, RESPONSE);
    assert_eq!((answer.status, answer.iterations_used, answer.tool_calls.len()), (RunStatus::Completed, 2, 1));
    let call = &answer.tool_calls[0].invocation;
    assert_eq!((call.tool_ref.as_str(), &call.input), ("sayHello", &json!({ "personName": "World" })));
}

#[tokio::test]
async fn same_agent_responds_differently_with_another_library() {
    let (a, b) = tokio::join!(
        execute_agent_with_library(HELLO, "World", Vec::new(), library("Hello")),
        execute_agent_with_library(HELLO, "World", Vec::new(), library("Servus")),
    );
    assert_eq!(a.unwrap().response_text, RESPONSE);
    assert_eq!(b.unwrap().response_text, RESPONSE.replace("Hello", "Servus"));
}

#[tokio::test]
async fn call_fails_if_the_library_lacks_the_function() {
    let answer = execute_agent_with_library(HELLO, "World", Vec::new(), Library::new("empty")).await.unwrap();
    let call = &answer.tool_calls[0].invocation;
    assert!(call.error_message.as_deref().unwrap().contains("no function `sayHello`"), "{call:?}");
}

#[tokio::test]
async fn conversation_history_is_sent_to_the_model() {
    let agent = r#"[echo:Agent {instruction: "Repeat.", model: "scripted/x",
        llmConfig.extraParams: json`{"script": {"otherwise": {"text": "{{user}}"}}}`}]"#;
    let before = vec![
        Message::User { content: "earlier".into() },
        Message::Assistant { content: "yes".into(), thinking: Vec::new(), tool_calls: Vec::new() },
    ];
    let alone = execute_agent_with_library(agent, "now", Vec::new(), Library::new("none")).await.unwrap();
    let after = execute_agent_with_library(agent, "now", before, Library::new("none")).await.unwrap();
    assert_eq!((alone.response_text.as_str(), after.response_text.as_str()), ("now", "now"));
    assert!(after.tokens_used > alone.tokens_used, "the history adds tokens");
}

#[tokio::test]
async fn invalid_agent_texts_are_rejected_with_the_reason() {
    for (text, message) in [
        ("[a:Agent {", "not gram"),
        ("(a)", "exactly one agent, got 0"),
        (
            "[a:Agent {instruction: \"x\", model: \"m\"}] [b:Agent {instruction: \"x\", model: \"m\"}]",
            "exactly one agent, got 2",
        ),
        ("[a:Agent {model: \"m\"}]", "must have the property `instruction`"),
        ("[a:Agent {instruction: \"x\", model: \"nobody/m\"}]", "nobody"),
    ] {
        let error = execute_agent_with_library(text, "x", Vec::new(), Library::new("none")).await.unwrap_err();
        assert!(matches!(error, ExecuteError::Pattern(_)) && error.to_string().contains(message), "{text}: {error}");
    }
}

#[tokio::test]
async fn envelope_contains_the_name_of_the_library_function_and_a_conflicting_description_causes_a_warning() {
    let fixture = Fixture::new().await;
    let known = AgentPattern::parse(HELLO).unwrap();
    let (_, settled) = fixture.run(AgentSource::Interpreted(&known), "World").await;
    assert_eq!(settled.start.warnings, Vec::<String>::new());
    let outputs = settled.run.outputs();
    let bound = outputs.in_order().map(|envelope| envelope.metadata.implementation.clone()).collect::<Vec<_>>();
    assert_eq!(bound, [Some("Hello/sayHello@1.0.0".to_owned())]);

    let other = AgentPattern::parse(&HELLO.replace(DESCRIPTION, "Says nothing")).unwrap();
    let (_, settled) = fixture.run(AgentSource::Interpreted(&other), "World").await;
    assert_eq!(settled.run.status(), RunStatus::Completed);
    assert!(settled.start.warnings[0].contains("has another description"), "{:?}", settled.start.warnings);
    fixture.engine.close().await;
}
