//! Tools of MCP servers as tools of a realm: imported, kept in sync, and accepted again when their server says something
//! else about them.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use toolwright_engine::registry::{Equals, Listed, RegistryError, Wanted};
use toolwright_engine::{Engine, Session, Unavailable};
use toolwright_tools::Outcome;
use toolwright_types::{
    Clock, Document, ErrorCode, McpTransport, ProviderType, RefName, SystemClock, Timestamp, ToolDefinition, ToolError,
    ToolProviderConfig, ToolType,
};

use super::{ADDED_BY, Client, LIST};

/// How long a server may take to say what it has.
const PATIENCE_MS: u64 = 60_000;
/// The largest listing that is read, as JSON.
const LARGEST_LISTING: u64 = 16_000_000;

/// Brings tools in. Cheap to clone.
#[derive(Clone)]
pub struct Imports {
    /// Behind a pointer, because every request gets one of these.
    engine: Arc<Engine>,
    client: Client,
}

/// Where tools come from.
#[derive(Debug, Clone)]
pub enum Source {
    /// A provider that exists.
    Provider {
        /// Its name or id.
        name: String,
        /// What the names of its tools begin with; what the provider says when absent.
        prefix: Option<String>,
    },
    /// A server that becomes a provider.
    New(Box<ToolProviderConfig>),
}

/// What came of an import.
#[derive(Debug, Default)]
pub struct Imported {
    /// The provider.
    pub provider: String,
    /// Tools that are new.
    pub imported: Vec<String>,
    /// Tools that were left as they are, and why.
    pub skipped: Vec<Skipped>,
}

/// A tool that was not imported.
#[derive(Debug)]
pub struct Skipped {
    /// The name it has, or would have had.
    pub ref_name: String,
    /// Why.
    pub reason: String,
}

/// What a server has, held against what was imported.
#[derive(Debug)]
pub struct Discovered {
    /// What was brought in.
    pub imported: Imported,
    /// Tools of which the server now says something else; they are refused until somebody accepts that.
    pub changed: Vec<String>,
    /// Tools that the server no longer has.
    pub gone: Vec<String>,
    /// When it was asked.
    pub at: Timestamp,
}

/// Tools whose new definition was accepted.
#[derive(Debug)]
pub struct Accepted(pub Vec<String>);

/// Why nothing was imported.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The provider is of another kind.
    #[error("provider `{0}` is no MCP server; set `providerType` to MCP")]
    NotMcp(String),
    /// Commands are switched off.
    #[error(
        "MCP servers that are commands are switched off on this server; set `mcp.stdio` to `on`, or start the server elsewhere"
    )]
    NoCommands,
    /// The prefix makes names that no tool can have.
    #[error("`{0}` cannot begin the name of a tool")]
    Prefix(String),
    /// The server could not be asked.
    #[error("the MCP server could not be asked: {}: {}", .0.code, .0.message)]
    Server(Box<ToolError>),
    /// A definition could not be read or written.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// The database failed.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

/// A tool as its server describes it.
#[derive(Debug, Clone, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct Described {
    name: String,
    #[serde(default)]
    title: Option<String>,
    #[serde(default)]
    description: Option<String>,
    #[serde(default)]
    input_schema: Value,
    #[serde(default)]
    output_schema: Option<Value>,
    fingerprint: String,
}

impl Imports {
    /// Imports into the realms of `engine`, over the connections of `client`.
    pub fn new(engine: Engine, client: Client) -> Self {
        Self { engine: Arc::new(engine), client }
    }

