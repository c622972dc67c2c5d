//! Which secrets a call needs, whose they are, and their values.

use std::collections::BTreeMap;

use secrecy::SecretString;
use tokio::time::Instant;
use toolwright_types::{ErrorCode, ToolError, ToolProviderConfig};

use super::Ports;
use super::run::cancelled;
use crate::http::Grant;
use crate::ports::{SecretIdentity, Unavailable};
use crate::{CallContext, CompiledTool, ToolFailure};

/// The secrets of a call by name, still closed.
#[derive(Debug, Default)]
pub struct Identified(BTreeMap<String, SecretIdentity>);

impl Identified {
    pub fn iter(&self) -> impl Iterator<Item = (&String, &SecretIdentity)> {
        self.0.iter()
    }

    /// The broadest scope any of them was found in, which is what a person should be warned about.
    pub fn widest_scope(&self) -> Option<&'static str> {
        ["org", "realm", "user"].into_iter().find(|scope| self.0.values().any(|identity| identity.scope == *scope))
    }
}

pub(super) async fn identify(ports: &Ports, cx: &CallContext, tool: &CompiledTool) -> Result<Identified, ToolError> {
    let mut identified = BTreeMap::new();
    for name in tool.secret_names() {
        match ports.secrets.identify(&cx.realm, &cx.principal, name).await {
            Ok(Some(identity)) => identified.insert(name.to_owned(), identity),
            Ok(None) => {
                let remedy = match login(tool, name) {
                    Some(provider) => format!("log in with `toolwright mcp login {}`", provider.ref_name),
                    None => format!("set it with `toolwright secrets set {name}`"),
                };
                let message = format!("no secret `{name}` for you, your realm or your org; {remedy}");
                return Err(ToolError::new(ErrorCode::AuthRequired, message)
                    .reason("missing_secret")
                    .detail("secret", name));
            }
            Err(error) => return Err(unavailable(&error)),
        };
    }
    Ok(Identified(identified))
}

/// The values of a call's secrets. That of a login is the token it has now, if it is renewed within the deadline of the call.
pub(super) async fn reveal(
    ports: &Ports,
    cx: &CallContext,
    tool: &CompiledTool,
    identified: &Identified,
    deadline: Instant,
) -> Result<BTreeMap<String, SecretString>, ToolError> {
    let mut values = BTreeMap::new();
    for (name, identity) in identified.iter() {
        let value = match login(tool, name) {
            None => {
                let value = ports.secrets.reveal(&cx.realm, identity).await.map_err(|error| unavailable(&error))?;
                if Grant::read(&value).is_some() {
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
                let token = token.ok_or_else(|| cancelled().error)?.map_err(late)?;
                token.map_err(|error| unavailable(&error))?.map_err(|error| advised(error, "", provider))?
            }
        };
        values.insert(name.clone(), value);
    }
    Ok(values)
}

/// What a call failed with. If that is because the token of a login was refused, the next call has another.
pub(super) async fn after_failure(
    ports: &Ports,
    cx: &CallContext,
    tool: &CompiledTool,
    identified: &Identified,
    mut failure: ToolFailure,
) -> ToolFailure {
    if failure.error.code != ErrorCode::AuthRequired {
        return failure;
    }
    for (name, identity) in identified.iter() {
        if let Some(provider) = login(tool, name) {
            if let Err(error) = ports.secrets.refused(&cx.realm, identity).await {
                unavailable(&error);
            }
            failure.error = advised(failure.error, "try once more, and if that does not help, ", provider);
        }
    }
    failure
}

/// The provider of a tool, if this is the secret that somebody got by logging in to it.
fn login<'a>(tool: &'a CompiledTool, secret: &str) -> Option<&'a ToolProviderConfig> {
    let config = &tool.provider.as_deref()?.config;
    let is_login = config.auth.is_login() && config.auth.secret_ref.as_deref() == Some(secret);
    is_login.then_some(config)
}

/// An error that says how to log in, if that may help.
fn advised(mut error: ToolError, before: &str, provider: &ToolProviderConfig) -> ToolError {
    let reason = error.details.as_ref().and_then(|details| details.get("reason")?.as_str());
    if matches!(reason, Some("login_ended" | "no_login" | "mcp_auth" | "http_status")) {
        error.message += &format!("; {before}log in again with `toolwright mcp login {}`", provider.ref_name);
    }
    error
}

/// A port that failed is ours to look at: the log has the cause, the caller only which part it was.
pub(super) fn unavailable(error: &Unavailable) -> ToolError {
    tracing::error!(port = error.port, cause = ?error.source, "a port of the executor failed");
    ToolError::new(ErrorCode::Unknown, format!("{error}; the server's log has the cause")).reason("unavailable")
}
