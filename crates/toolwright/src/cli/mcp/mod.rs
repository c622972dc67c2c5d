//! `toolwright mcp`: the server for clients that want to start one, a look at the servers of others, and logging in to them.

mod login;

use std::time::Duration;

use serde::Deserialize;
use serde_json::json;
use toolwright_mcp::{Authorize, BridgeError, Called, Findings, HttpTarget, Probe, ProbeError, ToolCall, bridge};

use super::client::Client;
use super::exit::Exit;
use super::failure::Failure;
use super::output::plain;
use super::{Connection, Context};
use login::LoginArgs;

/// Options of `mcp`.
#[derive(clap::Args)]
pub struct McpArgs {
    #[command(subcommand)]
    command: Option<McpCommand>,
    /// Where the MCP server is at the server
    #[arg(long, value_name = "PATH", default_value = "/mcp")]
    path: String,
}

/// What else can be done with MCP.
#[derive(clap::Subcommand)]
pub enum McpCommand {
    /// Connect to any MCP server as a client, list its tools and call them
    Probe(Box<ProbeArgs>),
    /// Log in to the MCP server of a provider with a browser, and keep what is granted as a secret that renews itself
    Login(LoginArgs),
}

/// Options of `mcp probe`.
#[derive(clap::Args)]
pub struct ProbeArgs {
    /// Where the server is
    #[arg(value_name = "SERVER")]
    server: String,
    /// Log in by OAuth where the server asks for it; `auto` follows the authorization server without a browser
    #[arg(long, value_enum)]
    authorize: Option<Way>,
    /// A token to log in with
    #[arg(long, env = "TOOLWRIGHT_MCP_TOKEN", hide_env_values = true)]
    token: Option<String>,
    /// The OAuth client to log in as; one is registered when absent
    #[arg(long)]
    client_id: Option<String>,
    /// Its secret
    #[arg(long, env = "TOOLWRIGHT_MCP_CLIENT_SECRET", hide_env_values = true)]
    client_secret: Option<String>,
    /// A document about this client, for authorization servers that read such
    #[arg(long, value_name = "URL")]
    client_metadata_url: Option<String>,
    /// The version of the protocol to speak; the newest that both know when absent
    #[arg(long, value_name = "DATE", env = "MCP_CONFORMANCE_PROTOCOL_VERSION", hide_env = true)]
    protocol: Option<String>,
    /// Call this tool; every tool that does not say that it destroys something when absent
    #[arg(long, value_name = "TOOL")]
    call: Option<String>,
    /// The arguments of that call
    #[arg(long, value_name = "JSON", requires = "call")]
    arguments: Option<String>,
    /// What a program wants to be done instead
    #[arg(long, hide = true, env = "MCP_CONFORMANCE_CONTEXT")]
    context: Option<String>,
    /// The scenario of the conformance suite that the server plays
    #[arg(long, hide = true, env = "MCP_CONFORMANCE_SCENARIO")]
    scenario: Option<String>,
}

/// How to log in.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Way {
    /// Follow the authorization server without a browser.
    Auto,
}

/// What the conformance suite tells a client.
#[derive(Default, Deserialize)]
struct Told {
    #[serde(default, rename = "toolCalls", alias = "tool_calls")]
    tool_calls: Vec<ToolCall>,
    client_id: Option<String>,
    client_secret: Option<String>,
}

/// The document about clients that the conformance suite knows.
const KNOWN_DOCUMENT: &str = "https://conformance-test.local/client-metadata.json";

pub(super) async fn run(cx: &Context, connection: &Connection, args: McpArgs) -> Result<Exit, Failure> {
    match args.command {
        None => serve(connection, &args.path).await,
        Some(McpCommand::Probe(args)) => probe(cx, *args).await,
        Some(McpCommand::Login(args)) => login::run(cx, args).await,
    }
}

/// Is the MCP server of whoever started this, in the name of the key in the environment.
async fn serve(connection: &Connection, path: &str) -> Result<Exit, Failure> {
    let (http, base) = Client::for_streams(connection)?;
    let target = HttpTarget { http, url: format!("{base}{path}") };
    match bridge(tokio::io::stdin(), tokio::io::stdout(), target).await {
        Ok(()) => Ok(Exit::Ok),
        Err(BridgeError::Local(error)) => Err(Failure::Output(error)),
        Err(error) => {
            // Whom the server does not let in, it tells why in a document.
            if matches!(error, BridgeError::Refused { .. }) {
                Client::new(connection)?.get(path, &[]).await?;
            }
            Err(Failure::Unreachable { url: base, cause: error.to_string() })
        }
    }
}

async fn probe(cx: &Context, args: ProbeArgs) -> Result<Exit, Failure> {
    let told: Told = match args.context.as_deref() {
        Some(text) => serde_json::from_str(text).map_err(|error| Failure::Usage(format!("--context: {error}")))?,
        None => Told::default(),
    };
    let arguments = args.arguments.as_deref().map(serde_json::from_str).transpose();
    let arguments = arguments.map_err(|error| Failure::Usage(format!("--arguments: {error}")))?;
    let known = args.scenario.is_some().then(|| KNOWN_DOCUMENT.to_owned());
    let authorize = args.authorize.map(|Way::Auto| Authorize {
        client_id: args.client_id.or(told.client_id),
        client_secret: args.client_secret.or(told.client_secret),
        client_metadata_url: args.client_metadata_url.or(known),
    });
    let http = reqwest::Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .connect_timeout(Duration::from_secs(10))
        .build()
        .map_err(|error| Failure::Usage(format!("no HTTP client: {error}")))?;
    let calls = args.call.map(|name| ToolCall { name, arguments });
    let probe = Probe {
        url: args.server.clone(),
        http,
        version: args.protocol,
        calls: calls.into_iter().chain(told.tool_calls).collect(),
        token: args.token,
        authorize,
    };
    let findings = probe.run().await.map_err(|error| failure(&args.server, error))?;
    let exit = if findings.calls.iter().all(|call| call.ok) { Exit::Ok } else { Exit::Failed };
    show(cx, &findings)?;
    Ok(exit)
}

fn show(cx: &Context, findings: &Findings) -> Result<(), Failure> {
    if cx.output.json {
        return Ok(cx.output.line(json!(findings))?);
    }
    let server = findings.server.as_deref().unwrap_or("a server without a name");
    cx.output.line(format!("{} speaks MCP {}", plain(server), plain(&findings.protocol_version)))?;
    cx.output.line(format!("{} tools: {}", findings.tools.len(), plain(&findings.tools.join(", "))))?;
    let called = |call: &Called| {
        let mark = if call.ok { cx.output.out.good("ok") } else { cx.output.out.bad("failed") };
        format!("{} {mark} {}", plain(&call.tool), plain(&call.said))
    };
    Ok(cx.output.lines(findings.calls.iter().map(called))?)
}

fn failure(url: &str, error: ProbeError) -> Failure {
    match error {
        ProbeError::Version(_) | ProbeError::LoginNeeded => Failure::Usage(error.to_string()),
        error => Failure::Unreachable { url: url.to_owned(), cause: error.to_string() },
    }
}
