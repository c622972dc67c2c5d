//! `agents run`: starts a run and follows it.

use std::io::IsTerminal;

use serde_json::Value;
use toolwright_api::wire::AcceptedView;

use crate::cli::Context;
use crate::cli::client::{AGENTS, ApiResponse, parse_name, path};
use crate::cli::exit::Exit;
use crate::cli::failure::Failure;
use crate::cli::follow::{self, ApprovalMode, FollowOptions, FollowRole};
use crate::cli::input::read_stdin;
use crate::cli::output::sanitize_line;
use crate::cli::prompt::Prompter;

use super::context::ContextArgs;

/// Arguments of `agents run`.
#[derive(clap::Args)]
#[command(after_long_help = crate::cli::exit::HELP)]
pub(crate) struct RunArgs {
    /// refName or ID of the agent
    #[arg(value_name = "REF", value_parser = parse_name)]
    reference: String,
    /// User message, or `-` to read standard input
    message: String,
    /// Conversation to continue [default: a new one]
    #[arg(long, value_name = "ID")]
    conversation: Option<String>,
    #[command(flatten)]
    context: ContextArgs,
    /// Approve every call that requires approval
    #[arg(long)]
    yes: bool,
    /// Start a durable run, which continues after a crash of the server
    #[arg(long)]
    durable: bool,
    /// Start a durable run, print its ID and do not wait for it
    #[arg(long, conflicts_with = "yes")]
    detach: bool,
}

/// Runs an agent.
pub(super) async fn run(cx: &Context, args: RunArgs) -> Result<Exit, Failure> {
    let message = if args.message == "-" { read_stdin()? } else { args.message };
    let body = follow::execute_body(&message, args.conversation.as_deref(), args.context.read()?);
    if args.detach {
        let response = start_durable(cx, &args.reference, &body).await?;
        match cx.output.json {
            true => cx.output.document(response.text.trim_end())?,
            false => cx.output.line(sanitize_line(&response.read::<AcceptedView>()?.run_id))?,
        }
        return Ok(Exit::Ok);
    }
    let prompter = Prompter::new(&[], None)?;
    let approvals = match args.yes {
        true => ApprovalMode::ApproveAll,
        false => approval_mode(cx, &prompter),
    };
    let feed = if args.durable {
        let started: AcceptedView = start_durable(cx, &args.reference, &body).await?.read()?;
        follow::watch_run(&cx.client, &started.run_id).await?
    } else {
        follow::start_run(&cx.client, &execute_path(&args.reference), &body).await?
    };
    follow::follow(cx, feed, &FollowOptions { approvals, role: FollowRole::Owner }).await?.show(cx)
}

async fn start_durable(cx: &Context, agent: &str, body: &Value) -> Result<ApiResponse, Failure> {
    cx.client.post(&format!("{}/execute/durable", path(AGENTS, agent)), body).await
}

/// The path for running an agent with an event stream.
pub(super) fn execute_path(agent: &str) -> String {
    format!("{}/execute/stream", path(AGENTS, agent))
}

/// Asks for decisions only if stdin and stdout are terminals. Piped input is not read as decisions, because it may be
/// meant for something else.
pub(crate) fn approval_mode<'a>(cx: &Context, prompter: &'a Prompter) -> ApprovalMode<'a> {
    let person = std::io::stdin().is_terminal() && cx.output.width.is_some() && !cx.output.json;
    if person { ApprovalMode::Prompt(prompter) } else { ApprovalMode::Skip }
}
