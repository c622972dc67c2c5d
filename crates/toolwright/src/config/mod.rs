//! Reads the server configuration. Flags override `TOOLWRIGHT_*` variables. Variables override `toolwright.toml`, and
//! the file overrides the defaults.
//!
//! In environment variables, two underscores separate a section from its key, for example
//! `TOOLWRIGHT_AGENT__DEFAULT_MAX_ITERATIONS=5`.

mod sections;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use figment::Figment;
use figment::providers::{Format, Serialized, Toml};
use figment::value::Value;
use ipnet::IpNet;
use secrecy::SecretString;
use serde::{Deserialize, Serialize};
use toolwright_agents::AgentSettings;
use toolwright_catalog::ModelDefaults;
use toolwright_machine::Limits;
use toolwright_mcp::{CommandUser, HostPolicy, ProcessLimits};
use toolwright_models::PriceList;
use toolwright_records::GenerationSettings;
use toolwright_runs::blobs::{BlobLocation, InvalidLocation};

use crate::environment::Environment;
use crate::listen::{ConnectionLimits, Deadlines};
pub(crate) use sections::{
    AgentSection, DatabaseSync, GuardrailsSection, HttpSection, LogFormat, McpSection, McpServerTransport, McpStdio,
    RestateSection, RetentionSection, SandboxSection, ToolsSection,
};

/// The server configuration.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Config {
    /// The address to listen on.
    pub bind: SocketAddr,
    /// The data directory.
    pub data: PathBuf,
    /// The URL of a Postgres database. Default: an SQLite file in `data`.
    pub database_url: Option<String>,
    /// Where blobs are stored: `s3://BUCKET/PREFIX` or `file:///PATH`. Default: the folder `blobs` in `data`.
    pub blob_url: Option<String>,
    /// How durable a commit must be before it is acknowledged.
    pub database_sync: DatabaseSync,
    /// The URL of a Redis server for a result cache and rate limits shared by several servers.
    pub redis_url: Option<String>,
    /// The URL of Restate's ingress. When set, Restate schedules durable runs.
    pub restate_url: Option<String>,
    /// The URL of Restate's admin API, where this server registers itself.
    pub restate_admin_url: String,
    /// The address on which this server accepts calls from Restate.
    pub restate_bind: SocketAddr,
    /// The address that Restate calls, if it differs from `restate_bind`.
    pub restate_advertise: Option<String>,
    /// The public key that verifies Restate's request signatures.
    pub restate_identity_key: Option<String>,
    /// Private networks that tools may reach, as comma-separated CIDRs.
    pub egress_allow: String,
    /// The directory of SQLite files in which entity types may store records. If absent, entity types cannot use SQLite
    /// files.
    pub sqlite_folder: Option<PathBuf>,
    /// The administrator's API key, at least 16 characters.
    #[serde(skip_serializing)]
    pub admin_key: Option<SecretString>,
    /// The key that encrypts secrets, 32 bytes in base64. Default: the key in a file in `data`. The first start creates
    /// this file with a random key.
    #[serde(skip_serializing)]
    pub seal_key: Option<SecretString>,
    /// The log format.
    pub log_format: LogFormat,
    /// How long shutdown waits for running calls, in seconds.
    pub shutdown_grace_seconds: u64,

    /// The model provider of agents whose definition has no `llmConfig.provider`.
    pub default_provider: String,
    /// The model of agents whose definition names no model.
    pub default_model: String,
    /// The temperature of agents whose definition sets no temperature.
    pub default_temperature: f64,
    /// The output token limit of agents whose definition sets no limit.
    pub default_max_tokens: u32,
    /// A file with model prices that override the built-in prices.
    pub prices_file: Option<PathBuf>,
    /// HTTP connections.
    pub http: HttpSection,
    /// Agent defaults.
    pub agent: AgentSection,
    /// Tool generation for entity types.
    pub tools: ToolsSection,
    /// The MCP server.
    pub mcp: McpSection,
    /// The sandbox for code written by users or models.
    pub sandbox: SandboxSection,
    /// An alternative to `restate_url`.
    pub restate: RestateSection,
    /// Platform limits, which no agent may exceed.
    pub guardrails: GuardrailsSection,
    /// How long ended runs are kept.
    pub retention: RetentionSection,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            bind: SocketAddr::from(([127, 0, 0, 1], 7411)),
            data: PathBuf::from("./toolwright-data"),
            database_url: None,
            blob_url: None,
            database_sync: DatabaseSync::Disk,
            redis_url: None,
            restate_url: None,
            restate_admin_url: "http://127.0.0.1:9070".into(),
            restate_bind: SocketAddr::from(([127, 0, 0, 1], 9080)),
            restate_advertise: None,
            restate_identity_key: None,
            egress_allow: String::new(),
            sqlite_folder: None,
            admin_key: None,
            seal_key: None,
            log_format: LogFormat::Text,
            shutdown_grace_seconds: 30,
            default_provider: "anthropic".into(),
            default_model: "claude-sonnet-4-20250514".into(),
            default_temperature: 0.7,
            default_max_tokens: 4096,
            prices_file: None,
            http: HttpSection { max_connections: 4096, first_request_seconds: 15, idle_seconds: 75 },
            agent: AgentSection {
                default_max_iterations: 10,
                default_timeout_seconds: 120,
                default_durable: false,
                approval_timeout_seconds: 24 * 60 * 60,
                client_timeout_seconds: 60 * 60,
                max_running: 10_000,
            },
            tools: ToolsSection { auto_generate: true, auto_generate_on_startup: true },
            mcp: McpSection {
                enabled: true,
                transport: McpServerTransport::StreamableHttp,
                path: "/mcp".into(),
                allowed_hosts: String::new(),
                allowed_origins: String::new(),
                stdio: McpStdio::Auto,
                command_user: String::new(),
                max_sessions_per_principal: 100,
                max_processes_per_realm: 64,
                max_processes_per_principal: 32,
            },
            sandbox: SandboxSection { enabled: true, python: "python3".into(), max_running: 4, warm_processes: 2 },
            restate: RestateSection { enabled: false, endpoint: "http://127.0.0.1:8080".into() },
            guardrails: GuardrailsSection { max_tool_calls_per_execution: 50, max_cost_per_execution: 1.0 },
            retention: RetentionSection::default(),
        }
    }
}

