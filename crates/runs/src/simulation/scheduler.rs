//! A simulated external scheduler. It repeats a request until a server replies, and it advances each run by one event
//! at a time. It loses no request, although servers crash and replies get lost.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::sync::oneshot;
use toolwright_types::RunId;

use super::clients::{Servers, any_server};
use super::server::Server;
use super::world::World;
use crate::tasks::{Task, TaskEvent, TaskPlan};

/// How often idle runs are woken, in case a request to the scheduler was lost.
const IDLE_WAKE: Duration = Duration::from_secs(60);

/// The scheduler. Clones share it.
#[derive(Clone)]
pub(super) struct Scheduler {
    world: World,
    servers: Servers,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    /// A lock for each run, so that the scheduler advances the run by one event at a time.
    turns: BTreeMap<RunId, Arc<tokio::sync::Mutex<()>>>,
    /// The idempotency keys of the tasks and timers that were scheduled.
    scheduled: BTreeSet<String>,
}

impl Scheduler {
    pub(super) fn new(world: &World, servers: &Servers) -> Self {
        let scheduler = Self { world: world.clone(), servers: Arc::clone(servers), state: Arc::default() };
        tokio::spawn(scheduler.clone().wake_idle_runs());
        scheduler
    }

    /// Wakes a run soon.
    pub(super) fn wake(&self, run: RunId) {
        tokio::spawn(self.clone().apply(run, TaskEvent::Wake));
    }

    /// Delivers a command, and returns when the run has replied.
    pub(super) async fn deliver(&self, run: RunId, command: String) {
        self.clone().apply(run, TaskEvent::Command(command)).await;
    }

    async fn wake_idle_runs(self) {
        loop {
            tokio::time::sleep(IDLE_WAKE).await;
            for run in self.world.scheduled_runs() {
                self.wake(run);
            }
        }
    }

    /// Sends an event to servers until one of them replies. The future is boxed because it is recursive: the end of a
    /// task is an event too.
    fn apply(self, run: RunId, event: TaskEvent) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            let turn = Arc::clone(self.lock().turns.entry(run).or_default());
            let turn = turn.lock().await;
            let mut plan = self.advance(run, &event).await;
            // The reply was lost: the scheduler repeats the request.
            if self.world.chance(100) {
                plan = self.advance(run, &event).await;
            }
            drop(turn);
            for task in plan.tasks {
                if self.lock().scheduled.insert(format!("{run}/{}", task.id())) {
                    tokio::spawn(self.clone().execute(task));
                }
            }
            if let Some(timer) = plan.timer
                && self.lock().scheduled.insert(format!("{run}/wake/{}", timer.key))
            {
                let scheduler = self.clone();
                tokio::spawn(async move {
                    tokio::time::sleep(Duration::from_millis(timer.in_ms)).await;
                    scheduler.apply(run, TaskEvent::Wake).await;
                });
            }
        })
    }

    async fn advance(&self, run: RunId, event: &TaskEvent) -> TaskPlan {
        loop {
            let event = event.clone();
            let request = move |server: Arc<Server>| -> BoxFuture<'static, Option<TaskPlan>> {
                Box::pin(async move { server.stepper.advance(&server.host(), run, &event).await.ok() })
            };
            if let Some(plan) = self.request(request).await {
                return plan;
            }
        }
    }

    async fn execute(self, task: Task) {
        loop {
            let executed = task.clone();
            let request = move |server: Arc<Server>| -> BoxFuture<'static, Option<()>> {
                Box::pin(async move { server.stepper.execute(&server.host(), &executed).await.ok() })
            };
            if self.request(request).await.is_some() {
                break;
            }
        }
        self.apply(task.run, TaskEvent::Ended(task)).await;
    }

    /// Sends a request to any server; `None` if the server crashed or returned an error.
    async fn request<T, F>(&self, request: F) -> Option<T>
    where
        T: Send + 'static,
        F: FnOnce(Arc<Server>) -> BoxFuture<'static, Option<T>>,
    {
        let answer = match any_server(&self.world, &self.servers) {
            None => None,
            Some(server) => {
                let (answered, answer) = oneshot::channel();
                let work = request(Arc::clone(&server));
                server.lifetime.spawn(async move {
                    let _ = answered.send(work.await);
                });
                // A server that crashes drops the sender.
                answer.await.ok().flatten()
            }
        };
        if answer.is_none() {
            self.world.sleep_random(|random| Duration::from_millis(200) + random.millis(1_000)).await;
        }
        answer
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
