//! Imports tools of MCP servers into a realm, keeps them in sync, and accepts changes of their definitions.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use toolwright_catalog::registry::{DefinitionPage, DefinitionQuery, FieldEquals, RegistryError};
use toolwright_catalog::{Session, Unavailable};
use toolwright_engine::Engine;
use toolwright_runs::DirectOutcome;
use toolwright_types::{
    Clock, Document, ErrorCode, McpTransport, ProviderType, RefName, SystemClock, Timestamp, ToolDefinition, ToolError,
    ToolProviderConfig, ToolType,
};

use super::{Client, IMPORT_CATEGORY, LIST_METHOD};

/// How long a server may take to list its tools.
const LISTING_TIMEOUT_MS: u64 = 60_000;
/// The maximum size of a listing, in bytes of JSON.
const MAX_LISTING_BYTES: u64 = 16_000_000;

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
    /// The names of new tools.
    pub imported: Vec<String>,
    /// The tools that were not imported, with reasons.
    pub skipped: Vec<SkippedMcpTool>,
}

/// A tool that was not imported.
#[derive(Debug)]
pub struct SkippedMcpTool {
    /// The name of the tool in the realm.
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

/// A tool in the listing of a server.
#[derive(Debug, Clone, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct RemoteTool {
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

impl McpImports {
    /// Creates an importer for the realms of `engine`. It uses the connections of `client`.
    pub fn new(engine: Engine, client: Client) -> Self {
        Self { engine: Arc::new(engine), client }
    }

