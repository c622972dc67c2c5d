//! Implements `agents list`.

use serde_json::Value;

use crate::cli::Context;
use crate::cli::client::AGENTS;
use crate::cli::exit::Exit;
use crate::cli::failure::Failure;
use crate::cli::fields::text;
use crate::cli::pages::{List, PageArgs};
use crate::cli::table::Table;

use super::show::model;

/// Arguments of `agents list`.
#[derive(clap::Args)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    page: PageArgs,
}

/// Lists agents.
pub(super) async fn run(cx: &Context, args: ListArgs) -> Result<Exit, Failure> {
    let list = List { collection: AGENTS, query: Vec::new(), empty_message: "no agents found" };
    list.show(cx, &args.page, table).await?;
    Ok(Exit::Ok)
}

fn table(items: &[Value]) -> Table {
    let mut table = Table::new(["NAME", "MODEL", "STATUS", "DESCRIPTION"]);
    for agent in items {
        let enabled = agent.get("enabled") != Some(&Value::Bool(false));
        // For an enabled agent, the table shows the life cycle status, or `enabled` if the status is `active`.
        let status = match text(agent, "status") {
            _ if !enabled => "disabled".to_owned(),
            status if status.is_empty() || status == "active" => "enabled".to_owned(),
            status => status,
        };
        table.row([&text(agent, "refName"), &model(agent), &status, &text(agent, "description")]);
    }
    table
}
