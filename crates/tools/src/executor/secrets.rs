//! Which secrets a call needs, whose they are, and their values.

use std::collections::BTreeMap;

use secrecy::SecretString;
use toolwright_types::{ErrorCode, ToolError};

use super::Ports;
use crate::ports::{SecretIdentity, Unavailable};
use crate::{CallContext, CompiledTool};

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
                let message = format!(
                    "no secret `{name}` for you, your realm or your org; set it with `toolwright secrets set {name}`"
                );
                return Err(ToolError::new(ErrorCode::AuthRequired, message)
                    .reason("missing_secret")
                    .detail("secret", name));
            }
            Err(error) => return Err(unavailable(&error)),
        };
    }
    Ok(Identified(identified))
}

pub(super) async fn reveal(
    ports: &Ports,
    cx: &CallContext,
    identified: &Identified,
) -> Result<BTreeMap<String, SecretString>, ToolError> {
    let mut values = BTreeMap::new();
    for (name, identity) in identified.iter() {
        match ports.secrets.reveal(&cx.realm, identity).await {
            Ok(value) => values.insert(name.clone(), value),
            Err(error) => return Err(unavailable(&error)),
        };
    }
    Ok(values)
}

/// A port that failed is ours to look at: the log has the cause, the caller only which part it was.
pub(super) fn unavailable(error: &Unavailable) -> ToolError {
    tracing::error!(port = error.port, cause = ?error.source, "a port of the executor failed");
    ToolError::new(ErrorCode::Unknown, format!("{error}; the server's log has the cause")).reason("unavailable")
}
