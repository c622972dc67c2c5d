//! A simulated server: its writer, lease, journals, drivers and stepper are real, and its database is simulated.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio_util::sync::CancellationToken;
use toolwright_machine::AgentRun;
use toolwright_machine::journal::{self, Checkpoint, RunStart};
use toolwright_store::{JournalPosition, RunStore, ServerId, Writer, WriterOptions};
use toolwright_types::{CallId, Clock, Owner, PrincipalId, RealmScope, RunId, RunStatus};

use super::connection::Connection;
use super::executor::SimulatedExecutor;
use super::scheduler::Scheduler;
use super::world::{SCHEDULER, World, home};
use crate::command::{CommandError, RunCommand};
use crate::command_reply::decode_reply;
use crate::journal::{FlushPolicy, RunJournal};
use crate::lease::Lease;
use crate::lifecycle;
use crate::ports::{DriverHost, LoadedRun, ParentCommand, TaskStore};
use crate::registry::{RunHandle, RunMeta, RunRegistry};
use crate::tasks::Stepper;
use toolwright_catalog::Unavailable;

/// The tasks of a server. They are aborted when the server crashes.
pub(super) struct Lifetime {
    pub name: String,
    world: World,
    tasks: Mutex<Vec<AbortHandle>>,
    over: AtomicBool,
    pub ended: Notify,
}

impl Lifetime {
    pub(super) fn new(world: &World, name: String) -> Arc<Self> {
        let (world, tasks) = (world.clone(), Mutex::default());
        Arc::new(Self { name, world, tasks, over: AtomicBool::new(false), ended: Notify::new() })
    }

    pub(super) fn has_crashed(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    pub(super) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        if !self.has_crashed() {
            let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
            tasks.retain(|task| !task.is_finished());
            tasks.push(tokio::spawn(task).abort_handle());
        }
    }

    /// Crashes the server at this point, with the configured probability.
    pub(super) async fn maybe_crash(&self, moment: &str) {
        let crash = self.world.state().faults.crash;
        if self.world.chance(crash) {
            self.end(moment);
        }
        if self.has_crashed() {
            std::future::pending().await
        }
    }

    pub(super) fn end(&self, moment: &str) {
        self.world.note(|| format!("{} crashes {moment}", self.name));
        self.world.state().crashes += 1;
        self.over.store(true, Ordering::Relaxed);
        for task in self.tasks.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            task.abort();
        }
        self.ended.notify_one();
    }
}

/// A simulated server.
pub(super) struct Server {
    pub world: World,
    pub lifetime: Arc<Lifetime>,
    pub connection: Arc<Connection>,
    pub lease: Arc<Lease>,
    writer: Writer,
    pub stepper: Arc<Stepper>,
    scheduler: Scheduler,
    registry: RunRegistry,
    to_recover: Mutex<Vec<(RunId, RunCommand)>>,
    pub leaving: CancellationToken,
    suspended: Notify,
}

impl Server {
    /// Starts a server; `None` if the database cannot be reached.
    pub(super) async fn start(world: &World, lifetime: Arc<Lifetime>, scheduler: Scheduler) -> Option<Arc<Self>> {
        let connection = Arc::new(Connection {
            world: world.clone(),
            lifetime: Arc::clone(&lifetime),
            disconnected: AtomicBool::new(false),
        });
        let (ledger, clock) = (Arc::clone(&connection) as Arc<dyn RunStore>, Arc::new(world.clone()) as Arc<dyn Clock>);
        let lease = Arc::new(Lease::take(Arc::clone(&ledger), Arc::clone(&clock), true).await.ok()?);
        let options = WriterOptions::default();
        let (writer, service) =
            toolwright_store::writer(Arc::clone(&ledger), Arc::clone(&clock), lease.server().clone(), options);
        lifetime.spawn(service.run(CancellationToken::new()));
        let options = WriterOptions::default();
        let (scheduled, service) = toolwright_store::writer(ledger, clock, ServerId::scheduler(), options);
        lifetime.spawn(service.run(CancellationToken::new()));
        let stepper = Arc::new(Stepper::new(Arc::clone(&connection) as _, scheduled));
        lifetime.spawn(Arc::clone(&lease).keep(CancellationToken::new()));
        let server = Arc::new(Self {
            world: world.clone(),
            lifetime: Arc::clone(&lifetime),
            connection,
            lease,
            writer,
            stepper,
            scheduler,
            registry: RunRegistry::default(),
            to_recover: Mutex::default(),
            leaving: CancellationToken::new(),
            suspended: Notify::new(),
        });
        lifetime.spawn(Arc::clone(&server).recover_and_wake());
        Some(server)
    }

