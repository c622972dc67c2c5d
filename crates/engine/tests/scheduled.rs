//! Tests of runs that an external scheduler drives. The scheduler repeats each request, and a repeated request must
//! have no further effect.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests may panic; the exemption of the lints for tests does not cover helper functions"
)]

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use futures::future::BoxFuture;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio_util::task::TaskTracker;
use toolwright_agents::{AgentPattern, AgentRequest, AgentSource};
use toolwright_catalog::Session;
use toolwright_engine::{Engine, Options};
use toolwright_machine::agent::Decision;
use toolwright_runs::Runs;
use toolwright_runs::{SchedulerError, TaskEvent, TaskScheduler};
use toolwright_store::{Location, SealKey, Store};
use toolwright_tools::{FunctionTool, Library};
use toolwright_types::{RunId, RunStatus, SystemClock};

const HELLO: &str = include_str!("../../../examples/hello_world.gram");

/// A scheduler that ignores the first reply to each request and repeats the request.
#[derive(Default)]
struct RepeatingScheduler {
    runs: OnceLock<Runs>,
    /// Ensures that only one event is applied at a time.
    turn: tokio::sync::Mutex<()>,
    tasks: TaskTracker,
}

/// A handle of the scheduler that can be cloned.
#[derive(Clone, Default)]
struct Shared(Arc<RepeatingScheduler>);

impl Shared {
    fn advance(self, run: RunId, event: TaskEvent) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            let runs = self.0.runs.get().unwrap();
            let turn = self.0.turn.lock().await;
            runs.advance(run, event.clone()).await.unwrap();
            let plan = runs.advance(run, event).await.unwrap();
            drop(turn);
            for task in plan.tasks {
                let shared = self.clone();
                self.0.tasks.spawn(async move {
                    let runs = shared.0.runs.get().unwrap();
                    runs.execute_task(&task).await.unwrap();
                    runs.execute_task(&task).await.unwrap();
                    shared.clone().advance(task.run, TaskEvent::Ended(task)).await;
                });
            }
        })
    }
}

impl TaskScheduler for Shared {
    fn wake(&self, run: RunId) -> BoxFuture<'_, Result<(), SchedulerError>> {
        Box::pin(async move {
            self.0.tasks.spawn(self.clone().advance(run, TaskEvent::Wake));
            Ok(())
        })
    }

    fn deliver<'a>(&'a self, run: RunId, command: &'a str) -> BoxFuture<'a, Result<(), SchedulerError>> {
        Box::pin(async move {
            self.clone().advance(run, TaskEvent::Command(command.to_owned())).await;
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
    async fn new(scheduler: Option<Shared>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut options = Options::in_folder(folder.path().to_owned(), seal(folder.path()));
        let calls = Arc::new(AtomicUsize::new(0));
        options.library = library(Arc::clone(&calls));
        options.scheduler = scheduler.clone().map(|shared| Arc::new(shared) as _);
        let (engine, _) = Engine::open(options).await.unwrap();
        if let Some(shared) = scheduler {
            assert!(shared.0.runs.set(engine.runs.clone()).is_ok());
        }
        let session = engine.identity.admin_session().await.unwrap();
        Self { folder, engine, session, calls }
    }

    /// Starts a durable run of an agent.
    async fn start(&self, agent: &str) -> toolwright_agents::StartedRun {
        let agent = AgentPattern::parse(agent).unwrap();
        let request = AgentRequest { message: "World".into(), durable: Some(true), ..AgentRequest::default() };
        self.engine.agents.start(&self.session, AgentSource::Interpreted(&agent), request).await.unwrap()
    }

    /// Closes the engine, and returns the kinds of the entries of a run.
    async fn journal(self, run: RunId) -> Vec<String> {
        self.engine.close().await;
        let options = toolwright_store::StoreOptions {
            url: Location::Sqlite(self.folder.path().join("toolwright.db")),
            sync: toolwright_store::SyncMode::Disk,
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
async fn repeated_events_and_tasks_write_the_same_journal_as_a_local_driver() {
    let mut journals = Vec::new();
    for scheduler in [None, Some(Shared::default())] {
        let world = World::new(scheduler).await;
        let started = world.start(HELLO).await;
        let settled = world.engine.runs.settled(&started.handle).await.unwrap();
        assert_eq!(settled.run.status(), RunStatus::Completed);
        assert_eq!(world.calls.load(Ordering::SeqCst), 1);
        journals.push(world.journal(started.run).await);
    }
    assert_eq!(journals[0], journals[1], "with and without a scheduler");
}

#[tokio::test]
async fn repeated_approval_is_journaled_once() {
    let world = World::new(Some(Shared::default())).await;
    let careful = HELLO.replace("model:", "requiresApproval: true, model:");
    let careful = careful.replace("ToolSpecification {", "ToolSpecification { sideEffects: \"writes\",");
    let started = world.start(&careful).await;
    let waiting = world.engine.runs.settled(&started.handle).await.unwrap();
    assert_eq!(waiting.run.status(), RunStatus::AwaitingApproval);
    let call = waiting.run.pending_approvals()[0].call_id.clone();
    let decided = world.engine.runs.decide(&world.session, started.run, call.clone(), Decision::Approve).await;
    let settled = decided.unwrap().settled().await.unwrap();
    assert_eq!((settled.run.status(), world.calls.load(Ordering::SeqCst)), (RunStatus::Completed, 1));
    let kinds = world.journal(started.run).await;
    assert_eq!(kinds.iter().filter(|kind| *kind == "approval_decided").count(), 1, "{kinds:?}");
}
