//! Implements `serve --demo`: starts a CRM, an orders API and a small web on loopback, and creates tools for them, and
//! agents and agentic tools that use the tools.

use std::fs::{OpenOptions, Permissions};
use std::io::Write;
use std::net::SocketAddr;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

use anyhow::Context;
use secrecy::SecretString;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use toolwright_catalog::registry::{Definition, RegistryError};
use toolwright_catalog::{ModelDefaults, Session};
use toolwright_engine::{Engine, SecretScope};
use toolwright_models::Script;
use toolwright_testkit::definitions::{self, BaseUrls, DefinitionKind};
use toolwright_testkit::entities::{self, DemoEntityType};
use toolwright_testkit::{Crm, LOOPBACK, Orders, Web, crm, orders, web};
use toolwright_types::{
    AgentDefinition, DefinitionSource, PromptFragment, ToolDefinition, ToolProviderConfig, TypeDefinition,
};

/// The name of the script that replaces the model when no model key is set.
const SCRIPT: &str = "demo-script";

/// The addresses of the demo systems at the previous start. They are reused, so that the URLs in stored definitions
/// remain valid.
#[derive(Serialize, Deserialize)]
#[serde(default)]
struct Addresses {
    crm: SocketAddr,
    orders: SocketAddr,
    web: SocketAddr,
}

impl Default for Addresses {
    fn default() -> Self {
        Self { crm: LOOPBACK, orders: LOOPBACK, web: LOOPBACK }
    }
}

/// Writes a file that only its owner can access, and replaces the content of an existing file.
fn write_private(path: &Path, content: &[u8]) -> std::io::Result<()> {
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
    // `mode` has no effect on an existing file.
    file.set_permissions(Permissions::from_mode(0o600))?;
    file.write_all(content)
}

/// The running demo systems.
pub(crate) struct Demo {
    crm: crm::Handle,
    orders: orders::Handle,
    web: web::Handle,
}

/// The company whose deals fill several pages of a search.
const LARGE_COMPANY: &str = "Umbrella Health";
/// The number of deals that the demo adds for this company. The CRM's seed data already has some.
const MORE_DEALS: u64 = 23;
/// The id of one of the added deals. The CRM refuses to change it.
const LOCKED_DEAL: u64 = 207;

fn crm() -> crm::Builder {
    Crm::builder().deals(LARGE_COMPANY, MORE_DEALS).locked(LOCKED_DEAL)
}

impl Demo {
    /// Starts the systems on loopback, on the ports of the previous start if they are free.
    pub(crate) async fn start(data: &Path) -> anyhow::Result<Self> {
        let file = data.join("demo-addresses.json");
        let previous: Addresses =
            std::fs::read(&file).ok().and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default();
        let crm = match crm().start(previous.crm).await {
            Err(_) => crm().start(LOOPBACK).await,
            started => started,
        };
        let orders = match Orders::builder().start(previous.orders).await {
            Err(_) => Orders::builder().start(LOOPBACK).await,
            started => started,
        };
        let web = match Web::builder().start(previous.web).await {
            Err(_) => Web::builder().start(LOOPBACK).await,
            started => started,
        };
        let demo = Self {
            crm: crm.context("start the demo CRM")?,
            orders: orders.context("start the demo orders API")?,
            web: web.context("start the demo web")?,
        };
        let current = Addresses { crm: demo.crm.addr(), orders: demo.orders.addr(), web: demo.web.addr() };
        write_private(&file, &serde_json::to_vec(&current)?).with_context(|| format!("write `{}`", file.display()))?;
        Ok(demo)
    }

    /// Creates the demo definitions that do not exist, and fetches the reference data at the first start. Existing
    /// definitions are kept, with one exception: the base URL of a provider changes if its system listens on another
    /// port.
    pub(crate) async fn load(&self, engine: &Engine) -> anyhow::Result<()> {
        let session = engine.identity.admin_session().await?;
        let (crm, orders, web) = (self.crm.base_url(), self.orders.base_url(), self.web.base_url());
        for demo in definitions::demo(BaseUrls { crm: &crm, orders: &orders, web: &web }) {
            match demo.kind {
                DefinitionKind::Provider => load_provider(engine, &session, demo.body).await?,
                DefinitionKind::Tool | DefinitionKind::AgenticTool => {
                    create_if_absent::<ToolDefinition>(engine, &session, demo.body).await?
                }
                DefinitionKind::Fragment => create_if_absent::<PromptFragment>(engine, &session, demo.body).await?,
                DefinitionKind::Agent => create_if_absent::<AgentDefinition>(engine, &session, demo.body).await?,
            }
        }
        for entity in entities::types() {
            load_type(engine, &session, entity).await?;
        }
        create_if_absent::<AgentDefinition>(engine, &session, entities::agent()).await?;
        let existing = engine.vault.list(&session).await?;
        for secret in definitions::SECRETS {
            if !existing.iter().any(|info| info.name.as_str() == secret.name) {
                let name = secret.name.parse().context("parse the name of a demo secret")?;
                engine.vault.put(&session, SecretScope::Realm, &name, SecretString::from(secret.value)).await?;
            }
        }
        fetch_reference_data(engine, &session).await
    }

