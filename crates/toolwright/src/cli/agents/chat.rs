//! Implements `agents chat`, an interactive conversation with an agent.

use std::io::IsTerminal;
use std::path::PathBuf;

use serde_json::Value;
use toolwright_api::wire::{AgentResponseView, RunView};

use crate::cli::Context;
use crate::cli::client::{AGENTS, parse_name, path};
use crate::cli::conversations;
use crate::cli::exit::Exit;
use crate::cli::failure::Failure;
use crate::cli::follow::{self, ApprovalMode, EventFeed, FollowOptions, FollowResult, FollowRole};
use crate::cli::output::sanitize_line;
use crate::cli::prompt::{LineInput, Prompter, state_file};

use super::context::ContextArgs;
use super::run::execute_path;
use super::tools;

const COMMANDS: [(&str, &str); 7] = [
    ("/help", "show this help"),
    ("/new", "start a new conversation"),
    ("/history", "show the conversation so far"),
    ("/tools", "list the agent's tools"),
    ("/cost", "show runs, tokens and cost of this session"),
    ("/resume", "follow the waiting run again"),
    ("/quit", "exit (or press Ctrl-D)"),
];
const COMMAND_NAMES: [&str; 7] = ["/help", "/new", "/history", "/tools", "/cost", "/resume", "/quit"];

/// Arguments of `agents chat`.
#[derive(clap::Args)]
pub(crate) struct ChatArgs {
    /// refName or ID of the agent
    #[arg(value_name = "REF", value_parser = parse_name)]
    reference: String,
    /// Conversation to continue [default: a new one]
    #[arg(long, value_name = "ID")]
    conversation: Option<String>,
    #[command(flatten)]
    context: ContextArgs,
}

/// The state of a chat.
struct Chat<'a> {
    cx: &'a Context,
    prompter: Prompter,
    agent: String,
    context: Value,
    conversation: Option<String>,
    waiting_run: Option<String>,
    usage: ChatUsage,
}

#[derive(Default)]
struct ChatUsage {
    runs: u64,
    tokens: u64,
    cost_usd: f64,
}

enum Flow {
    Continue,
    Quit,
}

/// Chats with an agent until the user quits.
pub(super) async fn run(cx: &Context, args: ChatArgs) -> Result<Exit, Failure> {
    if cx.output.json {
        return Err(Failure::Usage("`agents chat` does not support --json; use `agents run --json`".into()));
    }
    // Report an unknown agent before the first message.
    cx.client.get(&path(AGENTS, &args.reference), &[]).await?;
    let mut chat = Chat {
        cx,
        prompter: Prompter::new(&COMMAND_NAMES, show_history())?,
        agent: args.reference,
        context: args.context.read()?,
        conversation: args.conversation,
        waiting_run: None,
        usage: ChatUsage::default(),
    };
    chat.print_greeting();
    while let Some(line) = chat.read().await {
        match chat.handle_line(line.trim()).await {
            Ok(Flow::Continue) => {}
            Ok(Flow::Quit) => break,
            // Rejected requests and lost connections must not end the chat.
            Err(failure @ (Failure::Refused(_) | Failure::Unreachable { .. } | Failure::Usage(_))) => {
                failure.print(&cx.output);
            }
            Err(other) => return Err(other),
        }
    }
    chat.print_farewell();
    Ok(Exit::Ok)
}

/// Returns the history file, if stdin is a terminal.
fn show_history() -> Option<PathBuf> {
    if std::io::stdin().is_terminal() { state_file("chat-history") } else { None }
}

