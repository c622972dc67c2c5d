//! Defines the services that Restate calls: runs, which are virtual objects, and the tasks of runs.

use std::time::Duration;

use restate_sdk::prelude::*;
use serde::{Deserialize, Serialize};
use toolwright_runs::{Runs, Task, TaskEvent, TaskPlan};
use toolwright_types::RunId;

/// The name of the virtual object for runs in Restate.
pub(crate) const RUN_OBJECT: &str = "ToolwrightRun";

/// The maximum number of batches of tasks that one invocation executes. An invocation replays its batches after a
/// crash, so a long run is split into several invocations.
const MAX_BATCHES: usize = 100;

/// The virtual object for runs. Restate calls only one handler of a run at a time.
pub(crate) struct RunObject(pub Runs);

/// The service that executes tasks of runs. Restate calls it for any number of runs at a time.
pub(crate) struct TaskService(pub Runs);

// The number of retries is practically unlimited. A handler fails only if the store cannot be reached. If Restate
// stopped retrying, the run would never continue.
#[restate_sdk::object(
    name = "ToolwrightRun",
    client_visibility = "pub(crate)",
    journal_retention = "0s",
    idempotency_retention = "1h",
    invocation_retry_policy(initial_interval = "50ms", factor = 2.0, max_interval = "1s", max_attempts = 1000000000)
)]
impl RunObject {
    /// Wakes a run. The run then checks its timers, its child runs and its unfinished tasks.
    #[handler]
    async fn wake(&self, ctx: ObjectContext<'_>) -> HandlerResult<()> {
        self.advance(&ctx, TaskEvent::Wake).await
    }

    /// Informs a run that a command with this id is in its inbox.
    #[handler]
    async fn command(&self, ctx: ObjectContext<'_>, id: Json<String>) -> HandlerResult<()> {
        self.advance(&ctx, TaskEvent::Command(id.into_inner())).await
    }
}

impl RunObject {
    async fn advance(&self, ctx: &ObjectContext<'_>, event: TaskEvent) -> HandlerResult<()> {
        let run = parse_run_id(ctx.key())?;
        let runs = self.0.clone();
        let advanced = ctx.run(|| async move { Ok(Json(runs.advance(run, event).await?)) });
        let Json(plan) = advanced.name("advance").await?;
        if plan.tasks.is_empty() {
            wake_later(ctx, run, &plan);
        } else {
            ctx.service_client::<TaskServiceClient>().execute(Json(TaskBatch { run, tasks: plan.tasks })).send();
        }
        Ok(())
    }
}

/// Schedules the next wake-up of a run that has no tasks, and wakes the parent run if the run has ended.
fn wake_later<'ctx>(ctx: &impl ContextClient<'ctx>, run: RunId, plan: &TaskPlan) {
    if let Some(timer) = &plan.timer {
        let delay = Duration::from_millis(timer.in_ms);
        let key = format!("{run}/wake/{}", timer.key);
        ctx.object_client::<RunObjectClient>(run.to_string()).wake().idempotency_key(key).send_after(delay);
    }
    if let Some(parent) = plan.parent {
        ctx.object_client::<RunObjectClient>(parent.to_string()).wake().send();
    }
}

/// The input of an invocation: a run, and the tasks to execute first.
#[derive(Serialize, Deserialize)]
struct TaskBatch {
    run: RunId,
    tasks: Vec<Task>,
}

// A task may run for a long time without sending a message to Restate. The timeouts are therefore long. The time limit
// of the tool or model ends the task.
#[restate_sdk::service(
    name = "ToolwrightTask",
    client_visibility = "pub(crate)",
    ingress_private,
    journal_retention = "1h",
    inactivity_timeout = "1 day",
    abort_timeout = "1 day",
    invocation_retry_policy(initial_interval = "50ms", factor = 2.0, max_interval = "1s", max_attempts = 1000000000)
)]
impl TaskService {
    /// Executes tasks of a run and the tasks that follow, until the run has no tasks.
    #[handler]
    async fn execute(&self, ctx: Context<'_>, batch: Json<TaskBatch>) -> HandlerResult<()> {
        let TaskBatch { run, mut tasks } = batch.into_inner();
        for _ in 0..MAX_BATCHES {
            let (runs, invocation) = (self.0.clone(), ctx.invocation_id().to_owned());
            let name = batch_name(&tasks);
            let executed = ctx.run(|| async move { Ok(Json(runs.execute_tasks(run, &invocation, tasks).await?)) });
            let Json(plan) = executed.name(name).await?;
            if plan.tasks.is_empty() {
                wake_later(&ctx, run, &plan);
                return Ok(());
            }
            tasks = plan.tasks;
        }
        ctx.service_client::<TaskServiceClient>().execute(Json(TaskBatch { run, tasks })).send();
        Ok(())
    }
}

/// Returns the name that Restate's user interface shows: the name of the first task, and the number of the other tasks.
fn batch_name(tasks: &[Task]) -> String {
    match tasks {
        [] => String::new(),
        [task] => task.name.clone(),
        [first, others @ ..] => format!("{} and {} more", first.name, others.len()),
    }
}

fn parse_run_id(key: &str) -> Result<RunId, TerminalError> {
    key.parse().map_err(|_| TerminalError::new_with_code(400, format!("`{key}` is not a run id")))
}
