//! Imports tools of MCP servers into a realm, keeps them in sync, and accepts changes of their definitions.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use toolwright_catalog::registry::{FieldEquals, RegistryError};
use toolwright_catalog::{Session, Unavailable};
use toolwright_engine::{Engine, MCP_LIST_METHOD};
use toolwright_runs::DirectOutcome;
use toolwright_types::{
    Clock, Document, ErrorCode, McpTransport, ProviderType, RefName, SystemClock, Timestamp, ToolDefinition, ToolError,
    ToolProviderConfig, ToolType,
};

use super::import_names::assign_names;
use super::{Client, IMPORT_CATEGORY};

/// How long a server may take to list its tools.
const LISTING_TIMEOUT_MS: u64 = 60_000;
/// The maximum size of a listing, in bytes of JSON.
const MAX_LISTING_BYTES: u64 = 16_000_000;

/// The reason to skip a tool whose name is in use.
const EXISTS: &str = "a tool with this name already exists";

/// Imports tools of MCP servers. Cheap to clone.
#[derive(Clone)]
pub struct McpImports {
    /// Shared, because every request clones this value.
    engine: Arc<Engine>,
    client: Client,
}

/// The server to import from.
#[derive(Debug, Clone)]
pub enum McpImportSource {
    /// An existing provider.
    Provider {
        /// The name or id of the provider.
        name: String,
        /// The prefix of the imported tools' names. `None` uses the prefix of the provider.
        prefix: Option<String>,
    },
    /// A new provider. It is created only if the server can list its tools.
    New(Box<ToolProviderConfig>),
}

/// The result of an import.
#[derive(Debug, Default)]
pub struct McpImportReport {
    /// The name of the provider.
    pub provider: String,
    /// Whether the import creates the provider.
    pub provider_created: bool,
    /// The names of new tools.
    pub imported: Vec<String>,
    /// The tools that were not imported, with reasons.
    pub skipped: Vec<SkippedMcpTool>,
}

/// A tool that was not imported.
#[derive(Debug)]
pub struct SkippedMcpTool {
    /// The name that the tool would have in the realm.
    pub ref_name: String,
    /// The reason.
    pub reason: String,
}

/// The differences between the tools of a server and the imported tools.
#[derive(Debug)]
pub struct Discovery {
    /// The tools that were imported.
    pub imported: McpImportReport,
    /// The tools whose definition changed on the server. Calls to them are rejected until the change is accepted.
    pub changed: Vec<String>,
    /// The tools that the server no longer lists.
    pub gone: Vec<String>,
    /// The time of the comparison.
    pub at: Timestamp,
}

/// The names of the tools whose new definition was accepted.
#[derive(Debug)]
pub struct AcceptedTools(pub Vec<String>);

/// The reason why an import, a discovery or an acceptance failed.
#[derive(Debug, thiserror::Error)]
pub enum McpImportError {
    /// The provider is not an MCP server.
    #[error("provider `{0}` is not an MCP server; set `providerType` to MCP")]
    NotMcp(String),
    /// Stdio servers are disabled.
    #[error(
        "stdio MCP servers are disabled on this server; set `mcp.stdio` to `on`, or run the MCP server elsewhere and import its URL"
    )]
    StdioDisabled,
    /// The MCP server is this server itself, or another server of this deployment.
    #[error("the MCP server belongs to this deployment; use its tools directly instead of importing them")]
    OwnServer,
    /// The prefix is not valid in tool names.
    #[error("`{0}` is not a valid prefix of tool names")]
    Prefix(String),
    /// The server could not list its tools.
    #[error("the MCP server could not list its tools: {}: {}", .0.code, .0.message)]
    Server(Box<ToolError>),
    /// Reading or writing a definition failed.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// The database failed.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

/// A tool that the MCP server lists.
#[derive(Debug, Clone, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RemoteTool {
    pub name: String,
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