/// Configuration set by command-line flags.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Flags {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bind: Option<SocketAddr>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub database_url: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub redis_url: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log_format: Option<LogFormat>,
}

/// Keys whose environment values are always strings. Without this list, an API key of digits would be parsed as a
/// number.
const STRING_KEYS: [&str; 19] = [
    "admin_key",
    "seal_key",
    "egress_allow",
    "sqlite_folder",
    "database_url",
    "blob_url",
    "redis_url",
    "data",
    "prices_file",
    "restate_url",
    "restate_admin_url",
    "restate_bind",
    "restate_advertise",
    "restate_identity_key",
    "mcp.path",
    "mcp.allowed_hosts",
    "mcp.allowed_origins",
    "mcp.stdio",
    "sandbox.python",
];

/// Returns whether an environment variable may set this key. `TOOLWRIGHT_URL` and similar variables are settings of the
/// CLI client and not of the server.
fn is_server_key(key: &str) -> bool {
    const KEYS: [&str; 8] = [
        "bind",
        "database_sync",
        "log_format",
        "shutdown_grace_seconds",
        "default_provider",
        "default_model",
        "default_temperature",
        "default_max_tokens",
    ];
    const SECTIONS: [&str; 8] = ["http", "agent", "tools", "mcp", "sandbox", "restate", "guardrails", "retention"];
    let section = key.split_once('.').map(|(section, _)| section);
    KEYS.contains(&key) || STRING_KEYS.contains(&key) || section.is_some_and(|section| SECTIONS.contains(&section))
}

/// Parses the text as a number or a boolean if possible. Any other text stays a string.
fn parse_value(text: &str) -> Value {
    match text.parse() {
        Ok(value) => value,
        Err(never) => match never {},
    }
}

