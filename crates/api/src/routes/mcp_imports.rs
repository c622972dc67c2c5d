//! Tools of MCP servers: import, discover and accept.

use axum::{Extension, Json};
use serde::{Deserialize, Serialize};
use toolwright_mcp::{McpImportError, McpImportReport, McpImportSource, McpImports, SkippedMcpTool};
use toolwright_types::json::hex_digest;
use toolwright_types::{CommandArgument, McpTransport, ProviderType, RefName, Timestamp, ToolProviderConfig};

use super::imports::parse_url;
use crate::extract::{Caller, JsonBody, PathName};
use crate::problem::{Code, Problem};

/// The MCP server to import from: a URL, a command or a provider.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct McpImportBody {
    /// The URL of the MCP server.
    #[serde(default)]
    url: Option<String>,
    /// The command that starts the MCP server. Only administrators may set it.
    #[serde(default)]
    command: Option<String>,
    /// The arguments of the command: texts, and objects that name secrets.
    #[serde(default, deserialize_with = "toolwright_types::null_as_default")]
    args: Vec<CommandArgument>,
    /// The environment of the command.
    #[serde(default, deserialize_with = "toolwright_types::null_as_default")]
    env: std::collections::BTreeMap<String, String>,
    /// The transport. Default: `stdio` if there is a `command`, otherwise `streamable-http`.
    #[serde(default)]
    transport: Option<McpTransport>,
    /// The name of an existing provider.
    #[serde(default)]
    provider_ref: Option<String>,
    /// The prefix of tool names. Default: no prefix.
    #[serde(default)]
    prefix: Option<String>,
    /// Whether to return what an import would create, without writing it.
    #[serde(default, deserialize_with = "toolwright_types::null_as_default")]
    dry_run: bool,
}

/// The result of an import.
#[derive(Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct McpImportView {
    /// The provider of the tools.
    pub provider_ref: String,
    /// Whether the import creates the provider.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub provider_created: bool,
    /// The new tools.
    pub imported: Vec<McpToolView>,
    /// The tools that were not imported.
    pub skipped: Vec<McpSkippedView>,
    /// Whether nothing was written.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
}

/// The name of a tool.
#[derive(Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct McpToolView {
    /// The name.
    pub ref_name: String,
}

/// A tool that was not imported, with the reason.
#[derive(Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct McpSkippedView {
    /// The name.
    pub ref_name: String,
    /// The reason.
    pub reason: String,
}

/// The result of a discovery.
#[derive(Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DiscoveryView {
    /// The tools that were imported.
    #[serde(flatten)]
    imported: McpImportView,
    /// The tools whose definition changed on the MCP server. Calls to them are rejected until the change is accepted.
    changed: Vec<McpToolView>,
    /// The tools that the MCP server no longer lists.
    gone: Vec<McpToolView>,
    /// The time of the discovery.
    #[schema(value_type = String, format = DateTime)]
    last_discovery_sync: Timestamp,
}

/// The changes to accept.
#[derive(Default, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct AcceptBody {
    /// The names of the tools. Default: all changed tools.
    #[serde(default)]
    tools: Option<Vec<String>>,
}

/// The tools whose new definition was accepted.
#[derive(Serialize, utoipa::ToSchema)]
pub(crate) struct McpAcceptedView {
    accepted: Vec<McpToolView>,
}

/// Imports the tools of an MCP server. If the MCP server cannot list its tools, nothing is saved.
#[utoipa::path(post, path = "/api/v1/ai/tools/import/mcp", tag = "tools", operation_id = "importMcpTools", request_body = McpImportBody,
    responses((status = 200, body = McpImportView)))]
pub(crate) async fn import(
    Extension(imports): Extension<McpImports>,
    Caller(session): Caller,
    JsonBody(body): JsonBody<McpImportBody>,
) -> Result<Json<McpImportView>, Problem> {
    let dry_run = body.dry_run;
    let report = imports.import(&session, body.source()?, dry_run).await?;
    Ok(Json(McpImportView { dry_run, ..report.into() }))
}

/// Discovers the tools of a provider's MCP server: imports new tools, and reports changed and missing tools.
#[utoipa::path(post, path = "/api/v1/ai/tool-providers/{ref}/discover", tag = "tool-providers", operation_id = "discoverTools", params(("ref" = String, Path)),
    responses((status = 200, body = DiscoveryView)))]
pub(crate) async fn discover(
    Extension(imports): Extension<McpImports>,
    Caller(session): Caller,
    PathName(name): PathName,
) -> Result<Json<DiscoveryView>, Problem> {
    let discovery = imports.discover(&session, &name).await?;
    Ok(Json(DiscoveryView {
        imported: discovery.imported.into(),
        changed: tool_views(discovery.changed),
        gone: tool_views(discovery.gone),
        last_discovery_sync: discovery.at,
    }))
}

