//! The connection to a system that tools live in.

use indexmap::IndexMap;
use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use crate::tool::{or_default, or_yes, without_nulls};
use crate::{RefName, Timestamp};

/// A provider as its author wrote it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ToolProviderConfig {
    /// How the provider is addressed.
    #[schema(value_type = String)]
    pub ref_name: RefName,
    /// Its free name; `refName` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// What it speaks.
    #[serde(default, deserialize_with = "or_default")]
    pub provider_type: ProviderType,
    /// The URL under which its tools live.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_url: Option<String>,
    /// How calls prove who they are.
    #[serde(default, deserialize_with = "or_default")]
    pub auth: AuthConfig,
    /// Headers of every request.
    #[serde(default, deserialize_with = "without_nulls", skip_serializing_if = "IndexMap::is_empty")]
    #[schema(value_type = std::collections::BTreeMap<String, String>)]
    pub default_headers: IndexMap<String, String>,
    /// How long one attempt may take; 30 s when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// Retries after the first attempt, for tools that do not say; none when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_retries: Option<u32>,
    /// Whether its tools can be called at all.
    #[serde(default = "enabled", deserialize_with = "or_yes")]
    pub enabled: bool,
    /// Networks its tools may reach although they are private, as CIDRs.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<String>)]
    pub egress_allow: Vec<IpNet>,

    /// How to reach an MCP server; `stdio` when absent and there is a `command`, else `streamable-http`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mcp_transport: Option<McpTransport>,
    /// The program that is an MCP server, for `stdio`. It is run on the server's machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Its arguments.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// Its environment, beside PATH, HOME, LANG, LC_ALL and TMPDIR of the server.
    #[serde(default, deserialize_with = "without_nulls", skip_serializing_if = "IndexMap::is_empty")]
    #[schema(value_type = std::collections::BTreeMap<String, String>)]
    pub env: IndexMap<String, String>,
    /// Variables whose values are secrets: the name of the secret by the name of the variable.
    #[serde(default, deserialize_with = "without_nulls", skip_serializing_if = "IndexMap::is_empty")]
    #[schema(value_type = std::collections::BTreeMap<String, String>)]
    pub env_secret_refs: IndexMap<String, String>,
    /// What the names of tools that are imported from it begin with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_prefix: Option<String>,
    /// Whether its tools are discovered again from time to time.
    #[serde(default, deserialize_with = "or_default")]
    pub auto_discover_tools: bool,
    /// When they last were.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub last_discovery_sync: Option<Timestamp>,
}

impl ToolProviderConfig {
    /// A provider of this name and type with every default.
    pub fn new(ref_name: RefName, provider_type: ProviderType) -> Self {
        Self {
            ref_name,
            name: None,
            description: None,
            provider_type,
            base_url: None,
            auth: AuthConfig::default(),
            default_headers: IndexMap::new(),
            timeout_ms: None,
            max_retries: None,
            enabled: true,
            egress_allow: Vec::new(),
            mcp_transport: None,
            command: None,
            args: Vec::new(),
            env: IndexMap::new(),
            env_secret_refs: IndexMap::new(),
            tool_prefix: None,
            auto_discover_tools: false,
            last_discovery_sync: None,
        }
    }

    /// How its MCP server is reached.
    pub fn mcp_transport(&self) -> McpTransport {
        let by_command = if self.command.is_some() { McpTransport::Stdio } else { McpTransport::StreamableHttp };
        self.mcp_transport.unwrap_or(by_command)
    }

    /// Whether it is a command that is run on the server's machine.
    pub fn is_command(&self) -> bool {
        self.provider_type == ProviderType::Mcp && self.mcp_transport() == McpTransport::Stdio
    }
}

/// What a provider speaks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ProviderType {
    /// HTTP.
    #[default]
    Rest,
    /// The Model Context Protocol.
    Mcp,
    /// gRPC.
    Grpc,
    /// This server itself.
    QuantumInternal,
}

/// How an MCP server is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum McpTransport {
    /// The older HTTP and server-sent events.
    Sse,
    /// A child process.
    Stdio,
    /// The current HTTP transport.
    StreamableHttp,
}

/// How calls prove who they are. Holds references to secrets, never values.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AuthConfig {
    /// The scheme.
    #[serde(default, deserialize_with = "or_default")]
    pub auth_type: AuthType,
    /// The secret: a token, an API key or an OAuth2 client secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<String>,
    /// Where OAuth2 tokens are issued.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_endpoint: Option<String>,
    /// The header of an API key; `X-API-Key` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub header_name: Option<String>,
    /// The OAuth2 client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_id: Option<String>,
    /// The OAuth2 scopes asked for.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub scopes: Vec<String>,
    /// The secret that holds a client certificate and its key as PEM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cert_ref: Option<String>,
}

/// A scheme of authentication.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum AuthType {
    /// None.
    #[default]
    None,
    /// `Authorization: Bearer …`.
    Bearer,
    /// A key in a header.
    ApiKey,
    /// OAuth2 client credentials.
    #[serde(rename = "oauth2")]
    OAuth2,
    /// A client certificate.
    Mtls,
}

fn enabled() -> bool {
    true
}
