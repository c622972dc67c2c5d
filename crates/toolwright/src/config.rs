//! Configuration: flags, then `TOOLWRIGHT_*`, then `toolwright.toml`, then defaults.
//!
//! Sections in the environment are separated by two underscores: `TOOLWRIGHT_AGENT__DEFAULT_MAX_ITERATIONS=5`.

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
use toolwright_engine::records::Generation;
use toolwright_engine::{AgentSettings, ModelDefaults};
use toolwright_machine::Limits;
use toolwright_mcp::Reach;
use toolwright_models::PriceList;

/// Everything that can be set.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Where to listen.
    pub bind: SocketAddr,
    /// The folder that holds everything by default.
    pub data: PathBuf,
    /// Postgres, instead of a file in `data`.
    pub database_url: Option<String>,
    /// When a commit counts.
    pub database_sync: DatabaseSync,
    /// Redis, for a cache and limits that several servers share.
    pub redis_url: Option<String>,
    /// Restate's ingress: durable runs are conducted by Restate.
    pub restate_url: Option<String>,
    /// Restate's admin API, where this server is registered.
    pub restate_admin_url: String,
    /// Where Restate calls this server.
    pub restate_bind: SocketAddr,
    /// The address that Restate calls, where it is another than that.
    pub restate_advertise: Option<String>,
    /// The public key of Restate's signatures.
    pub restate_identity_key: Option<String>,
    /// Networks that tools may reach although they are private: CIDRs separated by commas.
    pub egress_allow: String,
    /// The folder with SQLite files that types may have their records in; none when absent.
    pub sqlite_folder: Option<PathBuf>,
    /// The administrator's key, at least 16 characters.
    #[serde(skip_serializing)]
    pub admin_key: Option<SecretString>,
    /// The key that secrets are sealed with, 32 bytes in base64; a file in `data` when absent.
    #[serde(skip_serializing)]
    pub seal_key: Option<SecretString>,
    /// `text` or `json`.
    pub log_format: LogFormat,
    /// How long a shutdown waits for calls under way.
    pub shutdown_grace_seconds: u64,

    /// The model provider of agents that name none.
    pub default_provider: String,
    /// The model of agents that name none.
    pub default_model: String,
    /// The temperature of agents that name none.
    pub default_temperature: f64,
    /// The output limit of agents that name none.
    pub default_max_tokens: u32,
    /// A file with prices of models, laid over the built-in ones.
    pub prices_file: Option<PathBuf>,
    /// Defaults of agents.
    pub agent: Agent,
    /// Generated tools.
    pub tools: Tools,
    /// The MCP server.
    pub mcp: Mcp,
    /// Code that users or models write.
    pub sandbox: Sandbox,
    /// Another way to say `restate_url`.
    pub restate: Restate,
    /// Limits of the platform that no agent exceeds.
    pub guardrails: Guardrails,
    /// How long runs are kept.
    pub retention: Retention,
}

/// When a commit counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DatabaseSync {
    /// When it is on the disk.
    Disk,
    /// When the operating system, or Postgres, has it.
    System,
}

/// How log lines look.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For people.
    Text,
    /// For machines.
    Json,
}

/// Defaults of agents.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Agent {
    /// Turns of the loop.
    pub default_max_iterations: u32,
    /// Seconds of a run.
    pub default_timeout_seconds: u64,
    /// Whether runs commit each step.
    pub default_durable: bool,
    /// Seconds that a person has to decide.
    pub approval_timeout_seconds: u64,
    /// Seconds that a client has to return a result.
    pub client_timeout_seconds: u64,
    /// Runs under way at once.
    pub max_running: usize,
}

/// Generated tools.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tools {
    /// Whether a registered type gets its tools.
    pub auto_generate: bool,
    /// Whether they are brought up to date at start.
    pub auto_generate_on_startup: bool,
}

/// The MCP server.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mcp {
    /// Whether it is there.
    pub enabled: bool,
    /// What it speaks.
    pub transport: McpServerTransport,
    /// Where it is.
    pub path: String,
    /// Names it may be called by beside those of loopback, comma-separated; any, when it does not listen on loopback and
    /// there are none.
    pub allowed_hosts: String,
    /// Origins of pages that may talk to it, comma-separated.
    pub allowed_origins: String,
    /// Whether providers may be commands that this server runs.
    pub stdio: Stdio,
}

