//! A simulated external scheduler. It repeats each request until a server replies, so no request is lost although
//! servers crash and replies get lost.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::sync::oneshot;
use toolwright_types::RunId;

use super::clients::{Servers, any_server};
use super::server::Server;
use super::world::World;
use crate::tasks::{Task, TaskEvent, TaskPlan};

/// How often idle runs are woken. A request to wake a run may not have reached the scheduler.
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
    /// The number of invocations that execute tasks.
    invocations: u64,
    /// The idempotency keys of the timers that were set.
    timers: BTreeSet<String>,
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

    /// Sends an event to servers until one of them replies, and executes the tasks that follow. The future is boxed
    /// because it is recursive: a timer is an event too.
    fn apply(self, run: RunId, event: TaskEvent) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            let plan = self.advance(run, &event).await;
            if plan.tasks.is_empty() {
                self.set_timer(run, plan);
            } else {
                tokio::spawn(self.execute(run, plan.tasks));
            }
        })
    }

    async fn advance(&self, run: RunId, event: &TaskEvent) -> TaskPlan {
        self.repeat(|server: Arc<Server>| {
            let event = event.clone();
            Box::pin(async move { server.stepper.advance(&server.host(), run, &(&event).into()).await.ok() })
        })
        .await
    }

    /// Executes tasks as one invocation, then the tasks that follow, until no tasks follow.
    async fn execute(self, run: RunId, mut tasks: Vec<Task>) {
        let invocation = self.next_invocation();
        loop {
            let request = |server: Arc<Server>| -> BoxFuture<'static, Option<TaskPlan>> {
                let (invocation, tasks) = (invocation.clone(), tasks.clone());
                Box::pin(async move { server.stepper.execute(&server.host(), run, &invocation, tasks).await.ok() })
            };
            let plan = self.repeat(request).await;
            if plan.tasks.is_empty() {
                return self.set_timer(run, plan);
            }
            tasks = plan.tasks;
        }
    }

    fn next_invocation(&self) -> String {
        let mut state = self.lock();
        state.invocations += 1;
        format!("invocation {}", state.invocations)
    }

    fn set_timer(&self, run: RunId, plan: TaskPlan) {
        let Some(timer) = plan.timer else { return };
        if self.lock().timers.insert(format!("{run}/wake/{}", timer.key)) {
            let scheduler = self.clone();
            tokio::spawn(async move {
                tokio::time::sleep(Duration::from_millis(timer.in_ms)).await;
                scheduler.apply(run, TaskEvent::Wake).await;
            });
        }
    }

    /// Sends a request until a server replies. Sometimes the reply is lost, and the request is repeated.
    async fn repeat(&self, request: impl Fn(Arc<Server>) -> BoxFuture<'static, Option<TaskPlan>>) -> TaskPlan {
        loop {
            if let Some(plan) = self.request(&request).await
                && !self.world.chance(100)
            {
                return plan;
            }
        }
    }

    /// Sends a request to any server; `None` if the server crashed or returned an error.
    async fn request(&self, request: impl Fn(Arc<Server>) -> BoxFuture<'static, Option<TaskPlan>>) -> Option<TaskPlan> {
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
