//! Connects the server to Restate, if Restate is configured as the scheduler of durable runs.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use toolwright_engine::Engine;
use toolwright_runs::TaskScheduler;

use crate::config::Config;

/// Returns the external scheduler of durable runs, or `None` if Restate is not configured.
pub(crate) fn external_scheduler(config: &Config) -> anyhow::Result<Option<Arc<dyn TaskScheduler>>> {
    match config.restate_ingress() {
        None => Ok(None),
        #[cfg(feature = "restate")]
        Some(text) => {
            let address = text.parse().context("read TOOLWRIGHT_RESTATE_URL")?;
            let ingress = toolwright_durable::Ingress::new(address);
            Ok(Some(Arc::new(ingress.map_err(|error| anyhow::anyhow!(error)).context("create the Restate client")?)))
        }
        #[cfg(not(feature = "restate"))]
        Some(_) => anyhow::bail!("this build has no Restate support; rebuild with the feature `restate`"),
    }
}

/// Serves Restate's calls until `stop` is cancelled. If Restate is not configured, logs a warning about the runs that
/// only Restate can continue.
pub(crate) async fn serve(
    config: &Config,
    engine: &Engine,
    tasks: &TaskTracker,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    if config.restate_ingress().is_none() {
        let waiting = engine.runs.count_scheduled().await?;
        if waiting > 0 {
            tracing::warn!(
                runs = waiting,
                "runs scheduled by Restate are not continued; set TOOLWRIGHT_RESTATE_URL and restart the server"
            );
        }
        return Ok(());
    }
    serve_callback(config, engine, tasks, stop).await?;
    let runs = engine.runs.clone();
    // Wakes all scheduled runs that are running or due: Restate may not know a run that was started shortly before a
    // crash, and a new Restate instance knows none.
    tasks.spawn(async move { runs.wake_idle_runs(Duration::ZERO).await });
    Ok(())
}

#[cfg(feature = "restate")]
async fn serve_callback(
    config: &Config,
    engine: &Engine,
    tasks: &TaskTracker,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    use toolwright_durable::{Callback, CallbackOptions};
    let advertise = config.restate_advertise.as_deref().map(str::parse).transpose();
    let options = CallbackOptions {
        bind: config.restate_bind,
        advertise: advertise.context("read TOOLWRIGHT_RESTATE_ADVERTISE")?,
        admin: config.restate_admin_url.parse().context("read TOOLWRIGHT_RESTATE_ADMIN_URL")?,
        identity_key: config.restate_identity_key.clone(),
    };
    let (serving, registered) = Callback::listen(options, engine.runs.clone()).await?.serve(stop);
    tasks.spawn(serving);
    Ok(registered.await?)
}

#[cfg(not(feature = "restate"))]
#[expect(clippy::unused_async, reason = "same signature as with the feature `restate`")]
async fn serve_callback(_: &Config, _: &Engine, _: &TaskTracker, _: CancellationToken) -> anyhow::Result<()> {
    Ok(())
}
