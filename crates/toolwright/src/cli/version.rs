//! Implements `toolwright version`, which shows the versions of the client and the server.

use serde_json::{Value, json};

use super::Context;
use super::client::ApiResponse;
use super::exit::Exit;
use super::failure::Failure;
use super::output::sanitize_line;

/// The version of this program.
pub(super) const CLIENT_VERSION: &str = env!("CARGO_PKG_VERSION");

/// Arguments of `version` (none).
#[derive(clap::Args)]
pub(crate) struct VersionArgs {}

/// Shows the versions. If the server does not answer, the version of the client is still shown.
pub(super) async fn run(cx: &Context) -> Result<Exit, Failure> {
    if !cx.output.json {
        cx.output.line(format!("client  {CLIENT_VERSION}"))?;
    }
    // The OpenAPI document can be read without an API key.
    let response = cx.client.get("/openapi.json", &[]).await;
    let server = response.as_ref().ok().and_then(server_version);
    if cx.output.json {
        cx.output.document(json!({ "client": CLIENT_VERSION, "server": server, "url": cx.client.base_url() }))?;
    } else if let Some(server) = server {
        cx.output.line(format!("server  {}  {}", sanitize_line(&server), cx.client.base_url()))?;
    }
    match response {
        Err(failure) => Ok(failure.print(&cx.output)),
        Ok(_) => Ok(Exit::Ok),
    }
}

/// Returns the version in the OpenAPI document of a server.
pub(super) fn server_version(response: &ApiResponse) -> Option<String> {
    let document: Value = response.read().ok()?;
    document.pointer("/info/version")?.as_str().map(str::to_owned)
}