impl McpImports {
    /// Creates an importer for the realms of `engine`. The importer uses the connections of `client`.
    pub fn new(engine: Engine, client: Client) -> Self {
        Self { engine: Arc::new(engine), client }
    }

    /// Imports the tools of a server. If the server cannot list its tools, nothing is written. A dry run lists the tools
    /// and writes nothing.
    pub async fn import(
        &self,
        session: &Session,
        source: McpImportSource,
        dry_run: bool,
    ) -> Result<McpImportReport, McpImportError> {
        let (provider, prefix, is_new) = match source {
            McpImportSource::Provider { name, prefix } => {
                let provider = self.provider(session, &name).await?.body;
                let prefix = prefix.or_else(|| provider.tool_prefix.clone());
                (provider, prefix, false)
            }
            McpImportSource::New(provider) => {
                let prefix = provider.tool_prefix.clone();
                // An existing provider with this name is used instead of the given one.
                match self.provider(session, provider.ref_name.as_str()).await {
                    Ok(known) => (known.body, prefix, false),
                    Err(McpImportError::Registry(RegistryError::NotFound { .. })) => (*provider, prefix, true),
                    Err(error) => return Err(error),
                }
            }
        };
        if provider.mcp_transport() == McpTransport::Stdio && !self.client.allows_stdio() {
            return Err(McpImportError::StdioDisabled);
        }
        let name = provider.ref_name.clone();
        if is_new {
            // Before the first contact with the server, the provider is validated and the permission to create it is
            // checked. The provider is stored only after the server has listed its tools.
            self.engine.registry.validate(session, &provider).await?;
        }
        self.may_import(session, &name)?;
        let described = self.fetch_tools(session, &provider).await?;
        if is_new && !dry_run {
            let body = serde_json::to_value(&provider).unwrap_or_default();
            self.engine
                .registry
                .create::<ToolProviderConfig>(session, body, toolwright_types::DefinitionSource::default())
                .await?;
        }
        let prefix = prefix.as_deref().unwrap_or_default();
        let imported = self.create_tools(session, &name, prefix, described, dry_run).await?;
        Ok(McpImportReport { provider_created: is_new, ..imported })
    }

    /// Imports new tools of a provider's server, reports changed and missing tools, and stores the time of the
    /// comparison in the provider.
    pub async fn discover(&self, session: &Session, name: &str) -> Result<Discovery, McpImportError> {
        let provider = self.provider(session, name).await?;
        self.engine.registry.validate(session, &provider.body).await?;
        self.may_import(session, &provider.meta.ref_name)?;
        let found = self.compare(session, &provider).await?;
        let patch = json!({ "lastDiscoverySync": found.at });
        let name = provider.meta.ref_name.as_str();
        self.engine.registry.merge::<ToolProviderConfig>(session, name, None, patch).await?;
        Ok(found)
    }

    async fn compare(
        &self,
        session: &Session,
        provider: &Document<ToolProviderConfig>,
    ) -> Result<Discovery, McpImportError> {
        let described = self.fetch_tools(session, &provider.body).await?;
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
        let is_new_tool =
            |described: &RemoteTool| !known.iter().any(|tool| upstream_name(&tool.body) == described.name);
        let described = described.into_iter().filter(is_new_tool).collect();
        let prefix = provider.body.tool_prefix.as_deref().unwrap_or_default();
        let imported = self.create_tools(session, &provider.meta.ref_name, prefix, described, false).await?;
        Ok(Discovery { imported, changed, gone, at: SystemClock.now() })
    }

    /// Accepts the server's current definitions of imported tools. If `only` is set, accepts only the definitions of
    /// these tools.
    pub async fn accept(
        &self,
        session: &Session,
        name: &str,
        only: Option<&[String]>,
    ) -> Result<AcceptedTools, McpImportError> {
        let provider = self.provider(session, name).await?;
        self.may_import(session, &provider.meta.ref_name)?;
        let described = self.fetch_tools(session, &provider.body).await?;
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
        Ok(AcceptedTools(accepted))
    }