/// Code that users or models write.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sandbox {
    /// Whether it is run.
    pub enabled: bool,
    /// The program that is full Python; none when empty.
    pub python: String,
    /// Pieces of code that run at once.
    pub max_running: usize,
    /// Processes of full Python that are started ahead, once it was used.
    pub warm_processes: usize,
}

/// Whether providers may be commands that this server runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stdio {
    /// While the server listens on loopback: then its administrators are on this machine.
    Auto,
    /// Always.
    On,
    /// Never.
    Off,
}

/// What the MCP server speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum McpServerTransport {
    /// The current HTTP transport.
    StreamableHttp,
    /// The older one, which was called that. It is not spoken; the current one is.
    Sse,
}

/// Another way to say `restate_url`, which counts first.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Restate {
    /// Whether it is used.
    pub enabled: bool,
    /// Its ingress.
    pub endpoint: String,
}

/// How long runs are kept after their end, in days; for ever where nothing is said.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Retention {
    /// Those that completed.
    pub completed_days: Option<u32>,
    /// All others.
    pub other_days: Option<u32>,
}

/// Limits of the platform.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Guardrails {
    /// Tool calls of one run.
    pub max_tool_calls_per_execution: u32,
    /// Dollars of one run.
    pub max_cost_per_execution: f64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            bind: SocketAddr::from(([127, 0, 0, 1], 7411)),
            data: PathBuf::from("./toolwright-data"),
            database_url: None,
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
            agent: Agent {
                default_max_iterations: 10,
                default_timeout_seconds: 120,
                default_durable: false,
                approval_timeout_seconds: 24 * 60 * 60,
                client_timeout_seconds: 60 * 60,
                max_running: 10_000,
            },
            tools: Tools { auto_generate: true, auto_generate_on_startup: true },
            mcp: Mcp {
                enabled: true,
                transport: McpServerTransport::StreamableHttp,
                path: "/mcp".into(),
                allowed_hosts: String::new(),
                allowed_origins: String::new(),
                stdio: Stdio::Auto,
            },
            sandbox: Sandbox { enabled: true, python: "python3".into(), max_running: 4, warm_processes: 2 },
            restate: Restate { enabled: false, endpoint: "http://127.0.0.1:8080".into() },
            guardrails: Guardrails { max_tool_calls_per_execution: 50, max_cost_per_execution: 1.0 },
            retention: Retention::default(),
        }
    }
}

