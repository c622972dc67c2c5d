//! `toolwright serve`: opens the engine, listens, and ends cleanly.

use std::io::Write;
use std::os::unix::fs::DirBuilderExt;
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
use toolwright_api::{Mcp, McpServer};
use toolwright_engine::{Engine, Options};
use toolwright_mcp::{ClientOptions, Endpoint, Imports, ServerOptions};
use toolwright_store::{Location, Promise, SealKey};
use toolwright_tools::http::{Egress, HttpClient};
use toolwright_types::ToolType;

use crate::config::{Config, DatabaseSync, Flags, LogFormat, McpServerTransport};
use crate::demo::{self, Demo};
use crate::listen;
use crate::restate;
use crate::sandbox;
use crate::telemetry;

/// How often MCP servers are asked whether they have more tools.
const DISCOVERY: Duration = Duration::from_secs(300);
/// How long the answers to cancelled calls may take to be sent.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// Options of the server. Each is also a variable `TOOLWRIGHT_…` and a key of toolwright.toml.
#[derive(clap::Args)]
pub struct ServeArgs {
    /// Where to listen [default: 127.0.0.1:7411]
    #[arg(long, value_name = "ADDR")]
    bind: Option<std::net::SocketAddr>,
    /// The folder that holds everything [default: ./toolwright-data]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Postgres instead of a file in the data folder
    #[arg(long, value_name = "URL")]
    database_url: Option<String>,
    /// Redis for a result cache and rate limits that several servers share
    #[arg(long, value_name = "URL")]
    redis_url: Option<String>,
    /// A configuration file [default: toolwright.toml, if it exists]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// How log lines look
    #[arg(long, value_enum)]
    log_format: Option<LogFormat>,
    /// Also start a small CRM and an orders API on loopback, and load tools for them
    #[arg(long)]
    demo: bool,
    /// Also offer what the MCP conformance suite expects to find, to anybody on this machine
    #[arg(long)]
    mcp_fixtures: bool,
}

/// Runs the server until it is told to stop.
pub async fn run(args: ServeArgs) -> anyhow::Result<()> {
    let flags = Flags {
        bind: args.bind,
        data: args.data,
        database_url: args.database_url,
        redis_url: args.redis_url,
        log_format: args.log_format,
    };
    let config = Config::load(args.config.as_deref(), flags)?;
    if args.mcp_fixtures && !config.bind.ip().is_loopback() {
        anyhow::bail!("--mcp-fixtures needs no key and is only for loopback; {} is not", config.bind);
    }
    telemetry::start(config.log_format);
    private_folder(&config.data).with_context(|| format!("create data folder `{}`", config.data.display()))?;
    let demo = if args.demo { Some(Demo::start(&config.data).await?) } else { None };
    let listener = TcpListener::bind(config.bind).await.with_context(|| format!("listen on {}", config.bind))?;
    let address = listener.local_addr()?;
    let mut options = options(&config)?;
    if demo.is_some() {
        options.models = demo::model_defaults(options.models, |name| std::env::var(name).ok());
        options.scripts.push(demo::script()?);
    }
    options.conductor = restate::conductor(&config)?;
    let mcp_client = mcp_client(&config)?;
    options.backends.push((ToolType::ExternalMcp, Arc::new(mcp_client.clone())));
    let (engine, issued) = Engine::open(options).await?;
    if let Some(demo) = &demo {
        demo.load(&engine).await?;
    }
    if let Some(key) = &issued {
        announce_key(key)?;
    }
    if let Some(demo) = &demo {
        demo.explain(&format!("http://{address}"))?;
    }
    let stop = CancellationToken::new();
    let connections = TaskTracker::new();
    restate::serve(&config, &engine, &connections, stop.clone()).await.context("let Restate conduct durable runs")?;
    let imports = Imports::new(engine.clone(), mcp_client.clone());
    engine.in_background(imports.clone().keep_in_sync(DISCOVERY, engine.stopping()));
    let mcp = Mcp { server: mcp_server(&config, &engine, args.mcp_fixtures), imports };
    let app = toolwright_api::router(engine.clone(), mcp);
    connections.spawn(listen::serve(listener, app, stop.clone()));
    connections.close();
    // Before anyone is told that the server is there: who knows of it may stop it.
    let told_to_stop = told_to_stop().context("listen for signals")?;
    writeln!(std::io::stdout(), "listening on http://{address}")?;
    std::io::stdout().flush()?;
    told_to_stop.await;
    tracing::info!("shutting down: finishing what is under way");
    stop.cancel();
    engine.stopping().cancel();
    finish(&engine, &connections, Duration::from_secs(config.shutdown_grace_seconds)).await;
    mcp_client.close().await;
    if let Some(demo) = demo {
        demo.stop().await;
    }
    Ok(())
}

