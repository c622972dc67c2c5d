//! `toolwright serve`: opens the engine, serves requests and shuts down gracefully.

use std::fs::{File, TryLockError};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use secrecy::{ExposeSecret, SecretString};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use toolwright_api::{McpServer, McpServices};
use toolwright_engine::{Engine, Options};
use toolwright_mcp::{ClientOptions, Endpoint, McpImports, ServerOptions};
use toolwright_store::{Location, SealKey, SyncMode};
use toolwright_tools::http::{EgressPolicy, HttpClient};
use toolwright_types::ToolType;

use crate::config::{Config, DatabaseSync, Flags, LogFormat};
use crate::demo::{self, Demo};
use crate::environment::Environment;
use crate::listen;
use crate::memory;
use crate::restate;
use crate::sandbox;
use crate::telemetry;

/// The interval at which MCP servers are checked for new tools.
const DISCOVERY_INTERVAL: Duration = Duration::from_secs(300);
/// How long shutdown waits for the responses of cancelled calls to be sent.
const CANCELLED_RESPONSE_TIMEOUT: Duration = Duration::from_secs(5);

/// Flags of `serve`. Most are also keys of `toolwright.toml` and `TOOLWRIGHT_…` variables.
#[derive(clap::Args)]
pub(crate) struct ServeArgs {
    /// Address to listen on [default: 127.0.0.1:7411]
    #[arg(long, value_name = "ADDR")]
    bind: Option<std::net::SocketAddr>,
    /// Data directory [default: ./toolwright-data]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// URL of a Postgres database [default: an SQLite file in the data directory]
    #[arg(long, value_name = "URL")]
    database_url: Option<String>,
    /// URL of a Redis server for a result cache and rate limits shared by several servers
    #[arg(long, value_name = "URL")]
    redis_url: Option<String>,
    /// Configuration file [default: toolwright.toml, if it exists]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Log format [default: text]
    #[arg(long, value_enum)]
    log_format: Option<LogFormat>,
    /// Start a demo CRM, orders API and web on loopback, and create tools and agents for them
    #[arg(long)]
    demo: bool,
    /// Serve the fixtures of the MCP conformance suite without authentication; loopback only
    #[arg(long)]
    mcp_fixtures: bool,
}

/// Runs the server until SIGINT or SIGTERM.
pub(crate) async fn run(args: ServeArgs, environment: Environment) -> anyhow::Result<()> {
    let flags = Flags {
        bind: args.bind,
        data: args.data,
        database_url: args.database_url,
        redis_url: args.redis_url,
        log_format: args.log_format,
    };
    let config = Config::load(args.config.as_deref(), &environment, flags)?;
    if args.mcp_fixtures && !config.bind.ip().is_loopback() {
        anyhow::bail!(
            "--mcp-fixtures requires no authentication and must be used with a loopback address, got {}",
            config.bind
        );
    }
    telemetry::start(config.log_format);
    create_private_dir(&config.data).with_context(|| format!("create data directory `{}`", config.data.display()))?;
    let _lock = match &config.database_url {
        // The folder is not locked, because servers that share a Postgres database may share the folder for blobs.
        Some(_) => None,
        None => Some(lock_data_dir(&config.data)?),
    };
    let demo = if args.demo { Some(Demo::start(&config.data).await?) } else { None };
    let listener = TcpListener::bind(config.bind).await.with_context(|| format!("listen on {}", config.bind))?;
    let address = listener.local_addr()?;
    let mut options = engine_options(&config)?;
    if demo.is_some() {
        options.models = demo::model_defaults(options.models, |name| environment.get(name));
        options.scripts.push(demo::script()?);
    }
    options.environment = Arc::new(move |name| environment.get(name));
    options.scheduler = restate::external_scheduler(&config)?;
    let mcp_client = mcp_client(&config)?;
    options.backends.push((ToolType::ExternalMcp, Arc::new(mcp_client.clone())));
    let (engine, issued) = Engine::open(options).await?;
    if let Some(demo) = &demo {
        demo.load(&engine).await?;
    }
    if let Some(key) = &issued {
        print_admin_key(key, address)?;
    }
    if let Some(demo) = &demo {
        demo.print_usage(&format!("http://{address}"))?;
    }
    let stop = CancellationToken::new();
    let connections = TaskTracker::new();
    restate::serve(&config, &engine, &connections, stop.clone()).await.context("connect to Restate")?;
    let imports = McpImports::new(engine.clone(), mcp_client.clone());
    engine.spawn_background(imports.clone().keep_in_sync(DISCOVERY_INTERVAL, engine.shutdown_token()));
    engine.spawn_background(memory::release_unused_periodically(engine.shutdown_token()));
    let mcp = McpServices { server: mcp_server(&config, &engine, args.mcp_fixtures), imports };
    let app = toolwright_api::router_with_pages(engine.clone(), mcp, toolwright_ui::router());
    if address.ip().is_loopback() {
        print_login_link(&engine, address)?;
    }
    connections.spawn(listen::serve(listener, app, config.connection_limits(), stop.clone()));
    connections.close();
    // Install the signal handlers before printing the address, because a signal may follow immediately.
    let shutdown_requested = shutdown_requested().context("listen for signals")?;
    writeln!(std::io::stdout(), "listening on http://{address}")?;
    std::io::stdout().flush()?;
    shutdown_requested.await;
    tracing::info!("shutting down; waiting for running requests and calls");
    stop.cancel();
    engine.shutdown_token().cancel();
    finish(&engine, &connections, Duration::from_secs(config.shutdown_grace_seconds)).await;
    mcp_client.close().await;
    if let Some(demo) = demo {
        demo.stop().await;
    }
    Ok(())
}