impl Chat<'_> {
    fn print_greeting(&self) {
        if self.cx.output.width.is_some() {
            let hint = format!("{}  type /help for commands, Alt-Enter for a new line", sanitize_line(&self.agent));
            self.cx.output.note(self.cx.output.err.dim(hint));
        }
    }

    fn print_farewell(&self) {
        if let (Some(id), true) = (&self.conversation, self.usage.runs > 0) {
            let agent = sanitize_line(&self.agent);
            let hint = format!("continue with `toolwright agents chat {agent} --conversation {id}`");
            self.cx.output.note(self.cx.output.err.dim(hint));
        }
    }

    /// Reads the next non-empty line; `None` at the end of input.
    async fn read(&self) -> Option<String> {
        loop {
            let prompt = self.cx.output.out.good("› ");
            match self.prompter.read_line(&prompt, "").await {
                LineInput::Line(line) if line.trim().is_empty() => {}
                LineInput::Line(line) => return Some(line),
                LineInput::Interrupted => {
                    self.cx.output.note(self.cx.output.err.dim("press Ctrl-D or type /quit to exit"))
                }
                LineInput::Eof => return None,
            }
        }
    }

    async fn handle_line(&mut self, line: &str) -> Result<Flow, Failure> {
        self.prompter.add_history(line);
        match line {
            "/quit" => return Ok(Flow::Quit),
            "/help" => self.show_help()?,
            "/new" => self.start_new_conversation(),
            "/history" => self.show_history().await?,
            "/tools" => tools::show(self.cx, &self.agent, None).await?,
            "/cost" => self.show_cost()?,
            "/resume" => self.resume().await?,
            unknown if unknown.starts_with('/') && !unknown.contains(char::is_whitespace) => {
                self.cx.output.note(format!("unknown command {unknown}; type /help for a list"));
            }
            message => self.send_message(message).await?,
        }
        Ok(Flow::Continue)
    }

    async fn send_message(&mut self, message: &str) -> Result<(), Failure> {
        let body = follow::execute_body(message, self.conversation.as_deref(), self.context.clone());
        let feed = follow::start_run(&self.cx.client, &execute_path(&self.agent), &body).await?;
        self.follow(feed).await
    }

    async fn resume(&mut self) -> Result<(), Failure> {
        let Some(run) = self.waiting_run.take() else {
            self.cx.output.note("no run is waiting");
            return Ok(());
        };
        let feed = follow::watch_run(&self.cx.client, &run).await?;
        self.follow(feed).await
    }

    async fn follow(&mut self, feed: EventFeed) -> Result<(), Failure> {
        let options = FollowOptions { approvals: ApprovalMode::Prompt(&self.prompter), role: FollowRole::Owner };
        let FollowResult { run, .. } = follow::follow(self.cx, feed, &options).await?;
        self.conversation.clone_from(&run.state.conversation_id);
        self.waiting_run = follow::is_waiting(&run.state).then(|| run.state.run_id.clone());
        self.usage.add(&run.state);
        self.show_outcome(&run)
    }

    /// Prints only the usage if the run completed normally. Prints the whole summary for any other outcome.
    fn show_outcome(&self, run: &RunView) -> Result<(), Failure> {
        let (out, RunView { origin, state, .. }) = (&self.cx.output, run);
        if follow::exit_code(state) == Exit::Ok && state.response.reason.is_none() {
            return Ok(out.line(out.out.dim(format!("{}\n", follow::usage_summary(state, Some(origin)))))?);
        }
        out.lines(follow::summary_lines(out, state, Some(origin)))?;
        if self.waiting_run.is_some() {
            out.note(out.err.dim("type /resume to follow it again"));
        }
        Ok(())
    }

    fn show_help(&self) -> Result<(), Failure> {
        let out = &self.cx.output;
        let line = |(name, description): (&str, &str)| format!("{}  {description}", out.out.good(format!("{name:<9}")));
        out.lines(COMMANDS.into_iter().map(line))?;
        Ok(out
            .line("Alt-Enter starts a new line, pasted text keeps its line breaks, Ctrl-C cancels the current run.")?)
    }

    fn start_new_conversation(&mut self) {
        self.conversation = None;
        self.waiting_run = None;
        self.cx.output.note(self.cx.output.err.dim("started a new conversation"));
    }

    async fn show_history(&self) -> Result<(), Failure> {
        match &self.conversation {
            Some(id) => conversations::show(self.cx, id).await.map(|_| ()),
            None => {
                self.cx.output.note("the conversation is empty");
                Ok(())
            }
        }
    }

    fn show_cost(&self) -> Result<(), Failure> {
        let ChatUsage { runs, tokens, cost_usd } = self.usage;
        let (runs, tokens) = (follow::pluralize(runs, "run"), follow::pluralize(tokens, "token"));
        let show_cost = if cost_usd > 0.0 { follow::format_usd(cost_usd) } else { "price unknown".into() };
        Ok(self.cx.output.line(format!("{runs} · {tokens} · {show_cost}"))?)
    }
}

impl ChatUsage {
    fn add(&mut self, run: &AgentResponseView) {
        self.runs += 1;
        self.tokens = self.tokens.saturating_add(run.usage.total());
        self.cost_usd += run.cost_usd;
    }
}