/// Accepts the current definitions of a provider's tools.
#[utoipa::path(post, path = "/api/v1/ai/tool-providers/{ref}/accept", tag = "tool-providers", operation_id = "acceptTools", params(("ref" = String, Path)),
    request_body = AcceptBody,
    responses((status = 200, body = McpAcceptedView)))]
pub(crate) async fn accept(
    Extension(imports): Extension<McpImports>,
    Caller(session): Caller,
    PathName(name): PathName,
    JsonBody(body): JsonBody<AcceptBody>,
) -> Result<Json<McpAcceptedView>, Problem> {
    // Boxed, because the future is large.
    let accepted = Box::pin(imports.accept(&session, &name, body.tools.as_deref())).await?;
    Ok(Json(McpAcceptedView { accepted: tool_views(accepted.0) }))
}

impl McpImportBody {
    fn source(self) -> Result<McpImportSource, Problem> {
        let is_command = self.command.is_some();
        match (self.provider_ref, self.url, self.command) {
            (Some(name), None, None) => Ok(McpImportSource::Provider { name, prefix: self.prefix }),
            (None, Some(url), None) => {
                if self.transport == Some(McpTransport::Stdio) {
                    return Err(Problem::invalid("/transport", "must not be `stdio` if `url` is set"));
                }
                parse_url("/url", &url)?;
                let host = url.split("://").nth(1).unwrap_or(&url).split(['/', '?', '#']).next().unwrap_or_default();
                let mut provider = provider(host, &serde_json::json!([url]))?;
                provider.base_url = Some(url);
                provider.mcp_transport = self.transport;
                provider.tool_prefix = self.prefix;
                Ok(McpImportSource::New(Box::new(provider)))
            }
            (None, None, Some(command)) => {
                if self.transport.is_some_and(|transport| transport != McpTransport::Stdio) {
                    return Err(Problem::invalid("/transport", "must be `stdio` or absent if `command` is set"));
                }
                let program = command.rsplit('/').next().unwrap_or_default().to_owned();
                let mut provider = provider(&program, &serde_json::json!([command, self.args, self.env]))?;
                provider.command = Some(command);
                provider.args = self.args;
                provider.env = self.env.into_iter().collect();
                provider.mcp_transport = Some(McpTransport::Stdio);
                provider.tool_prefix = self.prefix;
                Ok(McpImportSource::New(Box::new(provider)))
            }
            _ => {
                let pointer = if is_command { "/command" } else { "/url" };
                Err(Problem::invalid(pointer, "exactly one of `url`, `command` and `providerRef` is required"))
            }
        }
    }
}

/// Returns a provider whose name is derived from the URL or the command of the MCP server. A second import from the
/// same server therefore uses the same provider.
fn provider(label: &str, identity: &serde_json::Value) -> Result<ToolProviderConfig, Problem> {
    let slug: String =
        label.chars().map(|c| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' }).take(64).collect();
    let digest: String = hex_digest(identity).chars().take(8).collect();
    let name: Result<RefName, _> = format!("mcp-{slug}-{digest}").parse();
    let name = name.map_err(|error| Problem::invalid("/url", error.to_string()))?;
    Ok(ToolProviderConfig::new(name, ProviderType::Mcp))
}

fn tool_views(names: Vec<String>) -> Vec<McpToolView> {
    names.into_iter().map(|ref_name| McpToolView { ref_name }).collect()
}

impl From<McpImportReport> for McpImportView {
    fn from(imported: McpImportReport) -> Self {
        let skipped = |SkippedMcpTool { ref_name, reason }| McpSkippedView { ref_name, reason };
        Self {
            provider_ref: imported.provider,
            provider_created: imported.provider_created,
            imported: tool_views(imported.imported),
            skipped: imported.skipped.into_iter().map(skipped).collect(),
            dry_run: false,
        }
    }
}

impl From<McpImportError> for Problem {
    fn from(error: McpImportError) -> Self {
        match error {
            McpImportError::Registry(error) => error.into(),
            McpImportError::Unavailable(error) => error.into(),
            McpImportError::Prefix(_) => Problem::invalid("/prefix", error.to_string()),
            McpImportError::NotMcp(_) => Problem::invalid("/providerRef", error.to_string()),
            McpImportError::OwnServer => Problem::new(Code::CannotImport, error.to_string()),
            McpImportError::StdioDisabled => Problem::new(Code::Forbidden, error.to_string()),
            McpImportError::Server(_) => Problem::new(Code::UpstreamFailed, error.to_string()),
        }
    }
}
