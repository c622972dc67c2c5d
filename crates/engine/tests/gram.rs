//! Agents from gram, run by an engine: interpreted and compiled alike, with any library, without a server.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::path::Path;
use std::sync::Arc;

use regex::Regex;
use serde_json::{Value, json};
use tempfile::TempDir;
use toolwright_engine::agents::{AgentPattern, AgentRequest, AgentSource, ExecutionModel, PatternError, Started};
use toolwright_engine::runs::Snapshot;
use toolwright_engine::{Engine, ExecuteError, Options, Session, execute_agent_with_library};
use toolwright_machine::agent::Decision;
use toolwright_store::{Location, SealKey, Store};
use toolwright_tools::{FunctionTool, Library};
use toolwright_types::{Message, RunId, RunStatus, SystemClock};

const SAID: &str = r#"The tool says: "Hello, World! Nice to meet you.""#;
/// What the text says of its tool.
const DESCRIPTION: &str = "Returns a friendly greeting message for the given name";
const HELLO: &str = include_str!("../../../examples/hello_world.gram");

/// A library whose `sayHello` greets in its own way.
fn library(greeting: &'static str) -> Library {
    let schema =
        json!({ "type": "object", "properties": { "personName": { "type": "string" } }, "required": ["personName"] });
    let hello = FunctionTool::erase("sayHello", DESCRIPTION, schema, move |input| {
        Ok(json!(format!("{greeting}, {}! Nice to meet you.", input["personName"].as_str().unwrap())))
    });
    Library::new(greeting).with_dyn(hello)
}

struct World {
    folder: TempDir,
    engine: Engine,
    session: Session,
}

