//! Implements `agentic-tools invoke` and `rerun`. If a call waits for an approval, a terminal asks for the decision.

use std::path::PathBuf;

use serde_json::{Map, Value, json};
use toolwright_api::wire::{ApprovalView, ExecutionView, InvocationView};

use crate::cli::Context;
use crate::cli::agents::approval_mode;
use crate::cli::client::{AGENTIC_TOOLS, ApiResponse, parse_name};
use crate::cli::definitions::read_documents;
use crate::cli::exit::Exit;
use crate::cli::failure::Failure;
use crate::cli::follow::{self, ApprovalMode, FollowOptions, FollowRole};
use crate::cli::input::parse_json_argument;
use crate::cli::output::sanitize_line;
use crate::cli::prompt::Prompter;

use super::execution_path;
use super::input::{TaskArgs, without_version};
use super::outcome::Outcome;

/// Arguments of `agentic-tools invoke`.
#[derive(clap::Args)]
#[command(after_long_help = crate::cli::exit::HELP)]
pub(crate) struct InvokeArgs {
    /// refName or ID of the agentic tool, optionally with a version: name@1.2.0
    #[arg(value_name = "REF", value_parser = parse_name)]
    reference: String,
    #[command(flatten)]
    task: TaskArgs,
    #[command(flatten)]
    detail: DetailArgs,
}

/// Arguments of `agentic-tools rerun`.
#[derive(clap::Args)]
#[command(after_long_help = crate::cli::exit::HELP)]
pub(crate) struct RerunArgs {
    /// refName or ID of the agentic tool
    #[arg(value_name = "REF", value_parser = parse_name)]
    reference: String,
    /// Execution ID, such as run_…
    #[arg(value_name = "EXECUTION", value_parser = parse_name)]
    execution: String,
    /// File with a changed plan as JSON or YAML, or `-` for standard input [default: the plan of the execution]
    #[arg(long, value_name = "FILE")]
    plan: Option<PathBuf>,
    /// Another input as JSON, or `@FILE` to read a file [default: the input of the execution]
    #[arg(long, value_name = "JSON")]
    input: Option<String>,
    #[command(flatten)]
    detail: DetailArgs,
}

/// How much of an execution is printed.
#[derive(clap::Args)]
struct DetailArgs {
    /// Print the calls to the model and to tools first
    #[arg(short, long)]
    verbose: bool,
}

/// Calls an agentic tool.
pub(super) async fn run(cx: &Context, args: InvokeArgs) -> Result<Exit, Failure> {
    let params = args.task.params(cx, &args.reference).await?;
    let body = json!({ "tool": args.reference, "params": params });
    let response = cx.client.call(&format!("{AGENTIC_TOOLS}/invoke"), &body).await;
    let response = response.map_err(|failure| with_requested_tool(failure, &args.reference))?;
    show(cx, &response, args.detail.verbose).await
}

/// Executes the plan of an execution again.
pub(super) async fn rerun(cx: &Context, args: &RerunArgs) -> Result<Exit, Failure> {
    let mut body = Map::new();
    if let Some(file) = &args.plan {
        let mut documents = read_documents(std::slice::from_ref(file))?;
        let plan = documents.pop().filter(|_| documents.is_empty());
        let plan = plan.ok_or_else(|| Failure::Usage(format!("`{}` must contain one plan", file.display())))?;
        body.insert("executionPlan".into(), plan.body);
    }
    if let Some(input) = &args.input {
        body.insert("params".into(), parse_json_argument("--input", input)?);
    }
    let address = format!("{}/rerun", execution_path(&args.reference, &args.execution));
    let response = cx.client.call(&address, &Value::Object(body)).await?;
    show(cx, &response, args.detail.verbose).await
}

/// Adds the name of the agentic tool to an error, so that similar names can be suggested. The path of the request does
/// not contain the name.
fn with_requested_tool(mut failure: Failure, tool: &str) -> Failure {
    if let Failure::Refused(refusal) = &mut failure {
        refusal.requested = Some((AGENTIC_TOOLS, without_version(tool).to_owned()));
    }
    failure
}

async fn show(cx: &Context, response: &ApiResponse, verbose: bool) -> Result<Exit, Failure> {
    let invocation: InvocationView = response.read()?;
    if cx.output.json {
        cx.output.document(response.text.trim_end())?;
        return Ok(Outcome::from(invocation).exit());
    }
    if response.status == 202 {
        let prompter = Prompter::new(&[], None)?;
        let approvals = approval_mode(cx, &prompter);
        if matches!(approvals, ApprovalMode::Prompt(_)) {
            return decide(cx, &invocation, approvals).await?.show(cx, verbose);
        }
        show_waiting(cx, &invocation)?;
    }
    Outcome::from(invocation).show(cx, verbose)
}

/// Asks for decisions at the terminal until the execution ends or the decision is left to others.
async fn decide(cx: &Context, waiting: &InvocationView, approvals: ApprovalMode<'_>) -> Result<Outcome, Failure> {
    let address = execution_path(&waiting.meta.agentic_tool, &waiting.meta.execution_id);
    let execution: ExecutionView = cx.client.get(&address, &[]).await?.read()?;
    // If a direct call started the execution, the direct call is its parent run. The parent ends later and has the
    // complete result.
    let run = execution.summary.parent_run_id.as_ref().unwrap_or(&execution.summary.id);
    let feed = follow::watch_run(&cx.client, run).await?;
    let followed = follow::follow(cx, feed, &FollowOptions { approvals, role: FollowRole::Owner }).await?;
    cx.output.line("")?;
    let execution: ExecutionView = cx.client.get(&address, &[]).await?.read()?;
    Ok(Outcome::of_execution(execution, &followed.run))
}

/// Prints the calls that wait, with the commands that decide them.
fn show_waiting(cx: &Context, waiting: &InvocationView) -> Result<(), Failure> {
    let out = &cx.output;
    let decide = |approval: &ApprovalView| {
        let (run, call) = (sanitize_line(&approval.run_id), sanitize_line(&approval.call_id));
        format!("  then: toolwright runs approve {run} {call} (or `deny`, `edit`)")
    };
    for approval in &waiting.approvals {
        out.lines(follow::approval_lines(approval, out.out))?;
        out.line(decide(approval))?;
    }
    for action in &waiting.client_actions {
        out.lines(follow::client_action_lines(&waiting.meta.execution_id, action, out.out))?;
    }
    Ok(())
}
