//! Implements `workflows graph`, which draws a workflow.

use toolwright_workflow::{GraphFormat, render};

use super::source;
use crate::cli::Context;
use crate::cli::exit::Exit;
use crate::cli::failure::Failure;

/// Arguments of `workflows graph`.
#[derive(clap::Args)]
pub(crate) struct GraphArgs {
    /// File with one workflow, `-` for standard input, or the refName or ID of a workflow on the server
    #[arg(value_name = "SOURCE")]
    source: String,
    /// Format of the graph: mermaid, dot or svg
    #[arg(long, value_name = "FORMAT", default_value_t, value_parser = parse_format)]
    format: GraphFormat,
}

/// Prints the graph of a workflow.
pub(super) async fn run(cx: &Context, args: GraphArgs) -> Result<Exit, Failure> {
    let workflow = source::workflow(cx, &args.source).await?;
    let drawn = render(&workflow, args.format).map_err(|error| Failure::Usage(error.to_string()))?;
    cx.output.print(&drawn)?;
    Ok(Exit::Ok)
}

fn parse_format(text: &str) -> Result<GraphFormat, String> {
    text.parse().map_err(|error: toolwright_workflow::UnknownFormat| error.to_string())
}
