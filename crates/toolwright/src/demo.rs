//! `--demo`: a small CRM and an orders API on loopback, tools for them, and an assistant that uses the tools.

use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;

use anyhow::Context;
use secrecy::SecretString;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use toolwright_engine::registry::{Definition, RegistryError};
use toolwright_engine::{Engine, ModelDefaults, SecretScope, Session};
use toolwright_models::Script;
use toolwright_testkit::definitions::{self, Kind};
use toolwright_testkit::entities::{self, Entity};
use toolwright_testkit::{Crm, LOOPBACK, Orders, crm, orders};
use toolwright_types::{AgentDefinition, PromptFragment, Source, ToolDefinition, ToolProviderConfig, TypeDefinition};

/// The name of the script that answers where there is no model.
const SCRIPT: &str = "demo-script";

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
                Kind::Tool => load_new::<ToolDefinition>(engine, &session, demo.body).await?,
                Kind::Fragment => load_new::<PromptFragment>(engine, &session, demo.body).await?,
                Kind::Agent => load_new::<AgentDefinition>(engine, &session, demo.body).await?,
            }
        }
        for entity in entities::types() {
            load_type(engine, &session, entity).await?;
        }
        load_new::<AgentDefinition>(engine, &session, entities::agent()).await?;
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
        writeln!(out, "    toolwright tools run orders/get -p orderId=ord-1001")?;
        writeln!(out, "    toolwright agents run assistant 'Which deals are in negotiation?'")?;
        writeln!(out, "    toolwright records find Order 'status:open && totalAmount:>#500'")?;
        writeln!(out, "    toolwright agents run order-desk 'How many open orders above 500 for Acme?'")?;
        writeln!(out, "    toolwright agents chat assistant\n")
    }

    /// Stops the systems.
    pub async fn stop(&self) {
        self.crm.shutdown().await;
        self.orders.shutdown().await;
    }
}

/// Which model the demo's agent speaks to: that of the first key there is, else a script.
pub fn model_defaults(configured: ModelDefaults, variable: impl Fn(&str) -> Option<String>) -> ModelDefaults {
    let keys = [
        ("ANTHROPIC_API_KEY", "anthropic", "claude-sonnet-4-20250514"),
        ("OPENAI_API_KEY", "openai", "gpt-4o"),
        ("GEMINI_API_KEY", "google", "gemini-2.5-pro"),
    ];
    let is_set = |name: &str| variable(name).is_some_and(|value| !value.trim().is_empty());
    let (provider, model) = keys
        .into_iter()
        .find(|(key, _, _)| is_set(key))
        .map_or(("scripted", SCRIPT), |(_, provider, model)| (provider, model));
    // What the operator chose counts; the built-in default was chosen by nobody.
    if provider == configured.provider || configured.provider != ModelDefaults::default().provider {
        return configured;
    }
    ModelDefaults { provider: provider.into(), model: model.into(), ..configured }
}

/// The script that takes the place of a model.
pub fn script() -> anyhow::Result<(String, Script)> {
    Ok((SCRIPT.to_owned(), Script::from_json(definitions::ASSISTANT_SCRIPT).context("read the demo's script")?))
}

/// Defines what is not there yet.
async fn load_new<T: Definition>(engine: &Engine, session: &Session, body: Value) -> anyhow::Result<()> {
    match engine.registry.create::<T>(session, body, Source::Manual).await {
        Ok(_) | Err(RegistryError::Duplicate { .. }) => Ok(()),
        Err(error) => Err(error).with_context(|| format!("define a demo {}", T::NOUN)),
    }
}

/// Defines a type and gives it its records, if it is not there yet: what became of them since is not the demo's business.
async fn load_type(engine: &Engine, session: &Session, entity: Entity) -> anyhow::Result<()> {
    match engine.registry.create::<TypeDefinition>(session, entity.definition, Source::Manual).await {
        Ok(_) => {}
        Err(RegistryError::Duplicate { .. }) => return Ok(()),
        Err(error) => return Err(error).context("define a demo type"),
    }
    let mut import = engine.records.import(session, entity.name, entity.records.into()).await?;
    while let Some(progress) = import.step().await? {
        if let Some(failed) = progress.failed.first() {
            anyhow::bail!("line {} of the demo's {} records: {}", failed.line, entity.name, failed.message);
        }
    }
    Ok(())
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