impl Config {
    /// Loads the configuration. Fails if `file` is given and does not exist.
    pub(crate) fn load(file: Option<&Path>, environment: &Environment, flags: Flags) -> anyhow::Result<Self> {
        let mut figment = Figment::from(Serialized::defaults(Config::default()));
        figment = match file {
            Some(path) => figment.merge(Toml::file_exact(path)),
            // `Toml::file` would also search the parent directories.
            None if Path::new("toolwright.toml").exists() => figment.merge(Toml::file_exact("toolwright.toml")),
            None => figment,
        };
        for (name, text) in environment.iter() {
            let key = name.strip_prefix("TOOLWRIGHT_").map(|key| key.to_ascii_lowercase().replace("__", "."));
            // An empty variable is treated like an unset one.
            let Some(key) = key.filter(|key| is_server_key(key) && !text.is_empty()) else { continue };
            let value = if STRING_KEYS.contains(&key.as_str()) { Value::from(text) } else { parse_value(text) };
            figment = figment.merge((key.as_str(), value));
        }
        let config: Config = figment.merge(Serialized::defaults(flags)).extract().context("read the configuration")?;
        config.validate()?;
        Ok(config)
    }

    /// Parses `egress_allow`.
    pub(crate) fn egress_networks(&self) -> anyhow::Result<Vec<IpNet>> {
        let networks = self.egress_allow.split(',').map(str::trim).filter(|text| !text.is_empty());
        let parsed = networks.map(toolwright_types::parse_network).collect::<Result<_, _>>();
        parsed.map_err(|rule| anyhow::anyhow!("each entry of egress_allow {rule}"))
    }

    /// Parses `blob_url`.
    pub(crate) fn blob_location(&self) -> anyhow::Result<Option<BlobLocation>> {
        self.blob_url
            .as_deref()
            .map(|url| url.parse().map_err(|error: InvalidLocation| anyhow::anyhow!("blob_url {error}")))
            .transpose()
    }

    /// Returns the `Host` and `Origin` values that the MCP server accepts: the configured values and, if the server
    /// listens on loopback, the loopback values. If there is no `Host` value, every host is accepted.
    pub(crate) fn mcp_host_policy(&self) -> HostPolicy {
        let split_list = |text: &str| -> Vec<String> {
            text.split(',').map(str::trim).filter(|item| !item.is_empty()).map(str::to_owned).collect()
        };
        let policy = if self.bind.ip().is_loopback() { HostPolicy::loopback() } else { HostPolicy::anywhere() };
        policy.allow(split_list(&self.mcp.allowed_hosts), split_list(&self.mcp.allowed_origins))
    }

    /// Whether MCP providers may be commands that this server starts.
    pub(crate) fn mcp_runs_commands(&self) -> bool {
        match self.mcp.stdio {
            McpStdio::Auto => self.bind.ip().is_loopback(),
            McpStdio::On => true,
            McpStdio::Off => false,
        }
    }

    /// The user that runs the commands of MCP providers; `None` if they run as the user of this server.
    pub(crate) fn mcp_command_user(&self) -> anyhow::Result<Option<CommandUser>> {
        let text = self.mcp.command_user.trim();
        if text.is_empty() {
            return Ok(None);
        }
        let ids = text.split_once(':').and_then(|(uid, gid)| Some((uid.parse().ok()?, gid.parse().ok()?)));
        let Some((uid, gid)) = ids else {
            anyhow::bail!("mcp.command_user must be `uid:gid` such as `65534:65534`, got `{text}`");
        };
        if !nix::unistd::geteuid().is_root() {
            anyhow::bail!("mcp.command_user requires that the server runs as root; remove the setting");
        }
        Ok(Some(CommandUser { uid, gid }))
    }

    /// The maximum numbers of running commands of MCP providers.
    pub(crate) fn mcp_process_limits(&self) -> ProcessLimits {
        let McpSection { max_processes_per_realm, max_processes_per_principal, .. } = self.mcp;
        ProcessLimits { per_realm: max_processes_per_realm, per_principal: max_processes_per_principal }
    }

    /// The model settings of agents whose definition has none.
    pub(crate) fn model_defaults(&self) -> ModelDefaults {
        ModelDefaults {
            provider: self.default_provider.clone(),
            model: self.default_model.clone(),
            temperature: self.default_temperature,
            max_output_tokens: self.default_max_tokens,
        }
    }