    /// Syncs the tools of all providers that have discovery enabled, until `stop` is cancelled. A sync starts every
    /// `interval` and when a server reports that its tools have changed.
    pub async fn keep_in_sync(self, interval: Duration, stop: CancellationToken) {
        let changed = Arc::clone(&self.client.0.changed);
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(interval) => {}
                () = changed.notified() => {}
            }
            self.client.0.pool.evict_idle();
            if let Err(error) = self.sync_all().await {
                tracing::warn!(%error, "sync of MCP tools failed");
            }
        }
    }

    async fn sync_all(&self) -> Result<(), Unavailable> {
        for (session, provider) in
            self.engine.registry.auto_discovery_providers(self.engine.identity.home_org()).await?
        {
            match self.sync(&session, provider.as_str()).await {
                Ok(found) => {
                    let (new, changed, gone) = (found.imported.imported.len(), found.changed.len(), found.gone.len());
                    if new + changed + gone > 0 {
                        tracing::info!(%provider, new, changed, gone, "MCP tools differ from the imported tools");
                    }
                }
                Err(error) => tracing::warn!(%provider, %error, "MCP discovery failed"),
            }
        }
        Ok(())
    }

    /// Imports new tools of a server and reports changed and missing tools. If there are no new tools, nothing is
    /// written, because every write creates a revision and recompiles the catalog.
    async fn sync(&self, session: &Session, name: &str) -> Result<Discovery, McpImportError> {
        let provider = self.provider(session, name).await?;
        let found = self.compare(session, &provider).await?;
        if !found.imported.imported.is_empty() {
            let patch = json!({ "lastDiscoverySync": found.at });
            self.engine.registry.merge::<ToolProviderConfig>(session, name, None, patch).await?;
        }
        Ok(found)
    }

    /// Checks the permission to write tools before the server is contacted.
    fn may_import(&self, session: &Session, provider: &RefName) -> Result<(), RegistryError> {
        let registry = &self.engine.registry;
        Ok(registry.may_import_tools(session, Some(IMPORT_CATEGORY), provider.as_str())?)
    }

    async fn provider(&self, session: &Session, name: &str) -> Result<Document<ToolProviderConfig>, McpImportError> {
        let provider = self.engine.registry.get::<ToolProviderConfig>(session, name, None).await?;
        if provider.body.provider_type != ProviderType::Mcp {
            return Err(McpImportError::NotMcp(provider.meta.ref_name.to_string()));
        }
        Ok(provider)
    }

    /// Fetches a server's tools. Makes a regular tool call with a tool definition that is not stored.
    async fn fetch_tools(
        &self,
        session: &Session,
        provider: &ToolProviderConfig,
    ) -> Result<Vec<RemoteTool>, McpImportError> {
        let mut listing = ToolDefinition::new(provider.ref_name.clone(), ToolType::ExternalMcp);
        listing.category = Some(IMPORT_CATEGORY.to_owned());
        listing.provider_ref = Some(provider.ref_name.to_string());
        listing.invocation.method = Some(MCP_LIST_METHOD.to_owned());
        listing.default_retry_count = Some(0);
        listing.timeout_ms = Some(LISTING_TIMEOUT_MS);
        listing.max_output_bytes = Some(MAX_LISTING_BYTES);
        let outcome = self.engine.calls.execute_unsaved(session, listing, Some(provider)).await?;
        let DirectOutcome::Done(envelope) = outcome else { return Ok(Vec::new()) };
        if let Some(error) = envelope.error {
            return Err(McpImportError::Server(Box::new(error)));
        }
        let unreadable = |error: serde_json::Error| {
            let error = ToolError::new(ErrorCode::ProviderError, format!("the list of tools is invalid: {error}"));
            McpImportError::Server(Box::new(error))
        };
        let mut output = envelope.output;
        if output.get("deployment").and_then(Value::as_str) == Some(&self.engine.deployment_id()) {
            return Err(McpImportError::OwnServer);
        }
        let tools = output.get_mut("tools").map(Value::take).unwrap_or_default();
        serde_json::from_value(tools).map_err(unreadable)
    }

    async fn imported(
        &self,
        session: &Session,
        provider: &str,
    ) -> Result<Vec<Document<ToolDefinition>>, McpImportError> {
        let filter = |path: &str, value: &str| FieldEquals { path: vec![path.to_owned()], value: json!(value) };
        let filters = vec![filter("providerRef", provider), filter("toolType", "EXTERNAL_MCP")];
        Ok(self.engine.registry.list_all(session, filters).await?)
    }

    async fn create_tools(
        &self,
        session: &Session,
        provider: &RefName,
        prefix: &str,
        described: Vec<RemoteTool>,
        dry_run: bool,
    ) -> Result<McpImportReport, McpImportError> {
        if !prefix.is_empty() && format!("{prefix}x").parse::<RefName>().is_err() {
            return Err(McpImportError::Prefix(prefix.to_owned()));
        }
        let (named, skipped) = assign_names(prefix, described);
        let provider_created = false;
        let mut result =
            McpImportReport { provider: provider.to_string(), provider_created, imported: Vec::new(), skipped };
        for (name, tool) in named {
            let ref_name = name.to_string();
            let skip = |reason: String| SkippedMcpTool { ref_name: ref_name.clone(), reason };
            if self.engine.registry.catalog().builtin_tool(&name.key()).is_some() {
                result.skipped.push(skip(format!("`{ref_name}` is a built-in tool; import with a prefix")));
                continue;
            }
            if dry_run {
                match self.engine.registry.find::<ToolDefinition>(session, &name).await? {
                    Some(_) => result.skipped.push(skip(EXISTS.to_owned())),
                    None => result.imported.push(ref_name),
                }
                continue;
            }
            let body = serde_json::to_value(definition(name, provider, tool)).unwrap_or_default();
            let source = toolwright_types::DefinitionSource::McpImported;
            match self.engine.registry.create::<ToolDefinition>(session, body, source).await {
                Ok(saved) => result.imported.push(saved.document.meta.ref_name.to_string()),
                Err(RegistryError::Duplicate { .. }) => {
                    result.skipped.push(skip(EXISTS.to_owned()));
                }
                Err(RegistryError::Invalid(issues)) => result.skipped.push(skip(issues.to_string())),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(result)
    }
}

/// Converts a server's tool to a definition. The server's hints about side effects are ignored: every imported tool is
/// assumed to write.
fn definition(name: RefName, provider: &RefName, tool: RemoteTool) -> ToolDefinition {
    let mut definition = ToolDefinition::new(name, ToolType::ExternalMcp);
    definition.name = tool.title.filter(|title| (1..=128).contains(&title.chars().count()));
    definition.description = tool.description;
    definition.category = Some(IMPORT_CATEGORY.to_owned());
    definition.provider_ref = Some(provider.to_string());
    definition.has_side_effects = Some(true);
    definition.input_json_schema = Some(toolwright_types::JsonSchema(tool.input_schema));
    definition.output_json_schema = tool.output_schema.map(toolwright_types::JsonSchema);
    definition.invocation.path = Some(tool.name);
    definition.invocation.fingerprint = Some(tool.fingerprint);
    definition
}

/// Returns the name of the tool on the MCP server.
fn upstream_name(tool: &ToolDefinition) -> &str {
    tool.invocation.path.as_deref().unwrap_or_else(|| tool.ref_name.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn imported_tool_counts_as_a_write_even_if_the_server_marks_it_as_read_only() {
        let described: RemoteTool = serde_json::from_value(json!({
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
