//! The connection to an external system that tools use.

use indexmap::IndexMap;
use ipnet::IpNet;
use serde::{Deserialize, Deserializer, Serialize};

use crate::nullable::{null_as_default, null_as_true, skip_null_entries};
use crate::{RefName, Timestamp};

/// A provider as its author wrote it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ToolProviderConfig {
    /// The reference name of the provider.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub ref_name: RefName,
    /// A name in any form, without the restrictions of `refName`. Default: `refName`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// A description of the provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The protocol.
    #[serde(default, deserialize_with = "null_as_default")]
    pub provider_type: ProviderType,
    /// The base URL of the provider's tools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_url: Option<String>,
    /// How calls authenticate.
    #[serde(default, deserialize_with = "null_as_default")]
    pub auth: AuthConfig,
    /// Headers of every request.
    #[serde(default, deserialize_with = "skip_null_entries", skip_serializing_if = "IndexMap::is_empty")]
    #[cfg_attr(feature = "openapi", schema(value_type = std::collections::BTreeMap<String, String>))]
    pub default_headers: IndexMap<String, String>,
    /// The timeout of one attempt. Default: 30 s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// The number of retries after the first attempt, for tools that set no number. Default: 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_retries: Option<u32>,
    /// Whether the tools of this provider can be called.
    #[serde(default = "default_true", deserialize_with = "null_as_true")]
    pub enabled: bool,
    /// Private networks that the tools of this provider may reach, as CIDRs or single addresses.
    #[serde(default, deserialize_with = "crate::null_or_networks", skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<String>))]
    pub egress_allow: Vec<IpNet>,

    /// The file descriptor set of a gRPC server in base64. If absent, server reflection is used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub descriptor_set: Option<String>,
    /// The sources of the provider's reference data. The provider's tools fetch the data.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub reference_data: Vec<ReferenceSource>,

    /// The transport of an MCP server. Default: `stdio` if there is a `command`, otherwise `streamable-http`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mcp_transport: Option<McpTransport>,
    /// The command of an MCP server, for `stdio`. It runs on the host of this server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// The arguments of the command: texts, and objects that name secrets. All users of the machine can see a secret in
    /// the arguments of a program. So `envSecretRefs` is the better choice if the program can read the secret from its
    /// environment.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<CommandArgument>,
    /// Environment variables of the command, in addition to the server's PATH, HOME, LANG, LC_ALL and TMPDIR.
    #[serde(default, deserialize_with = "skip_null_entries", skip_serializing_if = "IndexMap::is_empty")]
    #[cfg_attr(feature = "openapi", schema(value_type = std::collections::BTreeMap<String, String>))]
    pub env: IndexMap<String, String>,
    /// Environment variables with secret values. Maps each variable name to the name of a secret.
    #[serde(default, deserialize_with = "skip_null_entries", skip_serializing_if = "IndexMap::is_empty")]
    #[cfg_attr(feature = "openapi", schema(value_type = std::collections::BTreeMap<String, String>))]
    pub env_secret_refs: IndexMap<String, String>,
    /// The prefix of the names of imported tools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_prefix: Option<String>,
    /// Whether this server periodically imports the tools of the MCP server again.
    #[serde(default, deserialize_with = "null_as_default")]
    pub auto_discover_tools: bool,
    /// The time of the last import of tools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = DateTime))]
    pub last_discovery_sync: Option<Timestamp>,
}

impl ToolProviderConfig {
    /// Creates a provider. All other fields have their defaults.
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

    /// The transport of the MCP server: the configured one, or the default.
    pub fn mcp_transport(&self) -> McpTransport {
        let by_command = if self.command.is_some() { McpTransport::Stdio } else { McpTransport::StreamableHttp };
        self.mcp_transport.unwrap_or(by_command)
    }

    /// Whether the provider is an MCP server that runs as a command on the host of this server.
    pub fn is_command(&self) -> bool {
        self.provider_type == ProviderType::Mcp && self.mcp_transport() == McpTransport::Stdio
    }

    /// The names of the secrets that a call needs. A name can occur several times.
    pub fn secret_names(&self) -> impl Iterator<Item = &str> {
        let auth = [self.auth.secret_ref.as_deref(), self.auth.cert_ref.as_deref()];
        let arguments = self.args.iter().filter_map(CommandArgument::secret_ref);
        auth.into_iter().flatten().chain(self.env_secret_refs.values().map(String::as_str)).chain(arguments)
    }

    /// The source of this type of reference data.
    pub fn reference_source(&self, data_type: &str) -> Option<&ReferenceSource> {
        self.reference_data.iter().find(|source| source.data_type == data_type)
    }
}

