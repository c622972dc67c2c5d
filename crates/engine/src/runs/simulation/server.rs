//! A server: the real writer, lease, journals and drivers, over a simulated ledger.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio_util::sync::CancellationToken;
use toolwright_machine::AgentRun;
use toolwright_machine::journal::{self, Began, Checkpoint};
use toolwright_store::{Ledger, Mark, Writer, WriterOptions};
use toolwright_types::{Clock, PrincipalId, RealmScope, RunId, RunStatus};

use super::crew::Crew;
use super::wire::Wire;
use super::world::{World, home};
use crate::Unavailable;
use crate::runs::custody;
use crate::runs::journal::{Pace, RunJournal};
use crate::runs::lease::Lease;
use crate::runs::live::{Birth, Hub, LiveRun};
use crate::runs::load::Revived;
use crate::runs::ports::Host;
use crate::runs::signal::{SignalError, Wish};

/// What ends when a server dies.
pub struct Life {
    pub name: String,
    world: World,
    tasks: Mutex<Vec<AbortHandle>>,
    over: AtomicBool,
    pub ended: Notify,
}

impl Life {
    pub fn new(world: &World, name: String) -> Arc<Self> {
        let (world, tasks) = (world.clone(), Mutex::default());
        Arc::new(Self { name, world, tasks, over: AtomicBool::new(false), ended: Notify::new() })
    }

    pub fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        if !self.is_over() {
            let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
            tasks.retain(|task| !task.is_finished());
            tasks.push(tokio::spawn(task).abort_handle());
        }
    }

    /// A moment in which the server may die; then it is the last.
    pub async fn may_end(&self, moment: &str) {
        let death = self.world.truth().faults.death;
        if self.world.chance(death) {
            self.end(moment);
        }
        if self.is_over() {
            std::future::pending().await
        }
    }

    pub fn end(&self, moment: &str) {
        self.world.note(|| format!("{} dies {moment}", self.name));
        self.world.truth().deaths += 1;
        self.over.store(true, Ordering::Relaxed);
        for task in self.tasks.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            task.abort();
        }
        self.ended.notify_one();
    }
}

/// One server.
pub struct Server {
    pub world: World,
    pub life: Arc<Life>,
    pub wire: Arc<Wire>,
    lease: Arc<Lease>,
    writer: Writer,
    hub: Hub,
    lost: Mutex<Vec<(RunId, Wish)>>,
    pub leaving: CancellationToken,
    put_down: Notify,
}

impl Server {
    /// Starts one, if the ledger can be reached.
    pub async fn start(world: &World, life: Arc<Life>) -> Option<Arc<Self>> {
        let wire = Arc::new(Wire { world: world.clone(), life: Arc::clone(&life), cut: AtomicBool::new(false) });
        let (ledger, clock) = (Arc::clone(&wire) as Arc<dyn Ledger>, Arc::new(world.clone()) as Arc<dyn Clock>);
        let lease = Arc::new(Lease::take(Arc::clone(&ledger), Arc::clone(&clock), true).await.ok()?);
        let options = WriterOptions::default();
        let (writer, service) = toolwright_store::writer(ledger, clock, lease.server().clone(), options);
        life.spawn(service.run(CancellationToken::new()));
        life.spawn(Arc::clone(&lease).keep(CancellationToken::new()));
        let server = Arc::new(Self {
            world: world.clone(),
            life: Arc::clone(&life),
            wire,
            lease,
            writer,
            hub: Hub::default(),
            lost: Mutex::default(),
            leaving: CancellationToken::new(),
            put_down: Notify::new(),
        });
        life.spawn(Arc::clone(&server).look_after_runs());
        Some(server)
    }

    pub fn host(self: &Arc<Self>) -> Arc<dyn Host> {
        Arc::clone(self) as _
    }

    pub async fn send(self: &Arc<Self>, run: RunId, wish: Wish) -> Result<(), SignalError> {
        let live = self.hub.get_or_insert(run);
        custody::send(&self.host(), &live, &home(), wish).await
    }

    /// Takes up what lost servers left, and wakes what is due.
    async fn look_after_runs(self: Arc<Self>) {
        loop {
            if self.wire.read().await.is_ok() {
                let lost = std::mem::take(&mut *self.lost.lock().unwrap_or_else(PoisonError::into_inner));
                let neglected = self.neglected().into_iter().map(|run| (run, Wish::Wake));
                for (run, wish) in neglected.chain(lost) {
                    let (server, live) = (Arc::clone(&self), self.hub.get_or_insert(run));
                    if !live.is_driven() {
                        self.life.spawn(async move {
                            let sent = server.send(run, wish.clone()).await;
                            if sent.or_else(SignalError::unless_elsewhere).is_err() {
                                server.lost(run, &home(), wish);
                            }
                        });
                    }
                }
            }
            tokio::select! {
                biased;
                () = self.put_down.notified() => {}
                () = tokio::time::sleep(Duration::from_secs(5)) => {}
            }
        }
    }

