//! Implements `agentic-tools list`.

use serde_json::Value;

use crate::cli::Context;
use crate::cli::client::AGENTIC_TOOLS;
use crate::cli::exit::Exit;
use crate::cli::failure::Failure;
use crate::cli::fields::text;
use crate::cli::pages::{List, PageArgs};
use crate::cli::table::Table;

use super::show;

/// Arguments of `agentic-tools list`.
#[derive(clap::Args)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    page: PageArgs,
    /// Filter by status
    #[arg(long, value_parser = ["draft", "active", "disabled", "blocked"])]
    status: Option<String>,
    /// Filter by mode
    #[arg(long, value_parser = ["deterministic", "agentic"])]
    mode: Option<String>,
}

/// Lists agentic tools.
pub(super) async fn run(cx: &Context, args: ListArgs) -> Result<Exit, Failure> {
    let query = [("status", args.status), ("executionMode", args.mode)];
    let query = query.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
    let list = List { collection: AGENTIC_TOOLS, query, empty_message: "no agentic tools found" };
    list.show(cx, &args.page, table).await?;
    Ok(Exit::Ok)
}

fn table(tools: &[Value]) -> Table {
    // The mode and the status are short, so they are never truncated, like the name.
    let mut table = Table::new(["NAME", "MODE", "STATUS", "TOOLS", "DESCRIPTION"]).with_ids(3);
    for tool in tools {
        table.row([
            &text(tool, "slug"),
            &text(tool, "executionMode"),
            &text(tool, "status"),
            &show::allocated_tools(tool).len().to_string(),
            &text(tool, "description"),
        ]);
    }
    table
}
