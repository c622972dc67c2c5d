//! Tools of MCP servers: imported, discovered, accepted.

use axum::{Extension, Json};
use serde::{Deserialize, Serialize};
use toolwright_mcp::{ImportError, Imported, Imports, Skipped, Source};
use toolwright_types::json::hex_digest;
use toolwright_types::{McpTransport, ProviderType, RefName, Timestamp, ToolProviderConfig};

use crate::extract::{Body, Caller, Named};
use crate::problem::{Code, Problem};

/// Where to import tools from: a URL, a command or a provider.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct McpImportBody {
    /// The server's URL.
    #[serde(default)]
    url: Option<String>,
    /// The command that is the server; administrators only.
    #[serde(default)]
    command: Option<String>,
    /// Its arguments.
    #[serde(default, deserialize_with = "toolwright_types::or_default")]
    args: Vec<String>,
    /// Its environment.
    #[serde(default, deserialize_with = "toolwright_types::or_default")]
    env: std::collections::BTreeMap<String, String>,
    /// How the server is reached; what fits when absent.
    #[serde(default)]
    transport: Option<McpTransport>,
    /// A provider that exists.
    #[serde(default)]
    provider_ref: Option<String>,
    /// What the names of the tools begin with; nothing when absent.
    #[serde(default)]
    prefix: Option<String>,
}

/// What came of an import.
#[derive(Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct McpImportView {
    /// The provider that the tools live in.
    provider_ref: String,
    /// Tools that are new.
    imported: Vec<McpToolView>,
    /// Tools that were left as they are.
    skipped: Vec<McpSkippedView>,
}

/// A tool by its name.
#[derive(Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct McpToolView {
    ref_name: String,
}

/// A tool that was not imported, and why.
#[derive(Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct McpSkippedView {
    ref_name: String,
    reason: String,
}

/// What was found at a provider's server.
#[derive(Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DiscoveryView {
    /// What was brought in.
    #[serde(flatten)]
    imported: McpImportView,
    /// Tools of which the server now says something else; they are refused until that is accepted.
    changed: Vec<McpToolView>,
    /// Tools that the server no longer has.
    gone: Vec<McpToolView>,
    /// When it was asked.
    #[schema(value_type = String, format = DateTime)]
    last_discovery_sync: Timestamp,
}

/// Which changes to accept.
#[derive(Default, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AcceptBody {
    /// The tools; all that changed when absent.
    #[serde(default)]
    tools: Option<Vec<String>>,
}

/// Tools whose new definition was accepted.
#[derive(Serialize, utoipa::ToSchema)]
pub struct McpAcceptedView {
    accepted: Vec<McpToolView>,
}