    fn neglected(&self) -> Vec<RunId> {
        let now = self.world.now();
        let truth = self.world.truth();
        let held = |driver: &Option<String>| {
            driver.as_ref().and_then(|driver| truth.leases.get(driver)).is_some_and(|until| *until > now)
        };
        let rows = truth.rows.iter().filter(|(_, row)| {
            let abandoned = row.state.status == RunStatus::Running && !held(&row.driver);
            let due = row.state.ended_at.is_none() && row.state.wake_at.is_some_and(|at| at <= now);
            abandoned || due
        });
        rows.map(|(run, _)| *run).collect()
    }
}

impl Host for Server {
    fn clock(&self) -> &dyn Clock {
        &self.world
    }

    fn lease(&self) -> &Lease {
        &self.lease
    }

    fn writer(&self) -> &Writer {
        &self.writer
    }

    fn hub(&self) -> &Hub {
        &self.hub
    }

    fn spawn(&self, _: RunId, driving: BoxFuture<'static, ()>) {
        self.life.spawn(driving);
    }

    fn revive<'a>(
        &'a self,
        live: &'a Arc<LiveRun>,
        home: &'a Arc<RealmScope>,
    ) -> BoxFuture<'a, Result<Option<Revived>, Unavailable>> {
        Box::pin(async move {
            self.wire.read().await?;
            let truth = self.world.truth();
            let Some(row) = truth.rows.get(&live.id) else { return Ok(None) };
            let (entries, parted) = (row.entries.clone(), row.state.status.is_end());
            let checkpoint = row.checkpoint.clone();
            drop(truth);
            let read = entries.iter().map(|entry| journal::Entry::read(entry.n, entry.at, &entry.body));
            let read: Vec<journal::Entry> = read.collect::<Result<_, _>>().expect("what was written can be read");
            let (began, run) = journal::replay(read.clone()).expect("what was written makes a run");
            if let Some(stored) = checkpoint {
                let checkpoint = AgentRun::restore(&stored.body).expect("what was saved is a run");
                let from = journal::replay_from(Some(Checkpoint { n: stored.n, run: checkpoint }), read);
                if from.ok().is_none_or(|(_, other)| other != run) {
                    self.world.violation(format!("{}: from its checkpoint it is another run", live.id));
                }
            }
            let began = Arc::new(began);
            let last = entries.last().map(|last| Mark { n: last.n, hash: last.hash });
            let entries = entries.into_iter().map(Arc::new).collect();
            let owner = PrincipalId::from_bits(1);
            live.recall(Birth { began: Arc::clone(&began), home: Arc::clone(home), owner }, entries);
            let journal =
                RunJournal::new(self.writer.clone(), Arc::clone(live), home.realm, last, Pace::of(began.durable));
            let crew =
                Crew { world: self.world.clone(), life: Arc::clone(&self.life), run: live.id, durable: began.durable };
            Ok(Some(Revived { began, run, journal, crew: Arc::new(crew), parted }))
        })
    }

    fn stop(&self) -> &CancellationToken {
        &self.leaving
    }

    fn put_down(&self) {
        self.put_down.notify_one();
    }

    fn lost(&self, run: RunId, _: &Arc<RealmScope>, wish: Wish) {
        self.world.note(|| format!("{} has lost {run}", self.life.name));
        self.lost.lock().unwrap_or_else(PoisonError::into_inner).push((run, wish));
    }

    fn has_ended<'a>(&'a self, _: &'a RealmScope, run: RunId) -> BoxFuture<'a, bool> {
        Box::pin(async move {
            let now = self.world.now();
            self.wire.read().await.is_ok() && self.world.truth().children.get(&run).is_some_and(|end| *end <= now)
        })
    }

    fn cancel_children<'a>(self: Arc<Self>, _: &'a LiveRun, _: &'a Arc<RealmScope>, _: &'a Began) -> BoxFuture<'a, ()> {
        Box::pin(std::future::ready(()))
    }

    fn tell_parent(self: Arc<Self>, _: &Began, _: &Arc<RealmScope>) {}
}
