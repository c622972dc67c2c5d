//! Implements `runs get`, which is also called `runs show`. It prints the calls, the usage and the reply of a run.

use toolwright_api::wire::{ApprovalView, RunView};
use toolwright_engine::gram_response;
use toolwright_gram::{Pattern, print};

use super::{RunArg, details};
use crate::cli::Context;
use crate::cli::exit::Exit;
use crate::cli::failure::Failure;
use crate::cli::fields;
use crate::cli::follow;
use crate::cli::output::{sanitize, sanitize_line, wrap};
use crate::cli::time::format_minute;

/// Arguments of `runs get`.
#[derive(clap::Args)]
pub(crate) struct ShowArgs {
    #[command(flatten)]
    target: RunArg,
    /// Print the message of the user, the replies of the model, and the inputs and outputs of all calls, with the
    /// numbers of the journal entries
    #[arg(short, long, conflicts_with = "gram")]
    verbose: bool,
    /// Print the reply and the called tools in gram notation
    #[arg(long)]
    gram: bool,
}

/// Shows a run.
pub(super) async fn run(cx: &Context, args: ShowArgs) -> Result<Exit, Failure> {
    let response = follow::fetch_run(cx, &args.target.run).await?;
    if args.gram {
        let gram = gram_response(&response.read()?);
        cx.output.print(&print(&Pattern::from(&gram)))?;
    } else if cx.output.json {
        cx.output.document(response.text.trim_end())?;
    } else {
        show(cx, &args.target.run, &response.read()?, args.verbose).await?;
    }
    Ok(Exit::Ok)
}

async fn show(cx: &Context, id: &str, run: &RunView, verbose: bool) -> Result<(), Failure> {
    let (out, RunView { origin, state, .. }) = (&cx.output, run);
    let started = format_minute(origin.started_at);
    let conversation = state.conversation_id.as_deref().map(sanitize_line).unwrap_or_default();
    let version = state.agent_version.as_deref().map(|version| format!("@{version}")).unwrap_or_default();
    let subject = sanitize_line(&format!("{}{version}", origin.subject));
    fields::print_labeled(out, &[("agent", subject), ("conversation", conversation), ("started", started)])?;
    let calls: Vec<String> =
        follow::ended_calls(state).flat_map(|call| follow::call_lines(call, out.out, out.width)).collect();
    if verbose {
        out.line("")?;
        details::print(cx, id).await?;
    } else if !calls.is_empty() {
        out.line("")?;
        out.lines(calls)?;
    }
    out.lines(state.waiting_child_runs.iter().map(|child| {
        let (agent, child_run) = (sanitize_line(&child.agent_ref), sanitize_line(&child.run_id));
        out.out.warn(format!("… {agent}  {child_run}  {}", child.status))
    }))?;
    out.lines(state.approvals.iter().map(|approval| waiting(cx, approval, &state.run_id)))?;
    out.lines(state.client_actions.iter().map(|action| {
        out.out.warn(format!(
            "! {}  {}  requires a client action",
            sanitize_line(&action.tool_ref),
            sanitize_line(&action.call_id)
        ))
    }))?;
    let reply = &state.response.response_text;
    if !verbose && !reply.is_empty() {
        out.line(format!("\n{}", wrap(sanitize(reply).trim_end(), out.width, 0)))?;
    }
    out.line("")?;
    Ok(out.lines(follow::summary_lines(out, state, Some(origin)))?)
}

fn waiting(cx: &Context, approval: &ApprovalView, shown_run: &str) -> String {
    let child = if approval.run_id == shown_run { String::new() } else { format!(" in {}", approval.run_id) };
    let (tool, call) = (sanitize_line(&approval.tool_ref), sanitize_line(&approval.call_id));
    let head = format!("? {tool}  {call}  requires approval{}", sanitize_line(&child));
    format!("{}  {}", cx.output.out.warn(head), cx.output.out.dim(follow::format_input(&approval.input)))
}