    /// Imports the tools of a server. A server that cannot be asked leaves nothing behind.
    pub async fn import(&self, session: &Session, source: Source) -> Result<Imported, ImportError> {
        let (provider, prefix, is_new) = match source {
            Source::Provider { name, prefix } => {
                let provider = self.provider(session, &name).await?.body;
                let prefix = prefix.or_else(|| provider.tool_prefix.clone());
                (provider, prefix, false)
            }
            Source::New(provider) => {
                let prefix = provider.tool_prefix.clone();
                // Whoever imports from the same server again gets the provider as it is by now.
                match self.provider(session, provider.ref_name.as_str()).await {
                    Ok(known) => (known.body, prefix, false),
                    Err(ImportError::Registry(RegistryError::NotFound { .. })) => (*provider, prefix, true),
                    Err(error) => return Err(error),
                }
            }
        };
        if provider.mcp_transport() == McpTransport::Stdio && !self.client.runs_commands() {
            return Err(ImportError::NoCommands);
        }
        let name = provider.ref_name.clone();
        if is_new {
            // Checked and permitted before anything is asked, written after the answer.
            self.engine.registry.may_save(session, &provider).await?;
        }
        let described = self.ask(session, &provider).await?;
        if is_new {
            let body = serde_json::to_value(&provider).unwrap_or_default();
            self.engine.registry.create::<ToolProviderConfig>(session, body, Default::default()).await?;
        }
        self.bring_in(session, &name, prefix.as_deref().unwrap_or_default(), described).await
    }

    /// Brings in what is new at a provider's server, tells what has changed, and notes when that was.
    pub async fn discover(&self, session: &Session, name: &str) -> Result<Discovered, ImportError> {
        let provider = self.provider(session, name).await?;
        self.engine.registry.may_save(session, &provider.body).await?;
        let found = self.look(session, &provider).await?;
        let patch = json!({ "lastDiscoverySync": found.at });
        let name = provider.meta.ref_name.as_str();
        self.engine.registry.merge::<ToolProviderConfig>(session, name, None, patch).await?;
        Ok(found)
    }

    async fn look(
        &self,
        session: &Session,
        provider: &Document<ToolProviderConfig>,
    ) -> Result<Discovered, ImportError> {
        let described = self.ask(session, &provider.body).await?;
        let known = self.imported(session, provider.meta.ref_name.as_str()).await?;
        let (mut changed, mut gone) = (Vec::new(), Vec::new());
        for tool in &known {
            match described.iter().find(|described| described.name == upstream_name(&tool.body)) {
                None => gone.push(tool.body.ref_name.to_string()),
                Some(now) if tool.body.invocation.fingerprint.as_ref().is_some_and(|pin| *pin != now.fingerprint) => {
                    changed.push(tool.body.ref_name.to_string());
                }
                Some(_) => {}
            }
        }
        let fresh = |described: &Described| !known.iter().any(|tool| upstream_name(&tool.body) == described.name);
        let described = described.into_iter().filter(fresh).collect();
        let prefix = provider.body.tool_prefix.as_deref().unwrap_or_default();
        let imported = self.bring_in(session, &provider.meta.ref_name, prefix, described).await?;
        Ok(Discovered { imported, changed, gone, at: SystemClock.now() })
    }

    /// Takes what a server says now about tools that were imported from it, those named or all.
    pub async fn accept(
        &self,
        session: &Session,
        name: &str,
        only: Option<&[String]>,
    ) -> Result<Accepted, ImportError> {
        let provider = self.provider(session, name).await?;
        let described = self.ask(session, &provider.body).await?;
        let mut accepted = Vec::new();
        for tool in self.imported(session, provider.meta.ref_name.as_str()).await? {
            let ref_name = tool.body.ref_name.to_string();
            let wanted = only.is_none_or(|only| only.contains(&ref_name));
            let now = described.iter().find(|described| described.name == upstream_name(&tool.body));
            let Some(now) =
                now.filter(|now| wanted && tool.body.invocation.fingerprint.as_ref() != Some(&now.fingerprint))
            else {
                continue;
            };
            let patch = json!({
                "description": now.description,
                "inputSchema": null,
                "inputJsonSchema": now.input_schema,
                "outputSchema": null,
                "outputJsonSchema": now.output_schema,
                "invocation": { "fingerprint": now.fingerprint },
            });
            let revision = Some(tool.meta.revision);
            self.engine.registry.merge::<ToolDefinition>(session, &ref_name, revision, patch).await?;
            accepted.push(ref_name);
        }
        Ok(Accepted(accepted))
    }

