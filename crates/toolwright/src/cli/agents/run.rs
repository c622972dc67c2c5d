//! `agents run`: starts an agent and follows it.

use std::io::IsTerminal;

use crate::cli::Context;
use crate::cli::client::{AGENTS, parse_name, path};
use crate::cli::exit::Exit;
use crate::cli::failure::Failure;
use crate::cli::input::read_stdin;
use crate::cli::keyboard::Keyboard;
use crate::cli::live::{self, Approvals, Manner, Role};

use super::context::ContextArgs;

/// Which agent, and what it is told.
#[derive(clap::Args)]
#[command(after_long_help = crate::cli::exit::HELP)]
pub struct RunArgs {
    /// Its refName or id
    #[arg(value_name = "REF", value_parser = parse_name)]
    reference: String,
    /// What the user says, or `-` for standard input
    message: String,
    /// The conversation to go on with; a new one when absent
    #[arg(long, value_name = "ID")]
    conversation: Option<String>,
    #[command(flatten)]
    context: ContextArgs,
    /// Approve every call that needs a decision
    #[arg(long)]
    yes: bool,
}

/// Runs an agent.
pub async fn run(cx: &Context, args: RunArgs) -> Result<Exit, Failure> {
    let message = if args.message == "-" { read_stdin()? } else { args.message };
    let body = live::request(&message, args.conversation.as_deref(), args.context.read()?);
    let keyboard = Keyboard::new(&[], None)?;
    let approvals = match args.yes {
        true => Approvals::Grant,
        false => by_whom(cx, &keyboard),
    };
    let feed = live::start(&cx.client, &address(&args.reference), &body).await?;
    live::follow(cx, feed, &Manner { approvals, role: Role::Owner }).await?.show(cx)
}

/// Where an agent is run as a stream.
pub fn address(agent: &str) -> String {
    format!("{}/execute/stream", path(AGENTS, agent))
}

/// Decisions are asked for where a person sees the question and can answer it. A pipe is not asked: it may hold the lines
/// of a script that are meant for something else.
pub fn by_whom<'a>(cx: &Context, keyboard: &'a Keyboard) -> Approvals<'a> {
    let person = std::io::stdin().is_terminal() && cx.output.width.is_some() && !cx.output.json;
    if person { Approvals::Ask(keyboard) } else { Approvals::Leave }
}