/// What the command line sets.
#[derive(Debug, Default, Serialize)]
pub struct Flags {
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

/// Texts that must stay texts: a key made of digits is not a number.
const TEXTS: [&str; 18] = [
    "admin_key",
    "seal_key",
    "egress_allow",
    "sqlite_folder",
    "database_url",
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

/// Whether the environment can set this key; `TOOLWRIGHT_URL` and its like belong to the client.
fn is_key(key: &str) -> bool {
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
    const SECTIONS: [&str; 7] = ["agent", "tools", "mcp", "sandbox", "restate", "guardrails", "retention"];
    let section = key.split_once('.').map(|(section, _)| section);
    KEYS.contains(&key) || TEXTS.contains(&key) || section.is_some_and(|section| SECTIONS.contains(&section))
}

/// A number or a boolean where the text is one.
fn parsed(text: &str) -> Value {
    match text.parse() {
        Ok(value) => value,
        Err(never) => match never {},
    }
}

impl Config {
    /// Reads the configuration. `file` must exist when it is named.
    pub fn load(file: Option<&Path>, flags: Flags) -> anyhow::Result<Self> {
        let mut figment = Figment::from(Serialized::defaults(Config::default()));
        figment = match file {
            Some(path) => figment.merge(Toml::file_exact(path)),
            // In this folder only: a file further up belongs to something else.
            None if Path::new("toolwright.toml").exists() => figment.merge(Toml::file_exact("toolwright.toml")),
            None => figment,
        };
        for (name, text) in std::env::vars() {
            let key = name.strip_prefix("TOOLWRIGHT_").map(|key| key.to_ascii_lowercase().replace("__", "."));
            // A variable that is set to nothing is not set.
            let Some(key) = key.filter(|key| is_key(key) && !text.is_empty()) else { continue };
            let value = if TEXTS.contains(&key.as_str()) { Value::from(text) } else { parsed(&text) };
            figment = figment.merge((key.as_str(), value));
        }
        let config: Config = figment.merge(Serialized::defaults(flags)).extract().context("read the configuration")?;
        config.check()?;
        Ok(config)
    }

    /// The networks of `egress_allow`.
    pub fn egress_networks(&self) -> anyhow::Result<Vec<IpNet>> {
        let networks = self.egress_allow.split(',').map(str::trim).filter(|text| !text.is_empty());
        networks
            .map(|text| text.parse().with_context(|| format!("`{text}` in egress_allow is no CIDR like `10.0.0.0/8`")))
            .collect()
    }

    /// From where the MCP server is reached: from this machine, when it listens on loopback.
    pub fn mcp_reach(&self) -> Reach {
        let listed = |text: &str| -> Vec<String> {
            text.split(',').map(str::trim).filter(|item| !item.is_empty()).map(str::to_owned).collect()
        };
        let reach = if self.bind.ip().is_loopback() { Reach::loopback() } else { Reach::anywhere() };
        reach.and(listed(&self.mcp.allowed_hosts), listed(&self.mcp.allowed_origins))
    }

    /// Whether providers may be commands that this server runs.
    pub fn mcp_runs_commands(&self) -> bool {
        match self.mcp.stdio {
            Stdio::Auto => self.bind.ip().is_loopback(),
            Stdio::On => true,
            Stdio::Off => false,
        }
    }

    /// The model of agents that name none.
    pub fn model_defaults(&self) -> ModelDefaults {
        ModelDefaults {
            provider: self.default_provider.clone(),
            model: self.default_model.clone(),
            temperature: self.default_temperature,
            max_output_tokens: self.default_max_tokens,
        }
    }

    /// The operator's own prices.
    pub fn prices(&self) -> anyhow::Result<PriceList> {
        let Some(path) = &self.prices_file else { return Ok(PriceList::default()) };
        let text = std::fs::read_to_string(path).with_context(|| format!("read prices from `{}`", path.display()))?;
        PriceList::from_json(&text).with_context(|| format!("read prices from `{}`", path.display()))
    }

    /// Restate's ingress, if durable runs are conducted by Restate.
    pub fn restate_ingress(&self) -> Option<&str> {
        self.restate_url.as_deref().or(self.restate.enabled.then_some(self.restate.endpoint.as_str()))
    }

    /// How long runs are kept.
    pub fn retention(&self) -> toolwright_engine::runs::Retention {
        let days = |days: Option<u32>| days.map(|days| Duration::from_secs(u64::from(days) * 24 * 3600));
        toolwright_engine::runs::Retention {
            completed: days(self.retention.completed_days),
            other: days(self.retention.other_days),
        }
    }

    /// When tools are made for types.
    pub fn generation(&self) -> Generation {
        Generation { automatic: self.tools.auto_generate, at_start: self.tools.auto_generate_on_startup }
    }

    /// What holds for agents.
    pub fn agent_settings(&self) -> AgentSettings {
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
            most_running: agent.max_running,
        }
    }

    fn check(&self) -> anyhow::Result<()> {
        use secrecy::ExposeSecret;
        if self.admin_key.as_ref().is_some_and(|key| key.expose_secret().chars().count() < 16) {
            anyhow::bail!("TOOLWRIGHT_ADMIN_KEY must have at least 16 characters");
        }
        let path = &self.mcp.path;
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
        if !path.starts_with('/') || path.len() < 2 || path.ends_with('/') || !path.chars().all(plain) {
            anyhow::bail!("`{path}` in mcp.path is no path like `/mcp`");
        }
        if path.starts_with("/api") || path.starts_with("/.well-known") {
            anyhow::bail!("`{path}` in mcp.path is taken by other routes");
        }
        self.egress_networks().map(drop)
    }
}