    /// Keeps the providers that want it in sync, until `stop`: asks their servers now and then, and when one says that its
    /// tools have changed.
    pub async fn keep_in_sync(self, now_and_then: Duration, stop: CancellationToken) {
        let changed = std::sync::Arc::clone(&self.client.0.changed);
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(now_and_then) => {}
                () = changed.notified() => {}
            }
            self.client.0.slots.tidy();
            if let Err(error) = self.sync_all().await {
                tracing::warn!(%error, "MCP servers could not be asked for new tools");
            }
        }
    }

    async fn sync_all(&self) -> Result<(), Unavailable> {
        for (session, provider) in self.engine.registry.discovering(self.engine.identity.home_org()).await? {
            match self.sync(&session, provider.as_str()).await {
                Ok(None) => {}
                Ok(Some(found)) => {
                    let (new, changed) = (found.imported.imported.len(), found.changed.len());
                    tracing::info!(%provider, new, changed, "an MCP server's tools were discovered");
                }
                Err(error) => tracing::warn!(%provider, %error, "an MCP server's tools were not discovered"),
            }
        }
        Ok(())
    }

    /// What is new at a server, if anything is. A look that finds nothing is not noted: every note is a revision, and makes
    /// everybody compile everything anew.
    async fn sync(&self, session: &Session, name: &str) -> Result<Option<Discovered>, ImportError> {
        let provider = self.provider(session, name).await?;
        let found = self.look(session, &provider).await?;
        if found.imported.imported.is_empty() && found.changed.is_empty() {
            return Ok(None);
        }
        let patch = json!({ "lastDiscoverySync": found.at });
        self.engine.registry.merge::<ToolProviderConfig>(session, name, None, patch).await?;
        Ok(Some(found))
    }

    async fn provider(&self, session: &Session, name: &str) -> Result<Document<ToolProviderConfig>, ImportError> {
        let provider = self.engine.registry.get::<ToolProviderConfig>(session, name, None).await?;
        if provider.body.provider_type != ProviderType::Mcp {
            return Err(ImportError::NotMcp(provider.meta.ref_name.to_string()));
        }
        Ok(provider)
    }

    /// Asks a server for its tools, by a call like any other of a tool that nobody saved.
    async fn ask(&self, session: &Session, provider: &ToolProviderConfig) -> Result<Vec<Described>, ImportError> {
        let mut listing = ToolDefinition::new(provider.ref_name.clone(), ToolType::ExternalMcp);
        listing.category = Some(ADDED_BY.to_owned());
        listing.provider_ref = Some(provider.ref_name.to_string());
        listing.invocation.method = Some(LIST.to_owned());
        listing.default_retry_count = Some(0);
        listing.timeout_ms = Some(PATIENCE_MS);
        listing.max_output_bytes = Some(LARGEST_LISTING);
        let outcome = self.engine.calls.execute_unsaved(session, listing, Some(provider)).await?;
        let Outcome::Done(envelope) = outcome else { return Ok(Vec::new()) };
        if let Some(error) = envelope.error {
            return Err(ImportError::Server(Box::new(error)));
        }
        let unreadable = |error: serde_json::Error| {
            let error = ToolError::new(ErrorCode::ProviderError, format!("its list of tools cannot be read: {error}"));
            ImportError::Server(Box::new(error))
        };
        let mut output = envelope.output;
        let tools = output.get_mut("tools").map(Value::take).unwrap_or_default();
        serde_json::from_value(tools).map_err(unreadable)
    }

    async fn imported(&self, session: &Session, provider: &str) -> Result<Vec<Document<ToolDefinition>>, ImportError> {
        let filter = |path: &str, value: &str| Equals { path: vec![path.to_owned()], value: json!(value) };
        let filters = vec![filter("providerRef", provider), filter("toolType", "EXTERNAL_MCP")];
        let mut tools = Vec::new();
        let mut cursor = None;
        loop {
            let wanted = Wanted { filters: filters.clone(), limit: 1000, cursor, ..Wanted::default() };
            let Listed { items, next } = self.engine.registry.list::<ToolDefinition>(session, wanted).await?;
            tools.extend(items);
            match next {
                Some(next) => cursor = Some(next),
                None => return Ok(tools),
            }
        }
    }

    async fn bring_in(
        &self,
        session: &Session,
        provider: &RefName,
        prefix: &str,
        described: Vec<Described>,
    ) -> Result<Imported, ImportError> {
        if !prefix.is_empty() && format!("{prefix}x").parse::<RefName>().is_err() {
            return Err(ImportError::Prefix(prefix.to_owned()));
        }
        let mut result = Imported { provider: provider.to_string(), ..Imported::default() };
        for tool in described {
            let ref_name = format!("{prefix}{}", plain(&tool.name));
            let skip = |reason: String| Skipped { ref_name: ref_name.clone(), reason };
            let Ok(name) = ref_name.parse::<RefName>() else {
                result.skipped.push(skip(format!("`{ref_name}` is no name that a tool can have")));
                continue;
            };
            let body = serde_json::to_value(definition(name, provider, tool)).unwrap_or_default();
            let source = toolwright_types::Source::McpImported;
            match self.engine.registry.create::<ToolDefinition>(session, body, source).await {
                Ok(saved) => result.imported.push(saved.document.meta.ref_name.to_string()),
                Err(RegistryError::Duplicate { .. }) => {
                    result.skipped.push(skip("a tool of this name exists already".to_owned()));
                }
                Err(RegistryError::Invalid(issues)) => result.skipped.push(skip(issues.to_string())),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(result)
    }
}

/// A server's tool as a definition. What a server says about side effects is not believed: it may write.
fn definition(name: RefName, provider: &RefName, tool: Described) -> ToolDefinition {
    let mut definition = ToolDefinition::new(name, ToolType::ExternalMcp);
    definition.name = tool.title.filter(|title| (1..=128).contains(&title.chars().count()));
    definition.description = tool.description;
    definition.category = Some(ADDED_BY.to_owned());
    definition.provider_ref = Some(provider.to_string());
    definition.has_side_effects = Some(true);
    definition.input_json_schema = Some(toolwright_types::JsonSchema(tool.input_schema));
    definition.output_json_schema = tool.output_schema.map(toolwright_types::JsonSchema);
    definition.invocation.path = Some(tool.name);
    definition.invocation.fingerprint = Some(tool.fingerprint);
    definition
}

/// The name that a tool has at its server.
fn upstream_name(tool: &ToolDefinition) -> &str {
    tool.invocation.path.as_deref().unwrap_or_else(|| tool.ref_name.as_str())
}

/// A name without what names of tools do not have.
fn plain(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() || c == '_' || c == '-' { c } else { '_' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_keep_what_names_can_have() {
        for (name, expected) in [("get-sum", "get-sum"), ("files/read.all", "files_read_all"), ("größe", "gr__e")] {
            assert_eq!(plain(name), expected);
        }
    }

    #[test]
    fn what_a_server_says_of_its_harmlessness_is_not_believed() {
        let described: Described = serde_json::from_value(json!({
            "name": "read", "title": "Read", "description": "reads", "inputSchema": { "type": "object" },
            "annotations": { "readOnlyHint": true }, "fingerprint": "f",
        }))
        .unwrap();
        let definition = definition("fs_read".parse().unwrap(), &"fs".parse().unwrap(), described);
        assert_eq!(definition.effects(), toolwright_types::SideEffects::Writes);
        assert_eq!(upstream_name(&definition), "read");
        assert_eq!(definition.invocation.fingerprint.as_deref(), Some("f"));
    }
}
