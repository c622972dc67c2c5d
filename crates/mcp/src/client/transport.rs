//! Opens connections to a provider's server: a child process, or HTTP under the egress rules.

use std::collections::HashMap;
use std::io::ErrorKind;
use std::process::Stdio;
use std::sync::Arc;

use http::{HeaderName, HeaderValue};
use process_wrap::tokio::{CommandWrap, KillOnDrop, ProcessGroup};
use rmcp::ClientLifecycleMode;
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use secrecy::ExposeSecret;
use serde_json::json;
use tokio::io::BufReader;
use tokio::process::Command;
use tokio::sync::watch;
use toolwright_budget::Share;
use toolwright_tools::ToolFailure;
use toolwright_tools::executor::Attempt;
use toolwright_tools::http::{CompiledProvider, NetworkAccess};
use toolwright_types::json::hex_digest;
use toolwright_types::{CommandArgument, ErrorCode, McpTransport, ToolProviderConfig};
use url::Url;

use super::bounded_http::BoundedHttpClient;
use super::child::{Child, EXIT_TIMEOUT, Process};
use super::connection::{Connection, OpenError, lifecycle, open_failure};
use super::http_sse::HttpSseTransport;
use super::late_discovery::WithoutLateDiscovery;
use super::stderr::{StderrTail, line_redactor, log_lines};
use super::{Client, CommandUser, PROCESS_LIMIT, StreamFirstClient, is_listing, unreachable_server};

/// The environment variables that a child process inherits. It does not inherit any other variables, because they may
/// contain credentials.
const INHERITED_ENV: [&str; 5] = ["PATH", "HOME", "LANG", "LC_ALL", "TMPDIR"];

impl Client {
    /// Returns the connection that an attempt uses. Connects if the pool has no open connection.
    pub(super) async fn connection(
        &self,
        provider: &CompiledProvider,
        attempt: &Attempt<'_>,
    ) -> Result<Arc<Connection>, ToolFailure> {
        let slot = self.0.pool.slot(pool_key(provider, attempt));
        let connect = async {
            match provider.config.mcp_transport() {
                McpTransport::Stdio => Box::pin(self.spawn(provider, attempt)).await,
                McpTransport::StreamableHttp => self.connect_http(provider, attempt).await,
                McpTransport::Sse => self.connect_sse(provider, attempt).await,
            }
        };
        slot.get(connect).await
    }

    async fn connect_http(
        &self,
        provider: &CompiledProvider,
        attempt: &Attempt<'_>,
    ) -> Result<Connection, ToolFailure> {
        let (client, url, headers) = self.http_client(provider, attempt).await?;
        let target = StreamableHttpClientTransportConfig::with_uri(url.as_str()).custom_headers(headers);
        let transport = StreamableHttpClientTransport::with_client(StreamFirstClient::new(client), target);
        Ok(Connection::open(lifecycle(), transport, Arc::clone(&self.0.changed), attempt.redactor.clone()).await?)
    }

    async fn connect_sse(&self, provider: &CompiledProvider, attempt: &Attempt<'_>) -> Result<Connection, ToolFailure> {
        let (client, url, headers) = self.http_client(provider, attempt).await?;
        let transport = HttpSseTransport::connect(client, url, headers)
            .await
            .map_err(|error| open_failure(&error, attempt.redactor))?;
        // Servers with the HTTP+SSE transport do not know the newer handshake.
        let (changed, redactor) = (Arc::clone(&self.0.changed), attempt.redactor.clone());
        Ok(Connection::open(ClientLifecycleMode::Initialize, transport, changed, redactor).await?)
    }

