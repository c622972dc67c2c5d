//! Implements `toolwright mcp`: forwards messages between stdio and the server's MCP endpoint, tests other MCP servers,
//! and logs in to them.

mod login;

use std::time::Duration;

use serde::Deserialize;
use serde_json::json;
use toolwright_mcp::{
    BridgeError, HttpTarget, OAuthClient, Probe, ProbeCall, ProbeCallReport, ProbeCalls, ProbeError, ProbeReport,
    bridge,
};

use super::client::ApiClient;
use super::exit::Exit;
use super::failure::Failure;
use super::follow::pluralize;
use super::output::sanitize_line;
use super::{Connection, Context};
use login::LoginArgs;

/// Arguments of `mcp`.
#[derive(clap::Args)]
pub(crate) struct McpArgs {
    #[command(subcommand)]
    command: Option<McpCommand>,
    /// Path of the MCP endpoint on the server
    #[arg(long, value_name = "PATH", default_value = "/mcp")]
    path: String,
}

/// Subcommands of `mcp`.
#[derive(clap::Subcommand)]
pub(super) enum McpCommand {
    /// Connect to an MCP server, list its tools and call them
    Probe(Box<ProbeArgs>),
    /// Log in to the MCP server of a provider in a browser and store the login as a renewable secret
    Login(LoginArgs),
}

/// Arguments of `mcp probe`.
#[derive(clap::Args)]
pub(super) struct ProbeArgs {
    /// URL of the MCP server
    #[arg(value_name = "SERVER")]
    server: String,
    /// Log in with OAuth if the server requires it; `auto` follows the redirects of the authorization server without a
    /// browser
    #[arg(long, value_enum, value_name = "MODE")]
    authorize: Option<AuthorizeMode>,
    /// Bearer token
    #[arg(long, env = "TOOLWRIGHT_MCP_TOKEN", hide_env_values = true)]
    token: Option<String>,
    /// OAuth client ID [default: register a client]
    #[arg(long)]
    client_id: Option<String>,
    /// OAuth client secret
    #[arg(long, env = "TOOLWRIGHT_MCP_CLIENT_SECRET", hide_env_values = true)]
    client_secret: Option<String>,
    /// URL of a client ID metadata document, for authorization servers that support it
    #[arg(long, value_name = "URL")]
    client_metadata_url: Option<String>,
    /// Protocol version [default: the newest that both sides support]
    #[arg(long, value_name = "DATE", env = "MCP_CONFORMANCE_PROTOCOL_VERSION", hide_env = true)]
    protocol: Option<String>,
    /// Tool to call [default: call nothing]
    #[arg(long, value_name = "TOOL")]
    call: Option<String>,
    /// Arguments of the call as JSON
    #[arg(long, value_name = "JSON", requires = "call")]
    arguments: Option<String>,
    /// Call every tool with sample arguments, including tools that delete or change data
    #[arg(long, conflicts_with = "call")]
    call_all: bool,
    /// Context of the conformance suite
    #[arg(long, hide = true, env = "MCP_CONFORMANCE_CONTEXT")]
    context: Option<String>,
    /// Scenario of the conformance suite
    #[arg(long, hide = true, env = "MCP_CONFORMANCE_SCENARIO")]
    scenario: Option<String>,
}

/// How to log in with OAuth.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum AuthorizeMode {
    /// Follow the redirects of the authorization server without a browser.
    Auto,
}

/// The context that the conformance suite passes to a client.
#[derive(Default, Deserialize)]
struct ConformanceContext {
    #[serde(default, rename = "toolCalls", alias = "tool_calls")]
    tool_calls: Vec<ProbeCall>,
    client_id: Option<String>,
    client_secret: Option<String>,
}

/// The client metadata document that the conformance suite accepts.
const CONFORMANCE_CLIENT_METADATA_URL: &str = "https://conformance-test.local/client-metadata.json";

pub(super) async fn run(cx: &Context, connection: &Connection, args: McpArgs) -> Result<Exit, Failure> {
    match args.command {
        None => serve(connection, &args.path).await,
        Some(McpCommand::Probe(args)) => probe(cx, *args).await,
        Some(McpCommand::Login(args)) => login::run(cx, args).await,
    }
}

