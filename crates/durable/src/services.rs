//! Defines the services that Restate calls: runs, which are virtual objects, and the tasks of runs.

use std::time::Duration;

use restate_sdk::prelude::*;
use toolwright_runs::{Runs, Task, TaskEvent, TaskPlan};
use toolwright_types::RunId;

/// The name of the virtual object for runs in Restate.
pub(crate) const RUN_OBJECT: &str = "ToolwrightRun";

/// The virtual object for runs. Restate calls only one handler of a run at a time.
pub(crate) struct RunObject(pub Runs);

/// The service that executes tasks of runs. Restate may execute any number of tasks in parallel.
pub(crate) struct TaskService(pub Runs);

// The number of retries is practically unlimited. A handler fails only if the store cannot be reached, and the run
// would be lost if Restate stopped retrying.
#[restate_sdk::object(
    name = "ToolwrightRun",
    client_visibility = "pub(crate)",
    journal_retention = "0s",
    idempotency_retention = "1h",
    invocation_retry_policy(initial_interval = "50ms", factor = 2.0, max_interval = "1s", max_attempts = 1000000000)
)]
impl RunObject {
    /// Wakes a run: it checks its timers, its child runs and its unfinished tasks.
    #[handler]
    async fn wake(&self, ctx: ObjectContext<'_>) -> HandlerResult<()> {
        self.advance(&ctx, TaskEvent::Wake).await
    }

    /// Tells a run that one of its tasks has ended or was lost.
    #[handler(ingress_private)]
    async fn task_ended(&self, ctx: ObjectContext<'_>, task: Json<Task>) -> HandlerResult<()> {
        self.advance(&ctx, TaskEvent::Ended(task.into_inner())).await
    }

    /// Tells a run that a command with this id is in its inbox.
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
        let Json(TaskPlan { tasks, timer, parent }) = advanced.name("advance").await?;
        for task in tasks {
            let key = format!("{run}/{}", task.id());
            ctx.service_client::<TaskServiceClient>().execute(Json(task)).idempotency_key(key).send();
        }
        if let Some(timer) = timer {
            let delay = Duration::from_millis(timer.in_ms);
            let key = format!("{run}/wake/{}", timer.key);
            ctx.object_client::<RunObjectClient>(run.to_string()).wake().idempotency_key(key).send_after(delay);
        }
        if let Some(parent) = parent {
            ctx.object_client::<RunObjectClient>(parent.to_string()).wake().send();
        }
        Ok(())
    }
}

// A task may run for a long time without sending a message to Restate. The timeouts are therefore long. The time limit
// of the tool or model ends the task.
#[restate_sdk::service(
    name = "ToolwrightTask",
    client_visibility = "pub(crate)",
    ingress_private,
    journal_retention = "1h",
    idempotency_retention = "1h",
    inactivity_timeout = "1 day",
    abort_timeout = "1 day",
    invocation_retry_policy(initial_interval = "50ms", factor = 2.0, max_interval = "1s", max_attempts = 1000000000)
)]
impl TaskService {
    /// Executes a task and then notifies its run.
    #[handler]
    async fn execute(&self, ctx: Context<'_>, task: Json<Task>) -> HandlerResult<()> {
        let task = task.into_inner();
        let (runs, executed) = (self.0.clone(), task.clone());
        ctx.run(|| async move { Ok(runs.execute_task(&executed).await?) }).name(task.name.clone()).await?;
        ctx.object_client::<RunObjectClient>(task.run.to_string()).task_ended(Json(task)).send();
        Ok(())
    }
}

fn parse_run_id(key: &str) -> Result<RunId, TerminalError> {
    key.parse().map_err(|_| TerminalError::new_with_code(400, format!("`{key}` is not a run id")))
}