    /// Returns the HTTP client, the URL and the headers for a provider, with its credentials and egress rules.
    async fn http_client<'a>(
        &self,
        provider: &'a CompiledProvider,
        attempt: &Attempt<'_>,
    ) -> Result<(BoundedHttpClient, &'a Url, HashMap<HeaderName, HeaderValue>), ToolFailure> {
        let config = &provider.config;
        let url = provider.base_url().ok_or_else(|| ToolFailure::invalid("`baseUrl` of the provider is required"))?;
        let certificate = config.auth.certificate_ref().and_then(|name| attempt.secrets.get(name));
        let access = NetworkAccess { allow: &config.egress_allow, certificate };
        let client = self.0.http.raw_client_for(url, &access)?;
        let mut headers: HashMap<_, _> =
            provider.headers().iter().map(|(name, value)| (name.clone(), value.clone())).collect();
        let secret = config.auth.secret_ref.as_ref().and_then(|name| attempt.secrets.get(name));
        if let Some(secret) = secret {
            headers.extend(self.0.http.credential(&config.auth, secret, &access).await?);
        }
        Ok((BoundedHttpClient(client), url, headers))
    }

    async fn spawn(&self, provider: &CompiledProvider, attempt: &Attempt<'_>) -> Result<Connection, ToolFailure> {
        let config = &provider.config;
        if !self.0.stdio {
            let message = "stdio MCP servers are disabled on this server; set `mcp.stdio` to `on`";
            return Err(ToolFailure::fatal(ErrorCode::PolicyDenied, message).reason("stdio_disabled"));
        }
        let shares = self.process_shares(attempt)?;
        let program = config.command.as_deref().unwrap_or_default();
        let mut command = self.command(config, attempt);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut command = CommandWrap::from(command);
        // The whole process group is killed on drop, because launchers such as `npx` start the MCP server as a child
        // process of their own.
        command.wrap(ProcessGroup::leader()).wrap(KillOnDrop);
        let not_started = |error: std::io::Error| {
            tracing::warn!(%error, program, "MCP server process could not be started");
            unreachable_server(not_started_message(program, &error), "spawn")
        };
        let mut process = command.spawn().map_err(not_started)?;
        let (tail, stderr_tail) = watch::channel(StderrTail::default());
        if let Some(stderr) = process.stderr().take() {
            let stop = self.0.stop.clone();
            let (provider, redactor) = (config.ref_name.to_string(), line_redactor(attempt));
            let log = async move { log_lines(BufReader::new(stderr), &provider, &redactor, tail).await };
            self.0.tasks.spawn(async move { stop.run_until_cancelled(log).await });
        }
        let child = Child::new(process).map_err(not_started)?;
        let process = child.process();
        let (transport, changed) = (WithoutLateDiscovery::new(child), Arc::clone(&self.0.changed));
        match Connection::open(lifecycle(), transport, changed, attempt.redactor.clone()).await {
            Ok(connection) => Ok(connection.holding(shares)),
            Err(OpenError { failure, disconnected: false }) => Err(failure),
            Err(_disconnected) => {
                // A caller of a tool does not get the program's output, only a caller that lists the tools.
                let shown = is_listing(attempt).then_some(stderr_tail);
                Err(unreachable_server(ended_message(program, &process, shown).await, "connect"))
            }
        }
    }

    /// Returns the command of a provider, with its arguments and its environment.
    fn command(&self, config: &ToolProviderConfig, attempt: &Attempt<'_>) -> Command {
        let mut command = Command::new(config.command.as_deref().unwrap_or_default());
        command.args(arguments(&config.args, attempt)).env_clear();
        command.envs(INHERITED_ENV.iter().filter_map(|name| Some((name, std::env::var_os(name)?))));
        if let Some(CommandUser { uid, gid }) = self.0.command_user {
            // `HOME` is removed, because it is the home directory of the user of this server, not of the command's
            // user.
            command.uid(uid).gid(gid).env_remove("HOME");
        }
        command.envs(&config.env);
        for (variable, name) in &config.env_secret_refs {
            if let Some(secret) = attempt.secrets.get(name) {
                command.env(variable, secret.expose_secret());
            }
        }
        command
    }

    /// Counts one more process for the realm and for the principal of an attempt. Fails if one of them has reached its
    /// limit.
    fn process_shares(&self, attempt: &Attempt<'_>) -> Result<[Share; 2], ToolFailure> {
        let (realms, principals) = &self.0.processes;
        let limited = |owner: &str, limit: usize, setting: &str| {
            let message = format!(
                "{owner} has {limit} running MCP server commands, which is the limit (`{setting}`); a command ends \
                 after ten minutes without calls"
            );
            ToolFailure::fatal(ErrorCode::RateLimit, message).reason(PROCESS_LIMIT)
        };
        let principal = principals.try_acquire(&attempt.cx.principal.id.to_string());
        let principal =
            principal.ok_or_else(|| limited("the principal", principals.each(), "mcp.max_processes_per_principal"))?;
        let realm = realms.try_acquire(&attempt.cx.realm.realm.to_string());
        let realm = realm.ok_or_else(|| limited("the realm", realms.each(), "mcp.max_processes_per_realm"))?;
        Ok([principal, realm])
    }
}

/// Returns the message for a program that could not be started.
fn not_started_message(program: &str, error: &std::io::Error) -> String {
    match error.kind() {
        ErrorKind::NotFound if program.contains('/') => {
            format!("the program `{program}` or its interpreter does not exist on the server")
        }
        ErrorKind::NotFound => format!("the program `{program}` was not found in the `PATH` of the server"),
        kind => format!("the program `{program}` could not be started: {kind}"),
    }
}

/// Returns the message for a program that closed its stdout before it answered. The message contains the end of the
/// program's stderr if `stderr_tail` is set.
async fn ended_message(program: &str, process: &Process, stderr_tail: Option<watch::Receiver<StderrTail>>) -> String {
    let Some(status) = process.exit_status().await else {
        return format!(
            "the program `{program}` closed its stdout before it answered as an MCP server; the server log has its stderr"
        );
    };
    let ended = format!("the program `{program}` ended ({status}) before it answered as an MCP server");
    let Some(mut tail) = stderr_tail else { return format!("{ended}; the server log has its stderr") };
    // The sender is dropped at the end of stderr. Another process may keep stderr open.
    let read_to_end = async { while tail.changed().await.is_ok() {} };
    let _ = tokio::time::timeout(EXIT_TIMEOUT, read_to_end).await;
    match tail.borrow().text() {
        "" => format!("{ended}; it wrote nothing to stderr"),
        text => format!("{ended}; its stderr, which is in the server log, ends with: {text}"),
    }
}

/// Returns the arguments of a command with the values of their secrets.
fn arguments<'a>(arguments: &'a [CommandArgument], attempt: &'a Attempt<'_>) -> impl Iterator<Item = String> + 'a {
    arguments.iter().map(|argument| match argument {
        CommandArgument::Text(text) => text.clone(),
        CommandArgument::Secret(argument) => {
            let secret = attempt.secrets.get(&argument.secret_ref);
            format!("{}{}", argument.prefix, secret.map(ExposeSecret::expose_secret).unwrap_or_default())
        }
    })
}

/// Returns the key of a connection in the pool. Calls with the same key share a connection.
fn pool_key(provider: &CompiledProvider, attempt: &Attempt<'_>) -> String {
    let secrets: Vec<_> = attempt.secrets.iter().map(|(name, value)| [name.as_str(), value.expose_secret()]).collect();
    hex_digest(&json!([attempt.cx.realm.realm, provider.config, secrets]))
}
