//! Implements `agents tools`, which lists the tools that an agent can use on behalf of the caller.

use toolwright_api::wire::AgentToolView;

use crate::cli::Context;
use crate::cli::client::{AGENTS, parse_name, path};
use crate::cli::exit::Exit;
use crate::cli::failure::Failure;
use crate::cli::fields::wire_name;
use crate::cli::pages::{List, PageArgs};
use crate::cli::table::Table;

/// Arguments of `agents tools`.
#[derive(clap::Args)]
pub(crate) struct ToolsArgs {
    /// refName or ID of the agent
    #[arg(value_name = "REF", value_parser = parse_name)]
    reference: String,
    /// Example user message; selects the tools offered to the model when there are many
    #[arg(long, value_name = "TEXT")]
    message: Option<String>,
}

/// Lists the tools of an agent.
pub(super) async fn run(cx: &Context, args: ToolsArgs) -> Result<Exit, Failure> {
    show(cx, &args.reference, args.message).await?;
    Ok(Exit::Ok)
}

/// Prints the tools of an agent.
pub(super) async fn show(cx: &Context, agent: &str, message: Option<String>) -> Result<(), Failure> {
    let collection = format!("{}/tools", path(AGENTS, agent));
    let query = message.into_iter().map(|message| ("message", message)).collect();
    let list = List { collection: &collection, query, empty_message: "the agent has no tools" };
    list.show(cx, &PageArgs::default(), table).await
}

fn table(tools: &[AgentToolView]) -> Table {
    let mut table = Table::new(["NAME", "VERSION", "STATUS", "EFFECTS", "APPROVAL", "OFFERED", "DESCRIPTION"]);
    for tool in tools {
        let version = if tool.delegate { "agent" } else { &tool.version };
        let approval = if tool.requires_confirmation { "yes" } else { "no" };
        let offered = if tool.shown { "directly" } else { "by search" };
        let status = &wire_name(tool.status);
        table.row([
            &tool.ref_name,
            version,
            status,
            &wire_name(tool.side_effects),
            approval,
            offered,
            &tool.description,
        ]);
    }
    table
}
