//! Implements `toolwright approvals`.

use toolwright_api::wire::{ApprovalView, PageView};

use super::Context;
use super::client::{APPROVALS, parse_name};
use super::exit::Exit;
use super::failure::{Failure, Refusal};
use super::fields;
use super::follow;
use super::output::sanitize_line;
use super::pages::{List, PageArgs};
use super::table::Table;
use super::time::format_minute;

/// Subcommands of `approvals`. Approvals are decided by `runs approve`, `deny` and `edit`.
#[derive(clap::Subcommand)]
pub(crate) enum ApprovalsCommand {
    /// List calls that wait for approval, oldest first, or decided ones, newest first
    List(ListArgs),
    /// Show a call that waits for approval, with the last approved call of the same agent and tool, or a decided one
    #[command(visible_alias = "show")]
    Get(ShowArgs),
}

/// Arguments of `approvals list`.
#[derive(clap::Args)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    page: PageArgs,
    /// List decided approvals instead of pending ones
    #[arg(long)]
    decided: bool,
    /// Filter by run
    #[arg(long, value_name = "ID")]
    run: Option<String>,
    /// Filter by tool
    #[arg(long, value_name = "REF")]
    tool: Option<String>,
    /// Filter by agent
    #[arg(long, value_name = "REF")]
    agent: Option<String>,
    /// Filter by the principal that the run acts as
    #[arg(long, value_name = "NAME")]
    principal: Option<String>,
    /// Filter by the principal that decided
    #[arg(long, value_name = "NAME", requires = "decided")]
    decided_by: Option<String>,
    /// Earliest time of the request or decision, such as 2026-01-31T12:00:00Z
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// Time before which the approval was requested or decided
    #[arg(long, value_name = "TIME")]
    before: Option<String>,
}

/// Arguments of `approvals get`.
#[derive(clap::Args)]
pub(crate) struct ShowArgs {
    /// Run ID
    #[arg(value_name = "RUN", value_parser = parse_name)]
    run: String,
    /// Call ID, such as call_…
    #[arg(value_name = "CALL", value_parser = parse_name)]
    call: String,
}

/// Runs an `approvals` subcommand.
pub(super) async fn run(cx: &Context, command: ApprovalsCommand) -> Result<Exit, Failure> {
    match command {
        ApprovalsCommand::List(args) => list(cx, args).await?,
        ApprovalsCommand::Get(args) => show(cx, &args).await?,
    }
    Ok(Exit::Ok)
}

async fn list(cx: &Context, args: ListArgs) -> Result<(), Failure> {
    let query = [
        ("status", args.decided.then(|| "decided".to_owned())),
        ("runId", args.run),
        ("toolRef", args.tool),
        ("agentRef", args.agent),
        ("principal", args.principal),
        ("decidedBy", args.decided_by),
        ("since", args.since),
        ("before", args.before),
    ];
    let query = query.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
    let empty_message = if args.decided { "no decided approvals" } else { "no pending approvals" };
    let list = List { collection: APPROVALS, query, empty_message };
    list.show(cx, &args.page, if args.decided { decided_table } else { pending_table }).await
}

fn pending_table(approvals: &[ApprovalView]) -> Table {
    let mut table =
        Table::new(["RUN", "CALL", "TOOL", "INPUT", "AGENT", "REQUESTED", "EXPIRES", "ROOT RUN"]).with_ids(2);
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
            approval.root_run_id.as_deref().unwrap_or_default(),
        ]);
    }
    table
}

fn decided_table(approvals: &[ApprovalView]) -> Table {
    let header = ["RUN", "CALL", "DECISION", "BY", "DECIDED", "TOOL", "INPUT", "REASON", "AGENT"];
    let mut table = Table::new(header).with_ids(2);
    for approval in approvals {
        let decision = approval.decision.as_ref();
        let input = decision.and_then(|decision| decision.input.as_ref()).unwrap_or(&approval.input);
        table.row([
            &approval.run_id,
            &approval.call_id,
            decision.map(|decision| &*decision.outcome).unwrap_or_default(),
            decision.and_then(|decision| decision.decided_by.as_deref()).unwrap_or_default(),
            &decision.map(|decision| format_minute(decision.decided_at)).unwrap_or_default(),
            &approval.tool_ref,
            &follow::format_input(input),
            decision.and_then(|decision| decision.reason.as_deref()).unwrap_or_default(),
            &approval.agent_ref,
        ]);
    }
    table
}

async fn show(cx: &Context, args: &ShowArgs) -> Result<(), Failure> {
    let mut cursor = None;
    loop {
        let query = [("status", "all"), ("runId", &args.run), ("compare", "true"), ("limit", "100")];
        let mut query: Vec<(&'static str, String)> =
            query.into_iter().map(|(name, value)| (name, value.to_owned())).collect();
        query.extend(cursor.map(|cursor| ("cursor", cursor)));
        let page: PageView<ApprovalView> = cx.client.get(APPROVALS, &query).await?.read()?;
        if let Some(approval) = page.items.iter().find(|approval| approval.call_id == args.call) {
            return print(cx, approval);
        }
        cursor = page.next_cursor;
        if cursor.is_none() {
            let detail = format!("run `{}` has no approval for call `{}`", args.run, args.call);
            return Err(Failure::Refused(Box::new(Refusal::new(404, "not-found", detail))));
        }
    }
}

fn print(cx: &Context, approval: &ApprovalView) -> Result<(), Failure> {
    if cx.output.json {
        let text = serde_json::to_string(approval).unwrap_or_default();
        return Ok(cx.output.document(text)?);
    }
    let line = |text: &str| sanitize_line(text);
    let decision = approval.decision.as_ref();
    let decided = decision.map(|decision| {
        let by = decision.decided_by.as_deref().map(|by| format!(" by {by}")).unwrap_or_default();
        line(&format!("{}{by}, {}", decision.outcome, format_minute(decision.decided_at)))
    });
    let edited = decision.and_then(|decision| decision.input.as_ref());
    let last = approval.last_approved.as_ref().map(|last| {
        let by = last.decided_by.as_deref().unwrap_or_default();
        line(&format!("{}  by {by}, {}", follow::format_input(&last.input), format_minute(last.decided_at)))
    });
    fields::print_labeled(
        &cx.output,
        &[
            ("run", line(&approval.run_id)),
            ("root run", line(approval.root_run_id.as_deref().unwrap_or_default())),
            ("call", line(&approval.call_id)),
            ("agent", line(&approval.agent_ref)),
            ("tool", line(&format!("{}@{}", approval.tool_ref, approval.version))),
            ("input", follow::format_input(&approval.input)),
            ("required by", line(&approval.triggers.join(", "))),
            ("requested", format_minute(approval.requested_at)),
            ("expires", approval.expires_at.filter(|_| decision.is_none()).map(format_minute).unwrap_or_default()),
            ("decision", decided.unwrap_or_default()),
            ("new input", edited.map(follow::format_input).unwrap_or_default()),
            ("reason", decision.and_then(|decision| decision.reason.as_deref()).map(line).unwrap_or_default()),
            ("last approved", last.unwrap_or_default()),
        ],
    )
}