/// Bridges standard input and output to the server's MCP endpoint, with the configured API key.
async fn serve(connection: &Connection, path: &str) -> Result<Exit, Failure> {
    let (http, base) = ApiClient::for_streams(connection)?;
    let target = HttpTarget { http, url: format!("{base}{path}") };
    match bridge(tokio::io::stdin(), tokio::io::stdout(), target).await {
        Ok(()) => Ok(Exit::Ok),
        Err(BridgeError::Local(error)) => Err(Failure::Output(error)),
        Err(error) => {
            // Send the request again to get the problem document, which contains the reason.
            if matches!(error, BridgeError::Unauthorized { .. }) {
                ApiClient::new(connection)?.get(path, &[]).await?;
            }
            Err(Failure::Unreachable { url: base, cause: error.to_string() })
        }
    }
}

async fn probe(cx: &Context, args: ProbeArgs) -> Result<Exit, Failure> {
    let context: ConformanceContext = match args.context.as_deref() {
        Some(text) => serde_json::from_str(text).map_err(|error| Failure::Usage(format!("--context: {error}")))?,
        None => ConformanceContext::default(),
    };
    let url = args.server.parse::<reqwest::Url>().ok().filter(|url| matches!(url.scheme(), "http" | "https"));
    if url.is_none() {
        return Err(Failure::Usage(format!("SERVER must be an http or https URL, got `{}`", args.server)));
    }
    let arguments = args.arguments.as_deref().map(serde_json::from_str).transpose();
    let arguments = arguments.map_err(|error| Failure::Usage(format!("--arguments: {error}")))?;
    let conformance_url = args.scenario.is_some().then(|| CONFORMANCE_CLIENT_METADATA_URL.to_owned());
    let authorize = args.authorize.map(|AuthorizeMode::Auto| OAuthClient {
        client_id: args.client_id.or(context.client_id),
        client_secret: args.client_secret.or(context.client_secret),
        client_metadata_url: args.client_metadata_url.or(conformance_url),
    });
    let http = reqwest::Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .connect_timeout(Duration::from_secs(10))
        .build()
        .map_err(|error| Failure::Usage(format!("cannot create an HTTP client: {error}")))?;
    let calls: Vec<ProbeCall> = match args.call {
        Some(name) => vec![ProbeCall { name, arguments }],
        None => context.tool_calls,
    };
    let probe = Probe {
        url: args.server.clone(),
        http,
        version: args.protocol,
        calls: if args.call_all && calls.is_empty() { ProbeCalls::All } else { ProbeCalls::Only(calls) },
        token: args.token,
        authorize,
    };
    let findings = probe.run().await.map_err(|error| failure(&args.server, error))?;
    let exit = if findings.calls.iter().all(|call| call.ok) { Exit::Ok } else { Exit::Failed };
    show(cx, &findings)?;
    Ok(exit)
}

fn show(cx: &Context, findings: &ProbeReport) -> Result<(), Failure> {
    if cx.output.json {
        return Ok(cx.output.document(json!(findings))?);
    }
    let server = findings.server.as_deref().unwrap_or("unnamed server");
    cx.output.line(format!("{} (MCP {})", sanitize_line(server), sanitize_line(&findings.protocol_version)))?;
    cx.output.line(format!(
        "{}: {}",
        pluralize(findings.tools.len() as u64, "tool"),
        sanitize_line(&findings.tools.join(", "))
    ))?;
    if findings.calls.is_empty() && !findings.tools.is_empty() {
        cx.output.note("no tool was called; use --call TOOL to call one");
    }
    let called = |call: &ProbeCallReport| {
        let mark = if call.ok { cx.output.out.good("ok") } else { cx.output.out.bad("failed") };
        format!("{} {mark} {}", sanitize_line(&call.tool), sanitize_line(&call.output))
    };
    Ok(cx.output.lines(findings.calls.iter().map(called))?)
}

fn failure(url: &str, error: ProbeError) -> Failure {
    let (hint, denied) = match error {
        ProbeError::Version(_) => return Failure::Usage(error.to_string()),
        ProbeError::LoginRequired => {
            ("set TOOLWRIGHT_MCP_TOKEN or pass --token, or log in with --authorize auto", true)
        }
        ProbeError::Rejected => ("check TOOLWRIGHT_MCP_TOKEN or --token, or log in with --authorize auto", true),
        ProbeError::Unauthorized(_) => ("pass a token with --token, or check --client-id and --client-secret", true),
        ProbeError::AuthorizationServer(_) => ("pass a token with --token instead of --authorize", false),
        ProbeError::Connect(_) => ("check that the server runs, and the path of its MCP endpoint, often /mcp", false),
        ProbeError::Timeout(_) | ProbeError::RequestFailed { .. } => ("check the log of the MCP server", false),
    };
    Failure::McpServer { url: url.to_owned(), cause: error.to_string(), hint, denied }
}
