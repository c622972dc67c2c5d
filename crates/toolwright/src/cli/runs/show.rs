//! `runs show`: what a run did, what it took and what it answered.

use toolwright_engine::gram_response;
use toolwright_gram::{Pattern, print};

use super::Which;
use crate::cli::Context;
use crate::cli::exit::Exit;
use crate::cli::facts;
use crate::cli::failure::Failure;
use crate::cli::live::{self, Approval, Report};
use crate::cli::output::{plain, printable};
use crate::cli::time::minute;

/// Which run, and in which language.
#[derive(clap::Args)]
pub struct ShowArgs {
    #[command(flatten)]
    which: Which,
    /// What it answered and which tools it called, in gram notation
    #[arg(long)]
    gram: bool,
}

/// Shows a run.
pub async fn run(cx: &Context, args: ShowArgs) -> Result<Exit, Failure> {
    let answer = live::report_of(cx, &args.which.run).await?;
    if args.gram {
        let response = gram_response(&answer.read()?);
        cx.output.part(&print(&Pattern::from(&response)))?;
    } else if cx.output.json {
        cx.output.line(answer.text.trim_end())?;
    } else {
        show(cx, &answer.read()?)?;
    }
    Ok(Exit::Ok)
}

fn show(cx: &Context, report: &Report) -> Result<(), Failure> {
    let out = &cx.output;
    let began = report.started_at.map(minute).unwrap_or_default();
    let conversation = report.conversation_id.as_deref().map(plain).unwrap_or_default();
    facts::show(out, &[("agent", plain(&report.subject)), ("conversation", conversation), ("began", began)])?;
    let calls: Vec<String> = report.calls().flat_map(|call| live::call_lines(&call, out.out, out.width)).collect();
    if !calls.is_empty() {
        out.line("")?;
        out.lines(calls)?;
    }
    out.lines(report.approvals.iter().map(|approval| waiting(cx, approval)))?;
    out.lines(report.client_actions.iter().map(|action| {
        out.out.warn(format!("! {}  {}  waits for its client", plain(&action.tool_ref), plain(&action.call_id)))
    }))?;
    if !report.response_text.is_empty() {
        out.line(format!("\n{}", printable(&report.response_text).trim_end()))?;
    }
    out.line("")?;
    Ok(out.lines(live::ending(out, report))?)
}

fn waiting(cx: &Context, approval: &Approval) -> String {
    let head = format!("? {}  {}  needs a decision", plain(&approval.tool_ref), plain(&approval.call_id));
    format!("{}  {}", cx.output.out.warn(head), cx.output.out.dim(live::brief(&approval.input)))
}
