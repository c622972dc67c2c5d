//! How a provider's server is reached: as a child process, or under the egress rules.

use std::collections::HashMap;
use std::process::Stdio;
use std::sync::Arc;

use process_wrap::tokio::{CommandWrap, KillOnDrop, ProcessGroup};
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::transport::{StreamableHttpClientTransport, TokioChildProcess};
use secrecy::ExposeSecret;
use serde_json::json;
use tokio::io::AsyncReadExt;
use tokio::process::{ChildStderr, Command};
use toolwright_tools::ToolFailure;
use toolwright_tools::executor::Attempt;
use toolwright_tools::http::{Access, CompiledProvider};
use toolwright_types::json::hex_digest;
use toolwright_types::{ErrorCode, McpTransport};

use super::connection::Connection;
use super::{Client, Listening, unreachable};

/// What a child process has of our environment; the rest, keys above all, is not its business.
const INHERITED: [&str; 5] = ["PATH", "HOME", "LANG", "LC_ALL", "TMPDIR"];

impl Client {
    /// The connection for an attempt.
    pub(super) async fn connection(
        &self,
        provider: &CompiledProvider,
        attempt: &Attempt<'_>,
    ) -> Result<Arc<Connection>, ToolFailure> {
        let slot = self.0.slots.of(key(provider, attempt));
        let connect = async {
            match provider.config.mcp_transport() {
                McpTransport::Stdio => self.spawn(provider, attempt).await,
                McpTransport::StreamableHttp | McpTransport::Sse => self.dial(provider, attempt).await,
            }
        };
        slot.get(connect).await
    }

    async fn dial(&self, provider: &CompiledProvider, attempt: &Attempt<'_>) -> Result<Connection, ToolFailure> {
        let config = &provider.config;
        let url = provider.base().ok_or_else(|| ToolFailure::invalid("the provider has no `baseUrl`"))?;
        let certificate = config.auth.cert_ref.as_ref().and_then(|name| attempt.secrets.get(name));
        let access = Access { allow: &config.egress_allow, certificate };
        let client = self.0.http.guarded(url, &access)?;
        let mut headers: HashMap<_, _> =
            provider.headers().iter().map(|(name, value)| (name.clone(), value.clone())).collect();
        let secret = config.auth.secret_ref.as_ref().and_then(|name| attempt.secrets.get(name));
        if let Some(secret) = secret {
            headers.extend(self.0.http.credential(&config.auth, secret, &access).await?);
        }
        let target = StreamableHttpClientTransportConfig::with_uri(url.as_str()).custom_headers(headers);
        let transport = StreamableHttpClientTransport::with_client(Listening::new(client), target);
        Connection::open(transport, Arc::clone(&self.0.changed)).await
    }

    async fn spawn(&self, provider: &CompiledProvider, attempt: &Attempt<'_>) -> Result<Connection, ToolFailure> {
        let config = &provider.config;
        if !self.0.stdio {
            let message = "MCP servers that are commands are switched off on this server; see `mcp.stdio`";
            return Err(ToolFailure::fatal(ErrorCode::PolicyDenied, message).reason("stdio_disabled"));
        }
        let program = config.command.as_deref().unwrap_or_default();
        let mut command = Command::new(program);
        command.args(&config.args).env_clear();
        command.envs(INHERITED.iter().filter_map(|name| Some((name, std::env::var_os(name)?))));
        command.envs(&config.env);
        for (variable, name) in &config.env_secret_refs {
            if let Some(secret) = attempt.secrets.get(name) {
                command.env(variable, secret.expose_secret());
            }
        }
        let mut command = CommandWrap::from(command);
        // With everything it starts itself: `npx` and the like are not the server.
        command.wrap(ProcessGroup::leader()).wrap(KillOnDrop);
        let spawned = TokioChildProcess::builder(command).stderr(Stdio::piped()).spawn();
        let (process, stderr) = spawned.map_err(|error| {
            tracing::warn!(%error, program, "an MCP server cannot be started");
            unreachable(format!("`{program}` cannot be started: {}", error.kind()), "spawn")
        })?;
        if let Some(stderr) = stderr {
            let stop = self.0.stop.clone();
            let provider = config.ref_name.to_string();
            self.0.tasks.spawn(async move { stop.run_until_cancelled(overhear(provider, stderr)).await });
        }
        Connection::open(process, Arc::clone(&self.0.changed)).await
    }
}

/// Writes what a server complains about to the log.
async fn overhear(provider: String, mut stderr: ChildStderr) {
    let mut piece = [0; 4096];
    while let Ok(read @ 1..) = stderr.read(&mut piece).await {
        let text = String::from_utf8_lossy(piece.get(..read).unwrap_or_default());
        for line in text.lines().filter(|line| !line.trim().is_empty()) {
            tracing::info!(provider, line, "an MCP server says");
        }
    }
}

/// What calls must have in common to share a connection.
fn key(provider: &CompiledProvider, attempt: &Attempt<'_>) -> String {
    let secrets: Vec<_> = attempt.secrets.iter().map(|(name, value)| [name.as_str(), value.expose_secret()]).collect();
    hex_digest(&json!([attempt.cx.realm.realm, provider.config, secrets]))
}
