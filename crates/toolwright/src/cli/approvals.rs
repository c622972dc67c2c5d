//! Implements `toolwright approvals`.

use toolwright_api::wire::ApprovalView;

use super::Context;
use super::client::APPROVALS;
use super::exit::Exit;
use super::failure::Failure;
use super::follow;
use super::pages::{List, PageArgs};
use super::table::Table;
use super::time::format_minute;

/// Subcommands of `approvals`. Approvals are decided by `runs approve`, `deny` and `edit`.
#[derive(clap::Subcommand)]
pub(crate) enum ApprovalsCommand {
    /// List calls that wait for approval, oldest first
    List(ListArgs),
}

/// Arguments of `approvals list`.
#[derive(clap::Args)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    page: PageArgs,
    /// Filter by run
    #[arg(long, value_name = "ID")]
    run: Option<String>,
}

/// Runs an `approvals` subcommand.
pub(super) async fn run(cx: &Context, command: ApprovalsCommand) -> Result<Exit, Failure> {
    let ApprovalsCommand::List(args) = command;
    let query = args.run.into_iter().map(|run| ("runId", run)).collect();
    let list = List { collection: APPROVALS, query, empty_message: "no pending approvals" };
    list.show(cx, &args.page, table).await?;
    Ok(Exit::Ok)
}

fn table(approvals: &[ApprovalView]) -> Table {
    let mut table = Table::new(["RUN", "CALL", "TOOL", "INPUT", "AGENT", "REQUESTED", "EXPIRES"]).with_ids(2);
    for approval in approvals {
        let expires = approval.expires_at.map(format_minute).unwrap_or_default();
        table.row([
            &approval.run_id,
            &approval.call_id,
            &approval.tool_ref,
            &follow::format_input(&approval.input),
            &approval.agent_ref,
            &format_minute(approval.requested_at),
            &expires,
        ]);
    }
    table
}