impl World {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut options = Options::in_folder(folder.path().to_owned(), seal(folder.path()));
        options.library = library("Hello");
        let (engine, _) = Engine::open(options).await.unwrap();
        let session = engine.identity.admin_session().await.unwrap();
        Self { folder, engine, session }
    }

    async fn run(&self, source: AgentSource<'_>, message: &str) -> (RunId, Arc<Snapshot>) {
        let request = AgentRequest { message: message.into(), ..AgentRequest::default() };
        let started: Started = self.engine.agents.start(&self.session, source, request).await.unwrap();
        let settled = self.engine.runs.outcome(&started).await.unwrap();
        (started.run, settled)
    }

    /// Closes the engine and reads the journals of some runs, as they are written.
    async fn journals(self, runs: &[RunId]) -> Vec<Vec<String>> {
        self.engine.close().await;
        let options = toolwright_store::Options {
            url: Location::Sqlite(self.folder.path().join("toolwright.db")),
            sync: toolwright_store::Promise::Disk,
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

/// An entry without what differs from run to run: ids and times.
fn stable(entry: &str) -> String {
    let differing = [
        ("(run|conv)_[0-9A-Z]{26}", "ID"),
        (r#""(t_start|t_end|at)":("[^"]*"|\d+)"#, r#""$1":TIME"#),
        (r#""(latency_ms|duration_ms|micros)":\d+"#, r#""$1":TIME"#),
    ];
    differing.iter().fold(entry.to_owned(), |text, (pattern, name)| {
        Regex::new(pattern).unwrap().replace_all(&text, *name).into_owned()
    })
}

#[tokio::test]
async fn interpreting_and_compiling_write_the_same_journal() {
    let world = World::new().await;
    let agent = AgentPattern::parse(HELLO).unwrap();
    let (interpreted, first) = world.run(AgentSource::Interpreted(&agent), "World").await;
    let mut runs = vec![interpreted];
    for model in [ExecutionModel::Compile, ExecutionModel::Hybrid, ExecutionModel::Interpret] {
        let compiled = world.engine.agents.compile(&world.session, &agent, model).await.unwrap();
        runs.push(world.run(AgentSource::Compiled(&compiled), "World").await.0);
    }
    assert_eq!(first.run.outputs().response, SAID);
    let journals = world.journals(&runs).await;
    let wanted: Vec<String> = journals[0].iter().map(|entry| stable(entry)).collect();
    assert!(wanted.len() >= 5, "a beginning, two replies, a preparation and a call: {wanted:#?}");
    assert!(!wanted.iter().any(|entry| entry.contains("run_")), "{wanted:#?}");
    for journal in &journals {
        assert_eq!(journal.iter().map(|entry| stable(entry)).collect::<Vec<_>>(), wanted);
    }
}

#[tokio::test]
async fn what_nobody_knows_fails_compilation_and_hybrid_falls_back() {
    let world = World::new().await;
    let agent = AgentPattern::parse(&HELLO.replace("model:", "mood: \"sunny\", model:")).unwrap();
    let refused = world.engine.agents.compile(&world.session, &agent, ExecutionModel::Compile).await;
    let Err(PatternError::Problems(problems)) = refused else { panic!("compiled") };
    assert_eq!(problems[0].to_string(), "property `mood` of agent `hello_world_agent` is not known");

    let compiled = world.engine.agents.compile(&world.session, &agent, ExecutionModel::Hybrid).await.unwrap();
    for source in [AgentSource::Compiled(&compiled), AgentSource::Interpreted(&agent)] {
        let (_, settled) = world.run(source, "World").await;
        assert_eq!(settled.run.status(), RunStatus::Completed);
        assert_eq!(
            settled.began.warnings,
            ["property `mood` of agent `hello_world_agent` was left out: nobody knows it"]
        );
    }
    world.engine.close().await;
}

#[tokio::test]
async fn what_the_platform_refuses_is_run_by_neither() {
    let world = World::new().await;
    for (wrong, because) in [
        ("policy.maxCostUsd: 1.5, fallbackModel: \"openai/of-no-price\"", "price"),
        ("llmConfig.temperature: 7", "between 0 and 1"),
        ("policy.maxToolCalls: \"many\"", "policy.maxToolCalls"),
        ("guardrails: json`[{\"type\":\"no_such\"}]`", "/guardrails/0"),
    ] {
        let agent = AgentPattern::parse(&HELLO.replace("model:", &format!("{wrong}, model:"))).unwrap();
        for model in [ExecutionModel::Interpret, ExecutionModel::Compile, ExecutionModel::Hybrid] {
            let refused = world.engine.agents.compile(&world.session, &agent, model).await;
            let message = refused.err().map(|error| error.to_string()).unwrap_or_default();
            assert!(message.contains(because), "{wrong}, {model:?}: {message}");
        }
    }
    world.engine.close().await;
}

#[tokio::test]
async fn a_run_that_waits_finds_the_tools_that_its_agent_brought() {
    let world = World::new().await;
    let text = HELLO.replace("given name\"\n", "given name\",\n    requiresConfirmation: true\n");
    let agent = AgentPattern::parse(&text).unwrap();
    let (run, settled) = world.run(AgentSource::Interpreted(&agent), "World").await;
    assert_eq!(settled.run.status(), RunStatus::AwaitingApproval);
    let call = settled.run.approvals()[0].call_id.clone();
    let steered = world.engine.runs.decide(&world.session, run, call, Decision::Approve).await.unwrap();
    let settled = steered.settled().await.unwrap();
    assert_eq!(settled.run.outputs().response, SAID);
    let envelopes: Vec<Value> =
        settled.run.outputs().in_order().map(|envelope| serde_json::to_value(envelope).unwrap()).collect();
    assert_eq!(envelopes.len(), 1, "{envelopes:#?}");
    world.engine.close().await;
}

#[tokio::test]
async fn one_call_runs_an_agent_with_a_library() {
    let answer = execute_agent_with_library(HELLO, "World", Vec::new(), library("Hello")).await.unwrap();
    assert_eq!(answer.response_text, SAID);
    assert_eq!((answer.status, answer.iterations_used, answer.tool_calls.len()), (RunStatus::Completed, 2, 1));
    let call = &answer.tool_calls[0].invocation;
    assert_eq!((call.tool_ref.as_str(), &call.input), ("sayHello", &json!({ "personName": "World" })));
}

#[tokio::test]
async fn the_same_agent_runs_against_two_libraries() {
    let (a, b) = tokio::join!(
        execute_agent_with_library(HELLO, "World", Vec::new(), library("Hello")),
        execute_agent_with_library(HELLO, "World", Vec::new(), library("Servus")),
    );
    assert_eq!(a.unwrap().response_text, SAID);
    assert_eq!(b.unwrap().response_text, SAID.replace("Hello", "Servus"));
}

#[tokio::test]
async fn a_tool_that_no_library_has_is_refused_and_said_so() {
    let answer = execute_agent_with_library(HELLO, "World", Vec::new(), Library::new("empty")).await.unwrap();
    let call = &answer.tool_calls[0].invocation;
    assert!(call.error_message.as_deref().unwrap().contains("no function `sayHello`"), "{call:?}");
}

#[tokio::test]
async fn what_was_said_before_is_told_to_the_model() {
    let agent = r#"[echo:Agent {instruction: "Repeat.", model: "scripted/x",
        llmConfig.extraParams: json`{"script": {"otherwise": {"text": "{{user}}"}}}`}]"#;
    let before = vec![
        Message::User { content: "earlier".into() },
        Message::Assistant { content: "yes".into(), thinking: Vec::new(), tool_calls: Vec::new() },
    ];
    let alone = execute_agent_with_library(agent, "now", Vec::new(), Library::new("none")).await.unwrap();
    let after = execute_agent_with_library(agent, "now", before, Library::new("none")).await.unwrap();
    assert_eq!((alone.response_text.as_str(), after.response_text.as_str()), ("now", "now"));
    assert!(after.tokens_used > alone.tokens_used, "the history counts");
}

#[tokio::test]
async fn texts_that_are_no_agent_say_why() {
    for (text, because) in [
        ("[a:Agent {", "not gram"),
        ("(a)", "0 agents"),
        ("[a:Agent {instruction: \"x\", model: \"m\"}] [b:Agent {instruction: \"x\", model: \"m\"}]", "2 agents"),
        ("[a:Agent {model: \"m\"}]", "must have the property `instruction`"),
        ("[a:Agent {instruction: \"x\", model: \"nobody/m\"}]", "nobody"),
    ] {
        let error = execute_agent_with_library(text, "x", Vec::new(), Library::new("none")).await.unwrap_err();
        assert!(matches!(error, ExecuteError::Pattern(_)) && error.to_string().contains(because), "{text}: {error}");
    }
}

#[tokio::test]
async fn a_run_says_which_function_ran_and_that_it_describes_itself_differently() {
    let world = World::new().await;
    let known = AgentPattern::parse(HELLO).unwrap();
    let (_, settled) = world.run(AgentSource::Interpreted(&known), "World").await;
    assert_eq!(settled.began.warnings, Vec::<String>::new());
    let outputs = settled.run.outputs();
    let bound = outputs.in_order().map(|receipt| receipt.metadata.implementation.clone()).collect::<Vec<_>>();
    assert_eq!(bound, [Some("Hello/sayHello@1.0.0".to_owned())]);

    let other = AgentPattern::parse(&HELLO.replace(DESCRIPTION, "Says nothing")).unwrap();
    let (_, settled) = world.run(AgentSource::Interpreted(&other), "World").await;
    assert_eq!(settled.run.status(), RunStatus::Completed);
    assert!(settled.began.warnings[0].contains("describes itself differently"), "{:?}", settled.began.warnings);
    world.engine.close().await;
}
