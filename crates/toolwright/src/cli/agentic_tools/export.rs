//! Implements `agentic-tools export`.

use serde_json::Value;

use crate::cli::Context;
use crate::cli::client::{AGENTIC_TOOLS, TOOLS, parse_name, path};
use crate::cli::exit::Exit;
use crate::cli::failure::Failure;

use super::input::without_version;

/// Arguments of `agentic-tools export`.
#[derive(clap::Args)]
pub(crate) struct ExportArgs {
    /// refName or ID of the agentic tool, optionally with a version: name@^1.2
    #[arg(value_name = "REF", value_parser = parse_name)]
    reference: String,
    /// Format
    #[arg(long, default_value = "universal", value_parser = ["universal", "langchain", "mcp", "openai", "anthropic", "gemini"])]
    format: String,
}

/// Prints an agentic tool in a format.
pub(super) async fn run(cx: &Context, args: &ExportArgs) -> Result<Exit, Failure> {
    // The export route accepts every tool. This request fails if the tool is not agentic.
    cx.client.get(&path(AGENTIC_TOOLS, without_version(&args.reference)), &[]).await?;
    let response = cx.client.get(&format!("{}/export/{}", path(TOOLS, &args.reference), args.format), &[]).await?;
    if cx.output.json {
        cx.output.document(response.text.trim_end())?;
    } else {
        let exported: Value = response.read()?;
        cx.output.line(serde_json::to_string_pretty(&exported).unwrap_or_default())?;
    }
    Ok(Exit::Ok)
}
