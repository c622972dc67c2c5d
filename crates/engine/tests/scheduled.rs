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
use std::sync::{Arc, Barrier, OnceLock};

use futures::future::BoxFuture;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio_util::task::TaskTracker;
use toolwright_agents::{AgentPattern, AgentRequest, AgentSource};
use toolwright_catalog::Session;
use toolwright_engine::{Engine, Options};
use toolwright_machine::agent::Decision;
use toolwright_runs::Runs;
use toolwright_runs::{SchedulerError, Task, TaskEvent, TaskScheduler};
use toolwright_store::{Location, SealKey, Store};
use toolwright_tools::{FunctionTool, Library};
use toolwright_types::{RunId, RunStatus, SystemClock};

const HELLO: &str = include_str!("../../../examples/hello_world.gram");

/// A scheduler that ignores the first reply to each request and sends the request again.
#[derive(Default)]
struct RepeatingScheduler {
    runs: OnceLock<Runs>,
    tasks: TaskTracker,
    invocations: AtomicUsize,
}

/// A cloneable handle to the scheduler.
#[derive(Clone, Default)]
struct Shared(Arc<RepeatingScheduler>);

impl Shared {
    async fn advance(self, run: RunId, event: TaskEvent) {
        let runs = self.0.runs.get().unwrap();
        runs.advance(run, event.clone()).await.unwrap();
        let plan = runs.advance(run, event).await.unwrap();
        self.0.tasks.spawn(self.clone().execute(run, plan.tasks));
    }

    async fn execute(self, run: RunId, mut tasks: Vec<Task>) {
        let runs = self.0.runs.get().unwrap();
        let invocation = self.0.invocations.fetch_add(1, Ordering::SeqCst).to_string();
        while !tasks.is_empty() {
            runs.execute_tasks(run, &invocation, tasks.clone()).await.unwrap();
            tasks = runs.execute_tasks(run, &invocation, tasks).await.unwrap().tasks;
        }
    }
}

impl TaskScheduler for Shared {
    fn check(&self) -> BoxFuture<'_, Result<(), SchedulerError>> {
        Box::pin(async { Ok(()) })
    }

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
    tool: Arc<SlowTool>,
}

/// The tool that the agents of these tests call. A test can delay the end of a call.
#[derive(Default)]
struct SlowTool {
    /// How often the tool was called.
    calls: AtomicUsize,
    /// If set, a call ends only when the test waits at this barrier too.
    barrier: OnceLock<Barrier>,
    started: Notify,
}

impl World {
    async fn new(scheduler: Option<Shared>) -> Self {
        let world = Self::with_scheduler(scheduler.clone().map(|shared| Arc::new(shared) as _)).await;
        if let Some(shared) = scheduler {
            assert!(shared.0.runs.set(world.engine.runs.clone()).is_ok());
        }
        world
    }

    async fn with_scheduler(scheduler: Option<Arc<dyn TaskScheduler>>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut options = Options::in_folder(folder.path().to_owned(), seal(folder.path()));
        let tool = Arc::new(SlowTool::default());
        options.library = library(Arc::clone(&tool));
        options.scheduler = scheduler;
        let (engine, _) = Engine::open(options).await.unwrap();
        let session = engine.identity.admin_session().await.unwrap();
        Self { folder, engine, session, tool }
    }

    /// How often the tool was called.
    fn calls(&self) -> usize {
        self.tool.calls.load(Ordering::SeqCst)
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

fn library(tool: Arc<SlowTool>) -> Library {
    let schema = json!({ "type": "object", "properties": { "personName": { "type": "string" } } });
    let hello = FunctionTool::erase("sayHello", "Greets", schema, move |input: Value| {
        tool.calls.fetch_add(1, Ordering::SeqCst);
        tool.started.notify_one();
        if let Some(barrier) = tool.barrier.get() {
            barrier.wait();
        }
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
        assert_eq!(world.calls(), 1);
        journals.push(world.journal(started.run).await);
    }
    assert_eq!(journals[0], journals[1], "with and without a scheduler");
}

/// A scheduler that does nothing.
struct Idle;

impl TaskScheduler for Idle {
    fn check(&self) -> BoxFuture<'_, Result<(), SchedulerError>> {
        Box::pin(async { Ok(()) })
    }

    fn wake(&self, _: RunId) -> BoxFuture<'_, Result<(), SchedulerError>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn deliver<'a>(&'a self, _: RunId, _: &'a str) -> BoxFuture<'a, Result<(), SchedulerError>> {
        Box::pin(std::future::ready(Ok(())))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn second_invocation_does_not_execute_a_running_task() {
    let world = World::with_scheduler(Some(Arc::new(Idle))).await;
    let (runs, started) = (world.engine.runs.clone(), world.start(HELLO).await);
    let wake = async || runs.advance(started.run, TaskEvent::Wake).await.unwrap();
    let model = wake().await.tasks;
    let call = runs.execute_tasks(started.run, "first", model).await.unwrap().tasks;
    assert_eq!(call.len(), 1);
    let tool = Arc::clone(&world.tool);
    assert!(tool.barrier.set(Barrier::new(2)).is_ok());
    let mut first = JoinSet::new();
    let (same, run, again) = (runs.clone(), started.run, call.clone());
    first.spawn(async move { same.execute_tasks(run, "first", again).await.unwrap() });
    tool.started.notified().await;
    // The second invocation ends at once, although the call of the first invocation is still running.
    let plan = runs.execute_tasks(started.run, "second", wake().await.tasks).await.unwrap();
    assert!(plan.tasks.is_empty() && plan.timer.is_none(), "{plan:?}");
    tokio::task::spawn_blocking(move || tool.barrier.get().map(Barrier::wait)).await.unwrap();
    let plan = first.join_next().await.unwrap().unwrap();
    let repeated = runs.execute_tasks(started.run, "first", call).await.unwrap();
    assert_eq!((plan.tasks.len(), repeated.tasks.len()), (1, 1), "the model reads the result: {plan:?} {repeated:?}");
    assert_eq!(world.calls(), 1);
}

#[tokio::test]
async fn approval_that_is_delivered_twice_is_journaled_once() {
    let world = World::new(Some(Shared::default())).await;
    let careful = HELLO.replace("model:", "requiresApproval: true, model:");
    let careful = careful.replace("ToolSpecification {", "ToolSpecification { sideEffects: \"writes\",");
    let started = world.start(&careful).await;
    let waiting = world.engine.runs.settled(&started.handle).await.unwrap();
    assert_eq!(waiting.run.status(), RunStatus::AwaitingApproval);
    let call = waiting.run.pending_approvals()[0].call_id.clone();
    let decided = world.engine.runs.decide(&world.session, started.run, call.clone(), Decision::Approve, None).await;
    let settled = decided.unwrap().settled().await.unwrap();
    assert_eq!((settled.run.status(), world.calls()), (RunStatus::Completed, 1));
    let kinds = world.journal(started.run).await;
    assert_eq!(kinds.iter().filter(|kind| *kind == "approval_decided").count(), 1, "{kinds:?}");
}
