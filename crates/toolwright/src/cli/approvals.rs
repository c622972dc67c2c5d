//! `toolwright approvals …`: what waits for a person.

use serde::Deserialize;
use serde_json::Value;

use super::Context;
use super::client::APPROVALS;
use super::exit::Exit;
use super::failure::Failure;
use super::live::{self, Approval};
use super::pages::{List, PageArgs};
use super::table::Table;
use super::time::minute;

/// What can be done with approvals; they are decided by `runs approve`, `deny` and `edit`.
#[derive(clap::Subcommand)]
pub enum ApprovalsCommand {
    /// List the calls that wait for a decision, those that wait longest first
    List(ListArgs),
}

/// Which.
#[derive(clap::Args)]
pub struct ListArgs {
    #[command(flatten)]
    page: PageArgs,
    /// Only those of this run
    #[arg(long, value_name = "ID")]
    run: Option<String>,
}

/// Runs one of them.
pub async fn run(cx: &Context, command: ApprovalsCommand) -> Result<Exit, Failure> {
    let ApprovalsCommand::List(args) = command;
    let query = args.run.into_iter().map(|run| ("runId", run)).collect();
    let list = List { collection: APPROVALS, query, empty: "nothing waits for a decision" };
    list.show(cx, &args.page, table).await?;
    Ok(Exit::Ok)
}

fn table(items: &[Value]) -> Table {
    let mut table = Table::new(["RUN", "CALL", "AGENT", "TOOL", "SINCE", "UNTIL", "INPUT"]);
    for approval in items.iter().filter_map(|item| Approval::deserialize(item).ok()) {
        let until = approval.expires_at.map(minute).unwrap_or_default();
        table.row([
            &approval.run_id,
            &approval.call_id,
            &approval.agent_ref,
            &approval.tool_ref,
            &minute(approval.asked_at),
            &until,
            &live::brief(&approval.input),
        ]);
    }
    table
}