/// Imports the tools of an MCP server. Nothing is written when the server cannot be asked.
#[utoipa::path(post, path = "/api/v1/ai/tools/import/mcp", tag = "tools", operation_id = "importMcpTools", request_body = McpImportBody,
    responses((status = 200, body = McpImportView), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub async fn import(
    Extension(imports): Extension<Imports>,
    Caller(session): Caller,
    Body(body): Body<McpImportBody>,
) -> Result<Json<McpImportView>, Problem> {
    Ok(Json(imports.import(&session, body.source()?).await?.into()))
}

/// Asks a provider's server what it has now: what is new is imported, what changed is told.
#[utoipa::path(post, path = "/api/v1/ai/tool-providers/{ref}/discover", tag = "tool-providers", operation_id = "discoverTools", params(("ref" = String, Path)),
    responses((status = 200, body = DiscoveryView), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub async fn discover(
    Extension(imports): Extension<Imports>,
    Caller(session): Caller,
    Named(name): Named,
) -> Result<Json<DiscoveryView>, Problem> {
    let found = imports.discover(&session, &name).await?;
    Ok(Json(DiscoveryView {
        imported: found.imported.into(),
        changed: named(found.changed),
        gone: named(found.gone),
        last_discovery_sync: found.at,
    }))
}

/// Accepts what a provider's server now says about its tools.
#[utoipa::path(post, path = "/api/v1/ai/tool-providers/{ref}/accept", tag = "tool-providers", operation_id = "acceptTools", params(("ref" = String, Path)),
    request_body = AcceptBody,
    responses((status = 200, body = McpAcceptedView), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub async fn accept(
    Extension(imports): Extension<Imports>,
    Caller(session): Caller,
    Named(name): Named,
    Body(body): Body<AcceptBody>,
) -> Result<Json<McpAcceptedView>, Problem> {
    let accepted = imports.accept(&session, &name, body.tools.as_deref()).await?;
    Ok(Json(McpAcceptedView { accepted: named(accepted.0) }))
}

impl McpImportBody {
    fn source(self) -> Result<Source, Problem> {
        let is_command = self.command.is_some();
        match (self.provider_ref, self.url, self.command) {
            (Some(name), None, None) => Ok(Source::Provider { name, prefix: self.prefix }),
            (None, Some(url), None) => {
                if self.transport == Some(McpTransport::Stdio) {
                    return Err(Problem::invalid("/transport", "`stdio` is for a `command`, not for a `url`"));
                }
                let host = url.split("://").nth(1).unwrap_or(&url).split(['/', '?', '#']).next().unwrap_or_default();
                let mut provider = provider(host, &serde_json::json!([url]))?;
                provider.base_url = Some(url);
                provider.mcp_transport = self.transport;
                provider.tool_prefix = self.prefix;
                Ok(Source::New(Box::new(provider)))
            }
            (None, None, Some(command)) => {
                if self.transport.is_some_and(|transport| transport != McpTransport::Stdio) {
                    return Err(Problem::invalid("/transport", "a `command` is reached over `stdio`"));
                }
                let program = command.rsplit('/').next().unwrap_or_default().to_owned();
                let mut provider = provider(&program, &serde_json::json!([command, self.args, self.env]))?;
                provider.command = Some(command);
                provider.args = self.args;
                provider.env = self.env.into_iter().collect();
                provider.mcp_transport = Some(McpTransport::Stdio);
                provider.tool_prefix = self.prefix;
                Ok(Source::New(Box::new(provider)))
            }
            _ => {
                let place = if is_command { "/command" } else { "/url" };
                Err(Problem::invalid(place, "give one of `url`, `command` and `providerRef`"))
            }
        }
    }
}

/// A provider whose name says where it is, and is the same for the same server.
fn provider(place: &str, identity: &serde_json::Value) -> Result<ToolProviderConfig, Problem> {
    let plain: String =
        place.chars().map(|c| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' }).take(64).collect();
    let digits: String = hex_digest(identity).chars().take(8).collect();
    let name: Result<RefName, _> = format!("mcp-{plain}-{digits}").parse();
    let name = name.map_err(|error| Problem::invalid("/url", error.to_string()))?;
    Ok(ToolProviderConfig::new(name, ProviderType::Mcp))
}

fn named(names: Vec<String>) -> Vec<McpToolView> {
    names.into_iter().map(|ref_name| McpToolView { ref_name }).collect()
}

impl From<Imported> for McpImportView {
    fn from(imported: Imported) -> Self {
        let skipped = |Skipped { ref_name, reason }| McpSkippedView { ref_name, reason };
        Self {
            provider_ref: imported.provider,
            imported: named(imported.imported),
            skipped: imported.skipped.into_iter().map(skipped).collect(),
        }
    }
}

impl From<ImportError> for Problem {
    fn from(error: ImportError) -> Self {
        match error {
            ImportError::Registry(error) => error.into(),
            ImportError::Unavailable(error) => error.into(),
            ImportError::Prefix(_) => Problem::invalid("/prefix", error.to_string()),
            ImportError::NotMcp(_) => Problem::invalid("/providerRef", error.to_string()),
            ImportError::NoCommands => Problem::new(Code::Forbidden, error.to_string()),
            ImportError::Server(_) => Problem::new(Code::UpstreamFailed, error.to_string()),
        }
    }
}