/// The MCP server, unless it is switched off.
fn mcp_server(config: &Config, engine: &Engine, fixtures: bool) -> Option<McpServer> {
    let options = ServerOptions { reach: config.mcp_reach(), fixtures, largest_body: toolwright_api::LARGEST_BODY };
    let endpoint = || Endpoint::new(engine.clone(), options);
    if config.mcp.transport == McpServerTransport::Sse {
        tracing::warn!("mcp.transport is `sse`, which is no longer spoken; clients find streamable HTTP");
    }
    config.mcp.enabled.then(|| McpServer { path: config.mcp.path.clone(), endpoint: endpoint() })
}

/// What calls tools of other MCP servers.
fn mcp_client(config: &Config) -> anyhow::Result<toolwright_mcp::Client> {
    let http = HttpClient::new(Egress::allowing(config.egress_networks()?));
    Ok(toolwright_mcp::Client::new(ClientOptions { http, stdio: config.mcp_runs_commands() }))
}

/// Gives requests and calls their time. Calls that need more are cancelled, so that each still answers with an envelope.
async fn finish(engine: &Engine, connections: &TaskTracker, grace: Duration) {
    let in_time = tokio::time::timeout(grace, connections.wait()).await.is_ok();
    engine.finish_calls(if in_time { grace } else { Duration::ZERO }).await;
    if tokio::time::timeout(LAST_WORDS, connections.wait()).await.is_err() {
        tracing::warn!("some connections did not end in time and were cut off");
    }
    engine.close().await;
}

/// Makes the data folder, for this user alone; one that exists keeps its permissions.
fn private_folder(path: &Path) -> std::io::Result<()> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Says on stderr why the program ends, with every cause.
pub fn report(error: &anyhow::Error) -> ExitCode {
    let _ = writeln!(std::io::stderr(), "error: {error:#}");
    ExitCode::FAILURE
}

fn options(config: &Config) -> anyhow::Result<Options> {
    let seal = match &config.seal_key {
        Some(text) => SealKey::from_base64(text.expose_secret())?,
        None => SealKey::from_file(config.data.join("seal.key"))?,
    };
    let mut options = Options::in_folder(config.data.clone(), seal);
    options.database = config.database_url.clone().map(Location::Postgres);
    options.sync = match config.database_sync {
        DatabaseSync::Disk => Promise::Disk,
        DatabaseSync::System => Promise::System,
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
    Ok(options)
}

/// On stderr, because stdout carries one line for programs.
fn announce_key(key: &SecretString) -> std::io::Result<()> {
    let mut out = std::io::stderr();
    writeln!(out, "\n  The administrator's API key, shown this once:\n\n    {}\n", key.expose_secret())?;
    writeln!(out, "  export TOOLWRIGHT_API_KEY=… to use it with the command line.\n")
}

/// Listens for signals from now on, and waits for one when awaited.
fn told_to_stop() -> std::io::Result<impl Future<Output = ()>> {
    let (mut interrupted, mut terminated) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    Ok(async move {
        tokio::select! {
            _ = interrupted.recv() => {}
            _ = terminated.recv() => {}
        }
    })
}
