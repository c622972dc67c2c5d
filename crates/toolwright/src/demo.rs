//! `--demo`: a small CRM and an orders API on loopback, and tools for them.

use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;

use anyhow::Context;
use secrecy::SecretString;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use toolwright_engine::registry::RegistryError;
use toolwright_engine::{Engine, SecretScope, Session};
use toolwright_testkit::definitions::{self, Kind};
use toolwright_testkit::{Crm, LOOPBACK, Orders, crm, orders};
use toolwright_types::{Source, ToolDefinition, ToolProviderConfig};

/// Where the systems listened last, so that a second start finds its definitions still true.
#[derive(Serialize, Deserialize)]
struct Addresses {
    crm: SocketAddr,
    orders: SocketAddr,
}

impl Default for Addresses {
    fn default() -> Self {
        Self { crm: LOOPBACK, orders: LOOPBACK }
    }
}

/// The systems that the demo's tools talk to.
pub struct Demo {
    crm: crm::Handle,
    orders: orders::Handle,
}

impl Demo {
    /// Starts the systems on loopback, on the ports of the last start if they are free.
    pub async fn start(data: &Path) -> anyhow::Result<Self> {
        let file = data.join("demo-addresses.json");
        let last: Addresses =
            std::fs::read(&file).ok().and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default();
        let crm = match Crm::builder().start(last.crm).await {
            Err(_) => Crm::builder().start(LOOPBACK).await,
            started => started,
        };
        let orders = match Orders::builder().start(last.orders).await {
            Err(_) => Orders::builder().start(LOOPBACK).await,
            started => started,
        };
        let demo =
            Self { crm: crm.context("start the demo CRM")?, orders: orders.context("start the demo orders API")? };
        let now = Addresses { crm: demo.crm.addr(), orders: demo.orders.addr() };
        std::fs::write(&file, serde_json::to_vec(&now)?).with_context(|| format!("write `{}`", file.display()))?;
        Ok(demo)
    }

    /// Defines the tools that are not there yet. What exists is left as it is, except the address of a provider whose
    /// system had to move.
    pub async fn load(&self, engine: &Engine) -> anyhow::Result<()> {
        let session = engine.identity.admin_session().await?;
        for demo in definitions::demo(&self.crm.base_url(), &self.orders.base_url()) {
            match demo.kind {
                Kind::Provider => load_provider(engine, &session, demo.body).await?,
                Kind::Tool => match engine.registry.create::<ToolDefinition>(&session, demo.body, Source::Manual).await
                {
                    Ok(_) | Err(RegistryError::Duplicate { .. }) => {}
                    Err(error) => return Err(error).context("define a demo tool"),
                },
            }
        }
        let known = engine.vault.list(&session).await?;
        for secret in definitions::SECRETS {
            if !known.iter().any(|info| info.name.as_str() == secret.name) {
                let name = secret.name.parse().context("a demo secret's name")?;
                engine.vault.put(&session, SecretScope::Realm, &name, SecretString::from(secret.value)).await?;
            }
        }
        Ok(())
    }

    /// Says on stderr what to try.
    pub fn explain(&self, url: &str) -> std::io::Result<()> {
        let mut out = std::io::stderr();
        writeln!(out, "\n  A demo CRM is at {}, an orders API at {}.", self.crm.base_url(), self.orders.base_url())?;
        writeln!(out, "  In another terminal, with the API key in TOOLWRIGHT_API_KEY:\n")?;
        writeln!(out, "    export TOOLWRIGHT_URL={url}")?;
        writeln!(out, "    toolwright tools list")?;
        writeln!(out, "    toolwright tools run hubspot/deal-stages")?;
        writeln!(out, "    toolwright tools run hubspot/get-deal -p dealId=101")?;
        writeln!(out, "    toolwright tools run orders/get -p orderId=ord-1001\n")
    }

    /// Stops the systems.
    pub async fn stop(&self) {
        self.crm.shutdown().await;
        self.orders.shutdown().await;
    }
}

async fn load_provider(engine: &Engine, session: &Session, body: Value) -> anyhow::Result<()> {
    let name = body.get("refName").and_then(Value::as_str).unwrap_or_default().to_owned();
    let address = body.get("baseUrl").and_then(Value::as_str).map(str::to_owned);
    match engine.registry.create::<ToolProviderConfig>(session, body, Source::Manual).await {
        Ok(_) => return Ok(()),
        Err(RegistryError::Duplicate { .. }) => {}
        Err(error) => return Err(error).context("define a demo provider"),
    }
    let existing = engine.registry.get::<ToolProviderConfig>(session, &name, None).await?;
    if existing.body.base_url != address {
        let patch = json!({ "baseUrl": address });
        engine
            .registry
            .merge::<ToolProviderConfig>(session, &name, None, patch)
            .await
            .context("move a demo provider")?;
    }
    Ok(())
}
