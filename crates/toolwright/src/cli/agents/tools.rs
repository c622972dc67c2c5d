//! `agents tools`: what an agent can use on behalf of the caller.

use serde_json::Value;

use crate::cli::Context;
use crate::cli::client::{AGENTS, parse_name, path};
use crate::cli::exit::Exit;
use crate::cli::facts::text;
use crate::cli::failure::Failure;
use crate::cli::pages::{List, PageArgs};
use crate::cli::table::Table;

/// Which agent, and for what.
#[derive(clap::Args)]
pub struct ToolsArgs {
    /// Its refName or id
    #[arg(value_name = "REF", value_parser = parse_name)]
    reference: String,
    /// What the user would say: it decides what the model is shown when there are many tools
    #[arg(long, value_name = "TEXT")]
    message: Option<String>,
}

/// Shows the tools of an agent.
pub async fn run(cx: &Context, args: ToolsArgs) -> Result<Exit, Failure> {
    show(cx, &args.reference, args.message).await?;
    Ok(Exit::Ok)
}

/// Prints the tools of an agent.
pub async fn show(cx: &Context, agent: &str, message: Option<String>) -> Result<(), Failure> {
    let collection = format!("{}/tools", path(AGENTS, agent));
    let query = message.into_iter().map(|message| ("message", message)).collect();
    let list = List { collection: &collection, query, empty: "the agent has no tools" };
    list.show(cx, &PageArgs::default(), table).await
}

fn table(items: &[Value]) -> Table {
    let mut table = Table::new(["NAME", "VERSION", "EFFECTS", "APPROVAL", "SHOWN", "DESCRIPTION"]);
    for tool in items {
        let is = |field: &str| tool.get(field) == Some(&Value::Bool(true));
        let version = if is("delegate") { "agent".to_owned() } else { text(tool, "version") };
        let approval = if is("requiresConfirmation") { "yes" } else { "no" };
        let shown = if is("shown") { "at once" } else { "by search" };
        let (name, effects, description) =
            (text(tool, "refName"), text(tool, "sideEffects"), text(tool, "description"));
        table.row([&name, &version, &effects, approval, shown, &description]);
    }
    table
}