    /// Imports the tools of a server. If the server cannot list its tools, nothing is written.
    pub async fn import(&self, session: &Session, source: McpImportSource) -> Result<McpImportReport, McpImportError> {
        let (provider, prefix, is_new) = match source {
            McpImportSource::Provider { name, prefix } => {
                let provider = self.provider(session, &name).await?.body;
                let prefix = prefix.or_else(|| provider.tool_prefix.clone());
                (provider, prefix, false)
            }
            McpImportSource::New(provider) => {
                let prefix = provider.tool_prefix.clone();
                // If a provider with this name exists, the import uses it.
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
            // The provider is validated and authorized before the server is contacted. It is stored only after the
            // server has listed its tools.
            self.engine.registry.validate(session, &provider).await?;
        }
        let described = self.fetch_tools(session, &provider).await?;
        if is_new {
            let body = serde_json::to_value(&provider).unwrap_or_default();
            self.engine.registry.create::<ToolProviderConfig>(session, body, Default::default()).await?;
        }
        self.create_tools(session, &name, prefix.as_deref().unwrap_or_default(), described).await
    }

    /// Imports new tools of a provider's server, reports changed and missing tools, and records the time in the
    /// provider.
    pub async fn discover(&self, session: &Session, name: &str) -> Result<Discovery, McpImportError> {
        let provider = self.provider(session, name).await?;
        self.engine.registry.validate(session, &provider.body).await?;
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
        let imported = self.create_tools(session, &provider.meta.ref_name, prefix, described).await?;
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

    /// Imports new tools of a server and reports changed and missing ones. If there are no new tools, nothing is
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

    async fn provider(&self, session: &Session, name: &str) -> Result<Document<ToolProviderConfig>, McpImportError> {
        let provider = self.engine.registry.get::<ToolProviderConfig>(session, name, None).await?;
        if provider.body.provider_type != ProviderType::Mcp {
            return Err(McpImportError::NotMcp(provider.meta.ref_name.to_string()));
        }
        Ok(provider)
    }

    /// Fetches a server's tools. This is done with a regular tool call whose tool definition is not stored.
    async fn fetch_tools(
        &self,
        session: &Session,
        provider: &ToolProviderConfig,
    ) -> Result<Vec<RemoteTool>, McpImportError> {
        let mut listing = ToolDefinition::new(provider.ref_name.clone(), ToolType::ExternalMcp);
        listing.category = Some(IMPORT_CATEGORY.to_owned());
        listing.provider_ref = Some(provider.ref_name.to_string());
        listing.invocation.method = Some(LIST_METHOD.to_owned());
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
        let mut tools = Vec::new();
        let mut cursor = None;
        loop {
            let wanted =
                DefinitionQuery { filters: filters.clone(), limit: 1000, cursor, ..DefinitionQuery::default() };
            let DefinitionPage { items, next } = self.engine.registry.list::<ToolDefinition>(session, wanted).await?;
            tools.extend(items);
            match next {
                Some(next) => cursor = Some(next),
                None => return Ok(tools),
            }
        }
    }

    async fn create_tools(
        &self,
        session: &Session,
        provider: &RefName,
        prefix: &str,
        described: Vec<RemoteTool>,
    ) -> Result<McpImportReport, McpImportError> {
        if !prefix.is_empty() && format!("{prefix}x").parse::<RefName>().is_err() {
            return Err(McpImportError::Prefix(prefix.to_owned()));
        }
        let (named, skipped) = assign_names(prefix, described);
        let mut result = McpImportReport { provider: provider.to_string(), imported: Vec::new(), skipped };
        for (name, tool) in named {
            let ref_name = name.to_string();
            let skip = |reason| result.skipped.push(SkippedMcpTool { ref_name, reason });
            let body = serde_json::to_value(definition(name, provider, tool)).unwrap_or_default();
            let source = toolwright_types::DefinitionSource::McpImported;
            match self.engine.registry.create::<ToolDefinition>(session, body, source).await {
                Ok(saved) => result.imported.push(saved.document.meta.ref_name.to_string()),
                Err(RegistryError::Duplicate { .. }) => skip("a tool with this name already exists".to_owned()),
                Err(RegistryError::Invalid(issues)) => skip(issues.to_string()),
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

/// Gives each tool of a server its name in the realm. Returns the tools that get none too, with the reason.
fn assign_names(prefix: &str, described: Vec<RemoteTool>) -> (Vec<(RefName, RemoteTool)>, Vec<SkippedMcpTool>) {
    let with_names = described.into_iter().map(|tool| (local_name(prefix, &tool.name), tool));
    // Tools whose name is kept come first, so that a changed name cannot take the name of another tool.
    let (kept, changed): (Vec<_>, Vec<_>) =
        with_names.partition(|(name, tool)| name.strip_prefix(prefix) == Some(tool.name.as_str()));
    let (mut named, mut skipped) = (Vec::new(), Vec::new());
    // The keys of the assigned names, with the names on the server.
    let mut assigned: HashMap<String, String> = HashMap::new();
    for (ref_name, tool) in kept.into_iter().chain(changed) {
        let upstream = &tool.name;
        let reason = match ref_name.parse::<RefName>() {
            Err(error) => format!("tool `{upstream}` of the server cannot get a name: {error}"),
            Ok(name) => match assigned.get(&name.key()) {
                Some(other) => format!(
                    "tools `{other}` and `{upstream}` of the server would have the same name; import again with another prefix"
                ),
                None => {
                    assigned.insert(name.key(), upstream.clone());
                    named.push((name, tool));
                    continue;
                }
            },
        };
        skipped.push(SkippedMcpTool { ref_name, reason });
    }
    (named, skipped)
}

/// Returns the prefix and the server's name as a `refName`. Legal characters are kept. Others become `_`, also a second
/// `/`. At the start of a part, where `_` is not legal, they are removed.
fn local_name(prefix: &str, name: &str) -> String {
    let mut local = prefix.to_owned();
    for c in name.chars() {
        let is_part_start = local.is_empty() || local.ends_with('/');
        match c {
            c if c.is_ascii_alphanumeric() => local.push(c),
            _ if is_part_start => {}
            '_' | '.' | '-' => local.push(c),
            '/' if !local.contains('/') => local.push('/'),
            _ => local.push('_'),
        }
    }
    if local.len() > prefix.len() && local.ends_with('/') {
        local.pop();
        local.push('_');
    }
    local
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn imported_names_change_only_where_a_ref_name_requires_it() {
        for (prefix, name, expected) in [
            ("", "get-sum", "get-sum"),
            ("", "files/read.all", "files/read.all"),
            ("", "files/read/all", "files/read_all"),
            ("x_", "files/read", "x_files/read"),
            ("x/", "files/read.all", "x/files_read.all"),
            ("", "_hidden", "hidden"),
            ("x_", "_hidden", "x__hidden"),
            ("", "/files", "files"),
            ("", "files/", "files_"),
            ("", "files//read", "files/read"),
            ("", "files/.read", "files/read"),
            ("", "größe", "gr__e"),
        ] {
            let local = local_name(prefix, name);
            assert_eq!(local, expected, "{prefix} {name}");
            assert!(local.parse::<RefName>().is_ok(), "{local}");
        }
        for (prefix, name) in [("", "ß"), ("", "import"), ("x/", "_")] {
            assert!(local_name(prefix, name).parse::<RefName>().is_err(), "{prefix} {name}");
        }
    }

    #[test]
    fn tools_whose_names_become_equal_are_skipped_except_the_one_whose_name_is_kept() {
        let tool = |name: &str| serde_json::from_value(json!({ "name": name, "fingerprint": "f" })).unwrap();
        let described = ["a/b", "a_b", "A_B", "ß"].map(tool).into();
        let (named, skipped) = assign_names("x/", described);
        let named: Vec<_> = named.iter().map(|(name, tool)| (name.as_str(), tool.name.as_str())).collect();
        assert_eq!(named, [("x/a_b", "a_b")]);
        let skipped: Vec<_> = skipped.iter().map(|one| (one.ref_name.as_str(), one.reason.as_str())).collect();
        assert_eq!(skipped.len(), 3);
        for ((ref_name, reason), (expected, part)) in
            skipped.iter().zip([("x/A_B", "`a_b` and `A_B`"), ("x/a_b", "`a_b` and `a/b`"), ("x/", "`ß`")])
        {
            assert_eq!(*ref_name, expected);
            assert!(reason.contains(part), "{reason}");
        }
    }

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
