//! The sections of the configuration, and the types of their settings.

use serde::{Deserialize, Serialize};

/// How durable a commit must be before it is acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum DatabaseSync {
    /// The commit has been flushed to disk.
    Disk,
    /// The commit has been handed to the operating system or to Postgres.
    System,
}

/// The format of log lines.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LogFormat {
    /// Human-readable text.
    Text,
    /// One JSON object per line.
    Json,
}

/// Agent defaults.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AgentSection {
    /// The maximum number of model calls of a run.
    pub default_max_iterations: u32,
    /// The maximum duration of a run, in seconds.
    pub default_timeout_seconds: u64,
    /// Whether runs are durable: each journal entry is committed before the run continues.
    pub default_durable: bool,
    /// How long an approval may stay pending, in seconds.
    pub approval_timeout_seconds: u64,
    /// How long a client may take to return a result, in seconds.
    pub client_timeout_seconds: u64,
    /// The maximum number of concurrent runs.
    pub max_running: usize,
}

/// Tool generation for entity types.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ToolsSection {
    /// Whether registering an entity type generates its tools.
    pub auto_generate: bool,
    /// Whether generated tools are updated at startup.
    pub auto_generate_on_startup: bool,
}

/// The MCP server.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct McpSection {
    /// Whether the endpoint is served.
    pub enabled: bool,
    /// The transport.
    pub transport: McpServerTransport,
    /// The path of the endpoint.
    pub path: String,
    /// Allowed `Host` names in addition to those of loopback, comma-separated. If this is empty and the server does not
    /// listen on loopback, every host is allowed.
    pub allowed_hosts: String,
    /// Allowed `Origin` values, comma-separated.
    pub allowed_origins: String,
    /// Whether MCP providers may be commands that this server starts.
    pub stdio: McpStdio,
    /// The user that runs these commands, as `uid:gid`. If empty, they run as the user of this server.
    pub command_user: String,
    /// The maximum number of MCP sessions of one principal.
    pub max_sessions_per_principal: usize,
    /// The maximum number of running commands of MCP providers in one realm.
    pub max_processes_per_realm: usize,
    /// The maximum number of running commands of MCP providers that one principal started.
    pub max_processes_per_principal: usize,
}

/// The sandbox for code written by users or models.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SandboxSection {
    /// Whether the sandbox is available.
    pub enabled: bool,
    /// The path of the CPython program. If empty, CPython is not available.
    pub python: String,
    /// The maximum number of concurrent executions.
    pub max_running: usize,
    /// The number of CPython processes kept warm after the first use.
    pub warm_processes: usize,
}

/// Whether MCP providers may be commands that this server starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum McpStdio {
    /// Commands are allowed if the server listens on loopback. In that case, its administrators already have access to
    /// this machine.
    Auto,
    /// Commands are always allowed.
    On,
    /// Commands are never allowed.
    Off,
}

/// The transport of the MCP server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum McpServerTransport {
    /// Streamable HTTP.
    StreamableHttp,
    /// The older HTTP+SSE transport. The server refuses to start with it.
    Sse,
}

/// An alternative to `restate_url`. If both are set, `restate_url` is used.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RestateSection {
    /// Whether Restate is used.
    pub enabled: bool,
    /// The URL of Restate's ingress.
    pub endpoint: String,
}

/// How long ended runs are kept, in days. Without a value, runs are kept forever.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RetentionSection {
    /// Completed runs.
    pub completed_days: Option<u32>,
    /// All other ended runs.
    pub other_days: Option<u32>,
}

/// Platform limits.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct GuardrailsSection {
    /// The maximum number of tool calls of one run.
    pub max_tool_calls_per_execution: u32,
    /// The maximum cost of one run, in US dollars.
    pub max_cost_per_execution: f64,
}

/// HTTP connections.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct HttpSection {
    /// The maximum number of open connections. Further connections wait.
    pub max_connections: usize,
    /// The maximum time from the accept of a connection to its first complete request head, in seconds.
    pub first_request_seconds: u32,
    /// The maximum time that a connection stays open without a request in progress, in seconds.
    pub idle_seconds: u32,
}