/// Creates the MCP server, unless it is disabled.
fn mcp_server(config: &Config, engine: &Engine, fixtures: bool) -> Option<McpServer> {
    let options = ServerOptions {
        host_policy: config.mcp_host_policy(),
        fixtures,
        max_body_bytes: toolwright_api::MAX_BODY_BYTES,
        max_sessions_per_principal: config.mcp.max_sessions_per_principal,
    };
    let endpoint = || Endpoint::new(engine.clone(), options);
    config.mcp.enabled.then(|| McpServer { path: config.mcp.path.clone(), endpoint: endpoint() })
}

/// Creates the client for tools of other MCP servers.
fn mcp_client(config: &Config) -> anyhow::Result<toolwright_mcp::Client> {
    let http = HttpClient::new(EgressPolicy::allowing(config.egress_networks()?));
    let (stdio, process_limits) = (config.mcp_runs_commands(), config.mcp_process_limits());
    let command_user = config.mcp_command_user()?;
    if stdio && command_user.is_none() && nix::unistd::geteuid().is_root() {
        tracing::warn!(
            "MCP servers that are commands run as root; set `mcp.command_user`, or run the server as another user"
        );
    }
    Ok(toolwright_mcp::Client::new(ClientOptions { http, stdio, process_limits, command_user }))
}

/// Waits up to `grace` for open requests, and then up to `grace` for running calls. If requests are still open after
/// `grace`, cancels the calls at once. A cancelled call still returns an envelope.
async fn finish(engine: &Engine, connections: &TaskTracker, grace: Duration) {
    let drained = tokio::time::timeout(grace, connections.wait()).await.is_ok();
    engine.drain_calls(if drained { grace } else { Duration::ZERO }).await;
    if tokio::time::timeout(CANCELLED_RESPONSE_TIMEOUT, connections.wait()).await.is_err() {
        tracing::warn!("closing connections that did not finish in time");
    }
    engine.close().await;
}

/// Creates the data directory with access for the current user only. An existing directory keeps its permissions.
pub(crate) fn create_private_dir(path: &Path) -> std::io::Result<()> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Locks the data directory until the returned file is dropped, because two servers on one SQLite database would
/// recover each other's runs. The lock ends with the process, even if the process crashes.
fn lock_data_dir(path: &Path) -> anyhow::Result<File> {
    let lock = path.join("server.lock");
    let file = File::options()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(&lock)
        .with_context(|| format!("create `{}`", lock.display()))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => anyhow::bail!(
            "another server uses the data directory `{}`; stop it, select another directory with --data, or use Postgres \
             for several servers",
            path.display()
        ),
        Err(TryLockError::Error(error)) => Err(error).with_context(|| format!("lock `{}`", lock.display())),
    }
}

/// Prints an error with all its causes to stderr.
pub(crate) fn report(error: &anyhow::Error) -> ExitCode {
    let _ = writeln!(std::io::stderr(), "error: {error:#}");
    ExitCode::FAILURE
}

fn engine_options(config: &Config) -> anyhow::Result<Options> {
    let seal = match &config.seal_key {
        Some(text) => SealKey::from_base64(text.expose_secret())?,
        None => SealKey::from_file(config.data.join("seal.key"))?,
    };
    let mut options = Options::in_folder(config.data.clone(), seal);
    options.database = config.database_url.clone().map(Location::Postgres);
    options.blobs = config.blob_location()?;
    options.sync = match config.database_sync {
        DatabaseSync::Disk => SyncMode::Disk,
        DatabaseSync::System => SyncMode::System,
    };
    options.redis_url = config.redis_url.clone();
    options.admin_key = config.admin_key.clone();
    options.egress_allow = config.egress_networks()?;
    options.sqlite_folder = config.sqlite_folder.clone();
    options.issue_first_key = config.bind.ip().is_loopback();
    options.models = config.model_defaults();
    options.prices = config.prices()?;
    options.agents = config.agent_settings();
    options.retention = config.retention();
    options.generation = config.generation();
    options.sandbox = sandbox::open(&config.sandbox);
    if cfg!(feature = "restate") {
        options.features.push("restate");
    }
    Ok(options)
}

/// Prints the first API key to stderr, because stdout contains only the line with the server's address.
fn print_admin_key(key: &SecretString, address: std::net::SocketAddr) -> std::io::Result<()> {
    let (mut out, url) = (std::io::stderr(), format!("http://{address}"));
    writeln!(out, "\n  Administrator API key (shown only once):\n\n    {}\n", key.expose_secret())?;
    writeln!(out, "  To use it with the command line: export TOOLWRIGHT_API_KEY=…")?;
    if url != crate::cli::DEFAULT_URL {
        writeln!(out, "                                   export TOOLWRIGHT_URL={url}")?;
    }
    writeln!(out)
}

/// Prints the link with which the user of this machine opens the web UI without an API key. The token is in the
/// fragment, which browsers do not send, so that no log contains it.
fn print_login_link(engine: &Engine, address: std::net::SocketAddr) -> std::io::Result<()> {
    let token = engine.identity.issue_login_link();
    let mut out = std::io::stderr();
    writeln!(out, "\n  Web UI (this link works once, for 15 minutes):\n")?;
    writeln!(out, "    http://{address}/login#token={}\n", token.expose_secret())
}

/// Installs the signal handlers. The returned future completes on SIGINT or SIGTERM.
fn shutdown_requested() -> std::io::Result<impl Future<Output = ()>> {
    let (mut interrupted, mut terminated) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    Ok(async move {
        tokio::select! {
            _ = interrupted.recv() => {}
            _ = terminated.recv() => {}
        }
    })
}
