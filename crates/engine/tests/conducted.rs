//! Runs that a conductor drives: whatever is told twice, or lost on its way back, they do what they do without one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use futures::future::BoxFuture;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio_util::task::TaskTracker;
use toolwright_engine::agents::{AgentPattern, AgentRequest, AgentSource};
use toolwright_engine::runs::{ConductError, Conductor, News};
use toolwright_engine::{Engine, Options, Runs, Session};
use toolwright_machine::agent::Decision;
use toolwright_store::{Location, SealKey, Store};
use toolwright_tools::{FunctionTool, Library};
use toolwright_types::{RunId, RunStatus, SystemClock};

const HELLO: &str = include_str!("../../../examples/hello_world.gram");

/// A conductor that loses every first answer, and so asks for everything twice.
#[derive(Default)]
struct Forgetful {
    runs: OnceLock<Runs>,
    /// One thing at a time.
    turn: tokio::sync::Mutex<()>,
    tasks: TaskTracker,
}

/// The same, shared.
#[derive(Clone, Default)]
struct Shared(Arc<Forgetful>);

impl Shared {
    fn advance(self, run: RunId, news: News) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            let runs = self.0.runs.get().unwrap();
            let turn = self.0.turn.lock().await;
            runs.advance(run, news.clone()).await.unwrap();
            let orders = runs.advance(run, news).await.unwrap();
            drop(turn);
            for step in orders.steps {
                let shared = self.clone();
                self.0.tasks.spawn(async move {
                    let runs = shared.0.runs.get().unwrap();
                    runs.perform(&step).await.unwrap();
                    runs.perform(&step).await.unwrap();
                    shared.clone().advance(step.run, News::Step(step)).await;
                });
            }
        })
    }
}

impl Conductor for Shared {
    fn wake(&self, run: RunId) -> BoxFuture<'_, Result<(), ConductError>> {
        Box::pin(async move {
            self.0.tasks.spawn(self.clone().advance(run, News::Wake));
            Ok(())
        })
    }

    fn hear<'a>(&'a self, run: RunId, said: &'a str) -> BoxFuture<'a, Result<(), ConductError>> {
        Box::pin(async move {
            self.clone().advance(run, News::Said(said.to_owned())).await;
            Ok(())
        })
    }
}

struct World {
    folder: TempDir,
    engine: Engine,
    session: Session,
    /// How often the tool was called.
    calls: Arc<AtomicUsize>,
}

impl World {
    async fn new(conductor: Option<Shared>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut options = Options::in_folder(folder.path().to_owned(), seal(folder.path()));
        let calls = Arc::new(AtomicUsize::new(0));
        options.library = library(Arc::clone(&calls));
        options.conductor = conductor.clone().map(|shared| Arc::new(shared) as _);
        let (engine, _) = Engine::open(options).await.unwrap();
        if let Some(shared) = conductor {
            assert!(shared.0.runs.set(engine.runs.clone()).is_ok());
        }
        let session = engine.identity.admin_session().await.unwrap();
        Self { folder, engine, session, calls }
    }

    /// Starts a durable run of an agent.
    async fn start(&self, agent: &str) -> toolwright_engine::agents::Started {
        let agent = AgentPattern::parse(agent).unwrap();
        let request = AgentRequest { message: "World".into(), durable: Some(true), ..AgentRequest::default() };
        self.engine.agents.start(&self.session, AgentSource::Interpreted(&agent), request).await.unwrap()
    }

    /// Closes the engine, and gives the kinds of a run's entries.
    async fn journal(self, run: RunId) -> Vec<String> {
        self.engine.close().await;
        let options = toolwright_store::Options {
            url: Location::Sqlite(self.folder.path().join("toolwright.db")),
            sync: toolwright_store::Promise::Disk,
            clock: Arc::new(SystemClock),
            seal: seal(self.folder.path()),
        };
        let store = Store::open(options).await.unwrap();
        let entries = store.runs(&self.session.realm).entries(run, 0, 1000).await.unwrap();
        entries.into_iter().map(|entry| entry.kind).collect()
    }
}

fn library(calls: Arc<AtomicUsize>) -> Library {
    let schema = json!({ "type": "object", "properties": { "personName": { "type": "string" } } });
    let hello = FunctionTool::erase("sayHello", "Greets", schema, move |input: Value| {
        calls.fetch_add(1, Ordering::SeqCst);
        Ok(json!(format!("Hello, {}!", input["personName"].as_str().unwrap())))
    });
    Library::new("greetings").with_dyn(hello)
}

fn seal(folder: &Path) -> SealKey {
    SealKey::from_file(folder.join("seal.key")).unwrap()
}

#[tokio::test]
async fn what_is_told_twice_counts_once() {
    let mut journals = Vec::new();
    for conductor in [None, Some(Shared::default())] {
        let world = World::new(conductor).await;
        let started = world.start(HELLO).await;
        let settled = world.engine.runs.outcome(&started).await.unwrap();
        assert_eq!(settled.run.status(), RunStatus::Completed);
        assert_eq!(world.calls.load(Ordering::SeqCst), 1);
        journals.push(world.journal(started.run).await);
    }
    assert_eq!(journals[0], journals[1], "with and without a conductor");
}

#[tokio::test]
async fn a_decision_is_taken_once_and_its_answer_is_not_lost() {
    let world = World::new(Some(Shared::default())).await;
    let careful = HELLO.replace("model:", "requiresApproval: true, model:");
    let careful = careful.replace("ToolSpecification {", "ToolSpecification { sideEffects: \"writes\",");
    let started = world.start(&careful).await;
    let waiting = world.engine.runs.outcome(&started).await.unwrap();
    assert_eq!(waiting.run.status(), RunStatus::AwaitingApproval);
    let call = waiting.run.approvals()[0].call_id.clone();
    let decided = world.engine.runs.decide(&world.session, started.run, call.clone(), Decision::Approve).await;
    let settled = decided.unwrap().settled().await.unwrap();
    assert_eq!((settled.run.status(), world.calls.load(Ordering::SeqCst)), (RunStatus::Completed, 1));
    let kinds = world.journal(started.run).await;
    assert_eq!(kinds.iter().filter(|kind| *kind == "approval").count(), 1, "{kinds:?}");
}
