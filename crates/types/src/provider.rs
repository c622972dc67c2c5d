//! The connection to a system that tools live in.

use indexmap::IndexMap;
use ipnet::IpNet;
use serde::{Deserialize, Deserializer, Serialize};

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

    /// What a gRPC server can do: a set of file descriptors in base64. When absent, the server is asked by reflection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub descriptor_set: Option<String>,
    /// What its system calls things, fetched by tools of it.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub reference_data: Vec<ReferenceSource>,

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
            descriptor_set: None,
            reference_data: Vec::new(),
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

    /// Where the items of a type come from.
    pub fn reference_source(&self, data_type: &str) -> Option<&ReferenceSource> {
        self.reference_data.iter().find(|source| source.data_type == data_type)
    }
}

/// Where the items of one type come from, such as the users or the stages of a system.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReferenceSource {
    /// What the items are, such as `users`.
    pub data_type: String,
    /// The tool that lists them.
    pub tool_ref: String,
    /// What it is called with.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "serde_json::Map::is_empty")]
    #[schema(value_type = Object)]
    pub input: serde_json::Map<String, serde_json::Value>,
    /// Where in its output the items are, as a JSONPath; the output itself when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extraction_path: Option<String>,
    /// The field of an item that holds its id.
    #[serde(default = "id_field", deserialize_with = "or_id_field")]
    pub id_field: String,
    /// The field of an item that holds its name.
    #[serde(default = "name_field", deserialize_with = "or_name_field")]
    pub name_field: String,
    /// Further fields by which an item can be found, such as `email`.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub lookup_fields: Vec<String>,
    /// Whether the beginning of a name is enough.
    #[serde(default, deserialize_with = "or_default")]
    pub fuzzy_match: bool,
    /// Further fields that are kept.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub metadata_fields: Vec<String>,
    /// After how long the items are fetched again; only on demand when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_seconds: Option<u64>,
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
    /// The secret: a token, an API key, an OAuth2 client secret, or what a login granted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<String>,
    /// Where OAuth2 tokens are issued. Without it, somebody logs in to the provider's MCP server.
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

impl AuthConfig {
    /// Whether the secret is what somebody was granted by logging in.
    pub fn is_login(&self) -> bool {
        self.auth_type == AuthType::OAuth2 && self.token_endpoint.is_none()
    }
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
    /// OAuth2: client credentials, or a login.
    #[serde(rename = "oauth2")]
    OAuth2,
    /// A client certificate.
    Mtls,
}

fn enabled() -> bool {
    true
}

fn id_field() -> String {
    "id".to_owned()
}

fn name_field() -> String {
    "name".to_owned()
}

fn or_id_field<'de, D: Deserializer<'de>>(d: D) -> Result<String, D::Error> {
    Ok(Option::deserialize(d)?.unwrap_or_else(id_field))
}

fn or_name_field<'de, D: Deserializer<'de>>(d: D) -> Result<String, D::Error> {
    Ok(Option::deserialize(d)?.unwrap_or_else(name_field))
}
