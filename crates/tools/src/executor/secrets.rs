//! Identifies and opens the secrets of a call.

use std::collections::BTreeMap;

use secrecy::SecretString;
use tokio::time::Instant;
use toolwright_types::{ErrorCode, ToolError, ToolProviderConfig};

use super::Ports;
use super::attempts::cancelled_failure;
use crate::http_client::Grant;
use crate::ports::{PortError, SecretRevision};
use crate::{CallContext, CompiledTool, ToolFailure};

/// The secrets that a call needs, by name. They are not opened yet.
#[derive(Debug, Default)]
pub(super) struct IdentifiedSecrets(BTreeMap<String, SecretRevision>);

impl IdentifiedSecrets {
    pub(super) fn iter(&self) -> impl Iterator<Item = (&String, &SecretRevision)> {
        self.0.iter()
    }

    /// Whether one of these secrets belongs to a user.
    pub(super) fn has_secret_of_user(&self) -> bool {
        self.0.values().any(|identity| identity.scope == "user")
    }

    /// Returns the broadest scope of these secrets. The envelope reports this scope, because the secrets in it are
    /// shared by the most people.
    pub(super) fn widest_scope(&self) -> Option<&'static str> {
        ["org", "realm", "user"].into_iter().find(|scope| self.0.values().any(|identity| identity.scope == *scope))
    }
}

pub(super) async fn identify(
    ports: &Ports,
    cx: &CallContext,
    tool: &CompiledTool,
) -> Result<IdentifiedSecrets, ToolError> {
    let mut identified = BTreeMap::new();
    for name in tool.secret_names() {
        match ports.secrets.identify(&cx.realm, &cx.principal, name).await {
            Ok(Some(identity)) => identified.insert(name.to_owned(), identity),
            Ok(None) => {
                let remedy = match login_provider(tool, name) {
                    Some(provider) => format!("log in with `toolwright mcp login {}`", provider.ref_name),
                    None => format!("set it with `toolwright secrets set {name}`"),
                };
                let message = format!("no secret `{name}` for you, your realm or your org; {remedy}");
                return Err(ToolError::new(ErrorCode::AuthRequired, message)
                    .reason("missing_secret")
                    .detail("secret", name));
            }
            Err(error) => return Err(port_error(&error)),
        };
    }
    Ok(IdentifiedSecrets(identified))
}

/// Opens the secrets of a call. If a secret is an OAuth login, its value is the current access token, which is renewed
/// within the deadline if necessary.
pub(super) async fn reveal(
    ports: &Ports,
    cx: &CallContext,
    tool: &CompiledTool,
    identified: &IdentifiedSecrets,
    deadline: Instant,
) -> Result<BTreeMap<String, SecretString>, ToolError> {
    let mut values = BTreeMap::new();
    for (name, identity) in identified.iter() {
        let value = match login_provider(tool, name) {
            None => {
                let value = ports.secrets.reveal(&cx.realm, identity).await.map_err(|error| port_error(&error))?;
                if Grant::from_secret(&value).is_some() {
                    let message = format!(
                        "secret `{name}` is a login, which only a provider with `oauth2` and no `tokenEndpoint` may use"
                    );
                    return Err(ToolError::new(ErrorCode::AuthRequired, message).reason("secret"));
                }
                value
            }
            Some(provider) => {
                let token = ports.secrets.token(&cx.realm, identity, provider);
                let token = cx.cancel.run_until_cancelled(tokio::time::timeout_at(deadline, token)).await;
                let late =
                    |_| ToolError::new(ErrorCode::Timeout, "the login was not renewed in time").reason("deadline");
                let token = token.ok_or_else(|| cancelled_failure().error)?.map_err(late)?;
                token.map_err(|error| port_error(&error))?.map_err(|error| with_login_hint(error, "", provider))?
            }
        };
        values.insert(name.clone(), value);
    }
    Ok(values)
}

/// Reports a login whose token was rejected, so that the next call gets a new token. Adds a hint to the failure.
pub(super) async fn report_refused_login(
    ports: &Ports,
    cx: &CallContext,
    tool: &CompiledTool,
    identified: &IdentifiedSecrets,
    mut failure: ToolFailure,
) -> ToolFailure {
    if failure.error.code != ErrorCode::AuthRequired {
        return failure;
    }
    for (name, identity) in identified.iter() {
        if let Some(provider) = login_provider(tool, name) {
            if let Err(error) = ports.secrets.token_rejected(&cx.realm, identity).await {
                port_error(&error);
            }
            failure.error = with_login_hint(failure.error, "try once more, and if that does not help, ", provider);
        }
    }
    failure
}

/// Returns the provider of `tool` if `secret` is a login to that provider.
fn login_provider<'a>(tool: &'a CompiledTool, secret: &str) -> Option<&'a ToolProviderConfig> {
    let config = &tool.provider.as_deref()?.config;
    let is_login = config.auth.is_login() && config.auth.secret_ref.as_deref() == Some(secret);
    is_login.then_some(config)
}

/// Adds instructions for logging in again, if a login may resolve the error.
fn with_login_hint(mut error: ToolError, advice: &str, provider: &ToolProviderConfig) -> ToolError {
    let reason = error.details.as_ref().and_then(|details| details.get("reason")?.as_str());
    if matches!(reason, Some("login_ended" | "no_login" | "mcp_auth" | "http_status")) {
        error.message += &format!("; {advice}log in again with `toolwright mcp login {}`", provider.ref_name);
    }
    error
}

/// Logs the cause of a port's failure and returns the error for the caller, which names only the port.
pub(super) fn port_error(error: &PortError) -> ToolError {
    tracing::error!(port = error.port, cause = ?error.source, "executor port failed");
    ToolError::new(ErrorCode::Unknown, format!("{error}; the server's log has the cause")).reason("unavailable")
}
