//! Durable runs on Restate, as the configuration says.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use toolwright_engine::Engine;
use toolwright_engine::runs::Conductor;

use crate::config::Config;

/// Whoever conducts durable runs; nobody where Restate is not configured.
pub fn conductor(config: &Config) -> anyhow::Result<Option<Arc<dyn Conductor>>> {
    match config.restate_ingress() {
        None => Ok(None),
        #[cfg(feature = "restate")]
        Some(text) => {
            let address = text.parse().context("read TOOLWRIGHT_RESTATE_URL")?;
            let ingress = toolwright_durable::Ingress::at(address);
            Ok(Some(Arc::new(ingress.map_err(|error| anyhow::anyhow!(error)).context("make a client of Restate")?)))
        }
        #[cfg(not(feature = "restate"))]
        Some(_) => anyhow::bail!("this build has no Restate support; build it with the feature `restate`"),
    }
}

/// Lets Restate call this server until `stop`. Without Restate, says which runs wait for it.
pub async fn serve(
    config: &Config,
    engine: &Engine,
    tasks: &TaskTracker,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    if config.restate_ingress().is_none() {
        let waiting = engine.runs.count_conducted().await?;
        if waiting > 0 {
            tracing::warn!(
                runs = waiting,
                "runs that Restate conducts are not gone on with: start the server with TOOLWRIGHT_RESTATE_URL"
            );
        }
        return Ok(());
    }
    call_back(config, engine, tasks, stop).await?;
    let runs = engine.runs.clone();
    // What began and Restate did not hear of; and everything under way, if this is a new Restate.
    tasks.spawn(async move { runs.wake_quiet(Duration::ZERO).await });
    Ok(())
}

#[cfg(feature = "restate")]
async fn call_back(
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
#[expect(clippy::unused_async, reason = "the other one waits")]
async fn call_back(_: &Config, _: &Engine, _: &TaskTracker, _: CancellationToken) -> anyhow::Result<()> {
    Ok(())
}