    /// Prints example commands to stderr.
    pub(crate) fn print_usage(&self, url: &str) -> std::io::Result<()> {
        let mut out = std::io::stderr();
        let (crm, orders, web) = (self.crm.base_url(), self.orders.base_url(), self.web.base_url());
        writeln!(out, "\n  Demo CRM: {crm}   Orders API: {orders}   Web: {web}")?;
        writeln!(out, "  Set TOOLWRIGHT_API_KEY to the API key and try these commands in another terminal:\n")?;
        writeln!(out, "    export TOOLWRIGHT_URL={url}")?;
        writeln!(out, "    toolwright tools list")?;
        writeln!(out, "    toolwright tools run hubspot/deal-stages")?;
        writeln!(out, "    toolwright tools run hubspot/get-deal -p dealId=101")?;
        writeln!(out, "    toolwright tools run orders/get -p orderId=ord-1001")?;
        writeln!(
            out,
            "    toolwright agentic-tools run hubspot-deal-manager 'Update all Acme Corp deals to Negotiation'"
        )?;
        writeln!(out, "    toolwright agentic-tools run research-assistant 'Find competitor pricing'")?;
        writeln!(out, "    toolwright agents run assistant 'Which deals are in negotiation?'")?;
        writeln!(out, "    toolwright records find Order 'status:open && totalAmount:>#500'")?;
        writeln!(out, "    toolwright agents run order-desk 'How many open orders above 500 for Acme?'")?;
        writeln!(out, "    toolwright agents chat assistant\n")
    }

    /// Stops the systems.
    pub(crate) async fn stop(&self) {
        self.crm.shutdown().await;
        self.orders.shutdown().await;
        self.web.shutdown().await;
    }
}

/// Returns the default model of a server with the demo: the configured model, or else the model of the first provider
/// whose API key is set. If no key is set, a script replaces the model.
pub(crate) fn model_defaults(configured: ModelDefaults, variable: impl Fn(&str) -> Option<String>) -> ModelDefaults {
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
    // A configured provider takes precedence. The configuration does not show whether the user set the built-in default
    // provider, so that provider is treated as not configured.
    if provider == configured.provider || configured.provider != ModelDefaults::default().provider {
        return configured;
    }
    ModelDefaults { provider: provider.into(), model: model.into(), ..configured }
}

/// The script that replaces the model.
pub(crate) fn script() -> anyhow::Result<(String, Script)> {
    let mut script = Script::default();
    for text in definitions::SCRIPTS {
        script = script.followed_by(Script::from_json(text).context("read a demo script")?);
    }
    Ok((SCRIPT.to_owned(), script))
}

/// Creates a definition unless it exists.
async fn create_if_absent<T: Definition>(engine: &Engine, session: &Session, body: Value) -> anyhow::Result<()> {
    match engine.registry.create::<T>(session, body, DefinitionSource::Manual).await {
        Ok(_) | Err(RegistryError::Duplicate { .. }) => Ok(()),
        Err(error) => Err(error).with_context(|| format!("define a demo {}", T::NOUN)),
    }
}

/// Creates an entity type and imports its records, unless the type exists. Records of an existing type are kept,
/// because users may have changed them.
async fn load_type(engine: &Engine, session: &Session, entity: DemoEntityType) -> anyhow::Result<()> {
    match engine.registry.create::<TypeDefinition>(session, entity.definition, DefinitionSource::Manual).await {
        Ok(_) => {}
        Err(RegistryError::Duplicate { .. }) => return Ok(()),
        Err(error) => return Err(error).context("define a demo type"),
    }
    let mut import = engine.records.import(session, entity.name, entity.records.into()).await?;
    while let Some(progress) = import.next_batch().await? {
        if let Some(failed) = progress.failed.first() {
            anyhow::bail!("import demo records of {1}: line {0}: {2}", failed.line, entity.name, failed.message);
        }
    }
    Ok(())
}

/// Fetches the reference data of the CRM, unless it was fetched before. The server refreshes it later.
async fn fetch_reference_data(engine: &Engine, session: &Session) -> anyhow::Result<()> {
    let stored = engine.references.page(session, "hubspot", None, None, 1).await?;
    if stored.syncs.iter().any(|sync| sync.synced_at.is_some()) {
        return Ok(());
    }
    for report in engine.references.sync(session, "hubspot", None).await? {
        if let Some(error) = report.errors.first() {
            tracing::warn!(data_type = report.data_type, %error, "reference data of the demo was not fetched");
        }
    }
    Ok(())
}

async fn load_provider(engine: &Engine, session: &Session, body: Value) -> anyhow::Result<()> {
    let name = body.get("refName").and_then(Value::as_str).unwrap_or_default().to_owned();
    let address = body.get("baseUrl").and_then(Value::as_str).map(str::to_owned);
    match engine.registry.create::<ToolProviderConfig>(session, body, DefinitionSource::Manual).await {
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
            .context("update the base URL of a demo provider")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn demo_addresses_that_an_earlier_release_stored_are_read() {
        let stored = br#"{"crm":"127.0.0.1:4001","orders":"127.0.0.1:4002"}"#;
        let Addresses { crm, orders, web } = serde_json::from_slice(stored).unwrap();
        assert_eq!((crm.port(), orders.port(), web), (4001, 4002, LOOPBACK));
    }

    #[test]
    fn demo_scripts_are_valid() {
        assert!(script().is_ok());
    }
}