    pub(super) fn host(self: &Arc<Self>) -> Arc<dyn DriverHost> {
        Arc::clone(self) as _
    }

    pub(super) async fn send(self: &Arc<Self>, run: RunId, command: RunCommand) -> Result<(), CommandError> {
        if self.world.is_scheduled(run) {
            return self.send_through_inbox(run, command).await;
        }
        let handle = self.registry.get_or_insert(run);
        lifecycle::send(&self.host(), &handle, &home(), command).await
    }

    /// Sends a command to a run that the scheduler drives, and waits for the reply.
    async fn send_through_inbox(&self, run: RunId, command: RunCommand) -> Result<(), CommandError> {
        if matches!(command, RunCommand::Wake) {
            self.scheduler.wake(run);
            return Ok(());
        }
        let id = format!("cmd_{}", self.world.state().random.below(u64::MAX));
        let body = serde_json::to_string(&command).expect("a command is JSON");
        self.connection.inbox_put(run, &id, body).await.map_err(Unavailable::from)?;
        self.scheduler.deliver(run, id.clone()).await;
        let item = self.connection.inbox_get(run, &id).await.map_err(Unavailable::from)?;
        let reply = item.and_then(|item| item.reply).ok_or_else(|| Unavailable::new("no reply", "none"))?;
        decode_reply(&reply)
    }

    /// Repeatedly sends a command to each run that needs a driver: runs of a server whose lease ended, runs whose wake
    /// time has passed, and runs that `recover_later` registered.
    async fn recover_and_wake(self: Arc<Self>) {
        loop {
            if self.connection.read().await.is_ok() {
                let to_recover = std::mem::take(&mut *self.to_recover.lock().unwrap_or_else(PoisonError::into_inner));
                let abandoned_or_due = self.abandoned_or_due().into_iter().map(|run| (run, RunCommand::Wake));
                for (run, command) in abandoned_or_due.chain(to_recover) {
                    let (server, handle) = (Arc::clone(&self), self.registry.get_or_insert(run));
                    if !handle.is_driven() {
                        self.lifetime.spawn(async move {
                            let sent = server.send(run, command.clone()).await;
                            if sent.or_else(CommandError::ignore_not_ours).is_err() {
                                server.recover_later(run, &home(), command);
                            }
                        });
                    }
                }
            }
            tokio::select! {
                biased;
                () = self.suspended.notified() => {}
                () = tokio::time::sleep(Duration::from_secs(5)) => {}
            }
        }
    }

    fn abandoned_or_due(&self) -> Vec<RunId> {
        let now = self.world.now();
        let state = self.world.state();
        let held = |driver: &Option<String>| {
            driver.as_ref().and_then(|driver| state.leases.get(driver)).is_some_and(|until| *until > now)
        };
        let rows = state.rows.iter().filter(|(_, row)| {
            let scheduled = row.driver.as_deref() == Some(SCHEDULER);
            let needs_driver = row.state.status == RunStatus::Running || row.driver.is_some();
            let abandoned = !row.state.status.is_terminal() && needs_driver && !held(&row.driver);
            let due = row.state.ended_at.is_none() && row.state.wake_at.is_some_and(|at| at <= now);
            !scheduled && (abandoned || due)
        });
        rows.map(|(run, _)| *run).collect()
    }
}