    /// Reads `prices_file`.
    pub(crate) fn prices(&self) -> anyhow::Result<PriceList> {
        let Some(path) = &self.prices_file else { return Ok(PriceList::default()) };
        let text = std::fs::read_to_string(path).with_context(|| format!("read prices from `{}`", path.display()))?;
        PriceList::from_json(&text).with_context(|| format!("read prices from `{}`", path.display()))
    }

    /// The URL of Restate's ingress. `None` if Restate does not schedule durable runs.
    pub(crate) fn restate_ingress(&self) -> Option<&str> {
        self.restate_url.as_deref().or(self.restate.enabled.then_some(self.restate.endpoint.as_str()))
    }

    /// How long ended runs are kept.
    pub(crate) fn retention(&self) -> toolwright_runs::Retention {
        let days = |days: Option<u32>| days.map(|days| Duration::from_secs(u64::from(days) * 24 * 3600));
        toolwright_runs::Retention {
            completed: days(self.retention.completed_days),
            other: days(self.retention.other_days),
        }
    }

    /// The limits of HTTP connections.
    pub(crate) fn connection_limits(&self) -> ConnectionLimits {
        let HttpSection { max_connections, first_request_seconds, idle_seconds } = self.http;
        let deadlines = Deadlines {
            first_request: Duration::from_secs(first_request_seconds.into()),
            idle: Duration::from_secs(idle_seconds.into()),
        };
        ConnectionLimits { max_connections, deadlines }
    }

    /// When tools are generated for entity types.
    pub(crate) fn generation(&self) -> GenerationSettings {
        GenerationSettings { automatic: self.tools.auto_generate, at_start: self.tools.auto_generate_on_startup }
    }

    /// The settings that apply to all agents.
    pub(crate) fn agent_settings(&self) -> AgentSettings {
        let (agent, platform) = (&self.agent, &self.guardrails);
        AgentSettings {
            defaults: Limits {
                max_iterations: agent.default_max_iterations,
                timeout_ms: Some(agent.default_timeout_seconds.saturating_mul(1000)),
                ..Limits::default()
            },
            platform: Limits {
                max_tool_calls: platform.max_tool_calls_per_execution,
                max_cost_usd: Some(platform.max_cost_per_execution),
                ..Limits::platform()
            },
            durable: agent.default_durable,
            approval_wait: Duration::from_secs(agent.approval_timeout_seconds),
            client_wait: Duration::from_secs(agent.client_timeout_seconds),
            max_running: agent.max_running,
        }
    }

    fn validate(&self) -> anyhow::Result<()> {
        use secrecy::ExposeSecret;
        if self.admin_key.as_ref().is_some_and(|key| key.expose_secret().chars().count() < 16) {
            anyhow::bail!(
                "TOOLWRIGHT_ADMIN_KEY must have at least 16 characters; generate one with `openssl rand -hex 32`"
            );
        }
        let HttpSection { max_connections, first_request_seconds, idle_seconds } = self.http;
        if max_connections == 0 || first_request_seconds == 0 || idle_seconds == 0 {
            anyhow::bail!("http.max_connections, http.first_request_seconds and http.idle_seconds must be at least 1");
        }
        if self.mcp.transport == McpServerTransport::Sse {
            anyhow::bail!(
                "mcp.transport must be `streamable-http`, got `sse`: the older HTTP+SSE transport is not served; clients \
                 that speak only HTTP+SSE cannot connect, and servers that speak only HTTP+SSE can be imported"
            );
        }
        let path = &self.mcp.path;
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
        if !path.starts_with('/') || path.len() < 2 || path.ends_with('/') || !path.chars().all(is_plain) {
            anyhow::bail!("mcp.path must be a path such as `/mcp`, got `{path}`");
        }
        if path.starts_with("/api") || path.starts_with("/.well-known") {
            anyhow::bail!("mcp.path must not start with `/api` or `/.well-known`, got `{path}`");
        }
        self.blob_location()?;
        self.egress_networks().map(drop)
    }
}
