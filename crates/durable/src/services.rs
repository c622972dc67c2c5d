//! What Restate calls: runs as objects, and the steps that they ask for.

use std::time::Duration;

use restate_sdk::prelude::*;
use toolwright_engine::Runs;
use toolwright_engine::runs::{News, Orders, Step};
use toolwright_types::RunId;

/// The name that runs are known to Restate by.
pub(crate) const RUN_OBJECT: &str = "ToolwrightRun";

/// Runs. One thing at a time happens to each of them.
pub(crate) struct RunObject(pub Runs);

/// The steps of runs. Any number of them go on side by side.
pub(crate) struct StepService(pub Runs);

// A handler that fails is tried again until it does not: it fails only when the store cannot be reached, and the run is
// lost if Restate gives up.
#[restate_sdk::object(
    name = "ToolwrightRun",
    client_visibility = "pub(crate)",
    journal_retention = "0s",
    idempotency_retention = "1h",
    invocation_retry_policy(initial_interval = "50ms", factor = 2.0, max_interval = "1s", max_attempts = 1000000000)
)]
impl RunObject {
    /// Looks at the clock, at the runs that this one has started, and at what was handed out and never came back.
    #[handler]
    async fn wake(&self, ctx: ObjectContext<'_>) -> HandlerResult<()> {
        self.advance(&ctx, News::Wake).await
    }

    /// A step was made, or lost.
    #[handler(ingress_private)]
    async fn happened(&self, ctx: ObjectContext<'_>, step: Json<Step>) -> HandlerResult<()> {
        self.advance(&ctx, News::Step(step.into_inner())).await
    }

    /// Somebody has said something, which is in the store under this id.
    #[handler]
    async fn hear(&self, ctx: ObjectContext<'_>, said: Json<String>) -> HandlerResult<()> {
        self.advance(&ctx, News::Said(said.into_inner())).await
    }
}

impl RunObject {
    async fn advance(&self, ctx: &ObjectContext<'_>, news: News) -> HandlerResult<()> {
        let run = run_of(ctx.key())?;
        let runs = self.0.clone();
        let advanced = ctx.run(|| async move { Ok(Json(runs.advance(run, news).await?)) });
        let Json(Orders { steps, alarm, parent }) = advanced.name("advance").await?;
        for step in steps {
            let key = format!("{run}/{}", step.id());
            ctx.service_client::<StepServiceClient>().perform(Json(step)).idempotency_key(key).send();
        }
        if let Some(alarm) = alarm {
            let delay = Duration::from_millis(alarm.in_ms);
            let key = format!("{run}/wake/{}", alarm.key);
            ctx.object_client::<RunObjectClient>(run.to_string()).wake().idempotency_key(key).send_after(delay);
        }
        if let Some(parent) = parent {
            ctx.object_client::<RunObjectClient>(parent.to_string()).wake().send();
        }
        Ok(())
    }
}

// A step may take long, and says nothing meanwhile: what bounds it is the time limit of its tool or model.
#[restate_sdk::service(
    name = "ToolwrightStep",
    client_visibility = "pub(crate)",
    ingress_private,
    journal_retention = "1h",
    idempotency_retention = "1h",
    inactivity_timeout = "1 day",
    abort_timeout = "1 day",
    invocation_retry_policy(initial_interval = "50ms", factor = 2.0, max_interval = "1s", max_attempts = 1000000000)
)]
impl StepService {
    /// Makes a step, and lets the run know.
    #[handler]
    async fn perform(&self, ctx: Context<'_>, step: Json<Step>) -> HandlerResult<()> {
        let step = step.into_inner();
        let (runs, made) = (self.0.clone(), step.clone());
        ctx.run(|| async move { Ok(runs.perform(&made).await?) }).name(step.name.clone()).await?;
        ctx.object_client::<RunObjectClient>(step.run.to_string()).happened(Json(step)).send();
        Ok(())
    }
}

fn run_of(key: &str) -> Result<RunId, TerminalError> {
    key.parse().map_err(|_| TerminalError::new_with_code(400, format!("`{key}` is not the id of a run")))
}