impl DriverHost for Server {
    fn clock(&self) -> &dyn Clock {
        &self.world
    }

    fn lease(&self) -> &Lease {
        &self.lease
    }

    fn writer(&self) -> &Writer {
        &self.writer
    }

    fn registry(&self) -> &RunRegistry {
        &self.registry
    }

    fn spawn(&self, _: RunId, driving: BoxFuture<'static, ()>) {
        self.lifetime.spawn(driving);
    }

    fn load_run<'a>(
        &'a self,
        handle: &'a Arc<RunHandle>,
        home: &'a Arc<RealmScope>,
    ) -> BoxFuture<'a, Result<Option<LoadedRun>, Unavailable>> {
        Box::pin(async move {
            self.connection.read().await?;
            let state = self.world.state();
            let Some(row) = state.rows.get(&handle.id) else { return Ok(None) };
            let (entries, end_persisted) = (row.entries.clone(), row.state.status.is_terminal());
            let checkpoint = row.checkpoint.clone();
            drop(state);
            let read = entries.iter().map(|entry| journal::Entry::parse(entry.n, entry.at, &entry.body));
            let read: Vec<journal::Entry> = read.collect::<Result<_, _>>().expect("what was written can be read");
            let (start, run) = journal::replay(read.clone()).expect("what was written makes a run");
            if let Some(stored) = checkpoint {
                let checkpoint = AgentRun::restore(&stored.body).expect("what was saved is a run");
                let from = journal::replay_from(Some(Checkpoint { n: stored.n, run: checkpoint }), read);
                if from.ok().is_none_or(|(_, other)| other != run) {
                    self.world.violation(format!("{}: from its checkpoint it is another run", handle.id));
                }
            }
            let start = Arc::new(start);
            let last = entries.last().map(|last| JournalPosition { n: last.n, hash: last.hash });
            let entries = entries.into_iter().map(Arc::new).collect();
            let owner = Owner::new(PrincipalId::from_bits(1));
            handle.set_history(RunMeta { start: Arc::clone(&start), home: Arc::clone(home), owner }, entries);
            let journal = RunJournal::new(
                self.writer.clone(),
                Arc::clone(handle),
                home.realm,
                last,
                FlushPolicy::of(start.durable),
            );
            let executor = SimulatedExecutor {
                world: self.world.clone(),
                lifetime: Arc::clone(&self.lifetime),
                run: handle.id,
                durable: start.durable,
                server: self.lease.server().to_string(),
            };
            Ok(Some(LoadedRun { start, run, journal, executor: Arc::new(executor), end_persisted }))
        })
    }

    fn stop(&self) -> &CancellationToken {
        &self.leaving
    }

    fn run_suspended(&self) {
        self.suspended.notify_one();
    }

    fn recover_later(&self, run: RunId, _: &Arc<RealmScope>, command: RunCommand) {
        self.world.note(|| format!("{} has lost {run}", self.lifetime.name));
        self.to_recover.lock().unwrap_or_else(PoisonError::into_inner).push((run, command));
    }

    fn has_ended<'a>(&'a self, _: &'a RealmScope, run: RunId) -> BoxFuture<'a, bool> {
        Box::pin(async move {
            let now = self.world.now();
            self.connection.read().await.is_ok() && self.world.state().children.get(&run).is_some_and(|end| *end <= now)
        })
    }

    fn cancel_children<'a>(
        self: Arc<Self>,
        _: &'a RunHandle,
        _: &'a Arc<RealmScope>,
        _: &'a RunStart,
    ) -> BoxFuture<'a, ()> {
        Box::pin(std::future::ready(()))
    }

    fn abandon_children<'a>(
        self: Arc<Self>,
        _: &'a RunHandle,
        _: &'a Arc<RealmScope>,
        _: &'a [CallId],
    ) -> BoxFuture<'a, ()> {
        Box::pin(std::future::ready(()))
    }

    fn notify_parent(self: Arc<Self>, _: &RunStart, _: &Arc<RealmScope>, _: ParentCommand) {}
}