/// The source of one type of reference data, such as the users or the pipeline stages of a system.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReferenceSource {
    /// The type of the items, such as `users`.
    pub data_type: String,
    /// The tool that lists the items.
    pub tool_ref: String,
    /// The input of the tool.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "serde_json::Map::is_empty")]
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub input: serde_json::Map<String, serde_json::Value>,
    /// The JSONPath of the items in the output. Default: the whole output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extraction_path: Option<String>,
    /// The field with the id of an item.
    #[serde(default = "default_id_field", deserialize_with = "null_as_default_id_field")]
    pub id_field: String,
    /// The field with the name of an item.
    #[serde(default = "default_name_field", deserialize_with = "null_as_default_name_field")]
    pub name_field: String,
    /// Further fields by which items can be found, such as `email`.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub lookup_fields: Vec<String>,
    /// Whether the start of a name is enough to find an item.
    #[serde(default, deserialize_with = "null_as_default")]
    pub fuzzy_match: bool,
    /// Further fields to store.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub metadata_fields: Vec<String>,
    /// The time after which the items are fetched again. If absent, they are fetched only on request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_seconds: Option<u64>,
}

/// An argument of a command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(untagged, expecting = "an argument must be a string or an object with `secretRef`")]
pub enum CommandArgument {
    /// A text without a secret.
    Text(String),
    /// An argument that contains a secret.
    Secret(SecretArgument),
}

/// An argument that contains a secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SecretArgument {
    /// The name of the secret.
    pub secret_ref: String,
    /// The text before the value of the secret, such as `--token=`.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "String::is_empty")]
    pub prefix: String,
}

impl CommandArgument {
    /// The text of an argument without a secret.
    pub fn text(&self) -> Option<&str> {
        match self {
            CommandArgument::Text(text) => Some(text),
            CommandArgument::Secret(_) => None,
        }
    }

    /// The name of the secret in the argument; `None` if the argument has no secret.
    pub fn secret_ref(&self) -> Option<&str> {
        match self {
            CommandArgument::Text(_) => None,
            CommandArgument::Secret(argument) => Some(&argument.secret_ref),
        }
    }
}

/// The protocol of a provider.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ProviderType {
    /// HTTP.
    #[default]
    Rest,
    /// The Model Context Protocol.
    Mcp,
    /// gRPC.
    Grpc,
    /// This server.
    QuantumInternal,
}

/// The transport of an MCP server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum McpTransport {
    /// HTTP with server-sent events, the older transport.
    Sse,
    /// A child process.
    Stdio,
    /// Streamable HTTP, the current transport.
    StreamableHttp,
}

/// How calls authenticate. Contains the names of secrets, never their values.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AuthConfig {
    /// The scheme.
    #[serde(default, deserialize_with = "null_as_default")]
    pub auth_type: AuthType,
    /// The name of the secret. The secret contains a token, an API key, an OAuth2 client secret, the tokens of a user's
    /// login, or the certificate of `mtls`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<String>,
    /// The OAuth2 token endpoint for client credentials. If absent, a user logs in to the provider's MCP server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_endpoint: Option<String>,
    /// The header that contains the API key. Default: `X-API-Key`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub header_name: Option<String>,
    /// The OAuth2 client id. If absent, the secret contains it: `clientId:clientSecret`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_id: Option<String>,
    /// The OAuth2 scopes to request.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub scopes: Vec<String>,
    /// The name of the secret with a client certificate and its key as PEM. If this field is absent, `mtls` uses
    /// `secretRef`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cert_ref: Option<String>,
}

impl AuthConfig {
    /// The name of the secret with the client certificate: `certRef`, or the `secretRef` of authType `mtls`.
    pub fn certificate_ref(&self) -> Option<&str> {
        let secret_ref = self.secret_ref.as_deref().filter(|_| self.auth_type == AuthType::Mtls);
        self.cert_ref.as_deref().or(secret_ref)
    }

    /// Whether the secret contains the tokens of a user's login.
    pub fn is_login(&self) -> bool {
        self.auth_type == AuthType::OAuth2 && self.token_endpoint.is_none()
    }
}

/// An authentication scheme.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum AuthType {
    /// No authentication.
    #[default]
    None,
    /// `Authorization: Bearer …`.
    Bearer,
    /// A key in a header.
    ApiKey,
    /// OAuth2, with client credentials or with a user's login.
    #[serde(rename = "oauth2")]
    OAuth2,
    /// A client certificate.
    Mtls,
}

fn default_true() -> bool {
    true
}

fn default_id_field() -> String {
    "id".to_owned()
}

fn default_name_field() -> String {
    "name".to_owned()
}

fn null_as_default_id_field<'de, D: Deserializer<'de>>(d: D) -> Result<String, D::Error> {
    Ok(Option::deserialize(d)?.unwrap_or_else(default_id_field))
}

fn null_as_default_name_field<'de, D: Deserializer<'de>>(d: D) -> Result<String, D::Error> {
    Ok(Option::deserialize(d)?.unwrap_or_else(default_name_field))
}
