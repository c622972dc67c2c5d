//! `agents chat`: a conversation, line by line.

use std::io::IsTerminal;
use std::path::PathBuf;

use serde_json::Value;

use crate::cli::Context;
use crate::cli::client::{AGENTS, parse_name, path};
use crate::cli::conversations;
use crate::cli::exit::Exit;
use crate::cli::failure::Failure;
use crate::cli::keyboard::{Keyboard, Typed, state_file};
use crate::cli::live::{self, Approvals, Feed, Followed, Manner, Report, Role};
use crate::cli::output::plain;

use super::context::ContextArgs;
use super::run::address;
use super::tools;

const COMMANDS: [(&str, &str); 7] = [
    ("/help", "show this"),
    ("/new", "begin a new conversation"),
    ("/history", "show what was said"),
    ("/tools", "show the tools of the agent"),
    ("/cost", "show what the conversation took since you are here"),
    ("/resume", "go on with a run that waits"),
    ("/quit", "leave, as Ctrl-D does"),
];
const NAMES: [&str; 7] = ["/help", "/new", "/history", "/tools", "/cost", "/resume", "/quit"];

/// Which agent, and where to go on.
#[derive(clap::Args)]
pub struct ChatArgs {
    /// Its refName or id
    #[arg(value_name = "REF", value_parser = parse_name)]
    reference: String,
    /// The conversation to go on with; a new one when absent
    #[arg(long, value_name = "ID")]
    conversation: Option<String>,
    #[command(flatten)]
    context: ContextArgs,
}

/// A conversation under way.
struct Chat<'a> {
    cx: &'a Context,
    keyboard: Keyboard,
    agent: String,
    context: Value,
    conversation: Option<String>,
    waiting: Option<String>,
    spent: Spent,
}

#[derive(Default)]
struct Spent {
    runs: u64,
    tokens: u64,
    cost_usd: f64,
}

enum Next {
    Go,
    Quit,
}

/// Talks to an agent until the person leaves.
pub async fn run(cx: &Context, args: ChatArgs) -> Result<Exit, Failure> {
    if cx.output.json {
        return Err(Failure::Usage("a chat is for people; for programs there is `agents run --json`".into()));
    }
    // A name that does not exist is better told before the first question.
    cx.client.get(&path(AGENTS, &args.reference), &[]).await?;
    let mut chat = Chat {
        cx,
        keyboard: Keyboard::new(&NAMES, history())?,
        agent: args.reference,
        context: args.context.read()?,
        conversation: args.conversation,
        waiting: None,
        spent: Spent::default(),
    };
    chat.greet();
    while let Some(line) = chat.read().await {
        match chat.take(line.trim()).await {
            Ok(Next::Go) => {}
            Ok(Next::Quit) => break,
            // What the server refuses, or a line that is lost, must not end the conversation.
            Err(failure @ (Failure::Refused(_) | Failure::Unreachable { .. } | Failure::Usage(_))) => {
                failure.tell(&cx.output);
            }
            Err(other) => return Err(other),
        }
    }
    chat.farewell();
    Ok(Exit::Ok)
}

/// Where a person's lines are remembered; those of a script are not.
fn history() -> Option<PathBuf> {
    if std::io::stdin().is_terminal() { state_file("chat-history") } else { None }
}

impl Chat<'_> {
    fn greet(&self) {
        if self.cx.output.width.is_some() {
            let hint = format!("{}  /help shows commands, Alt-Enter begins a new line", plain(&self.agent));
            self.cx.output.note(self.cx.output.err.dim(hint));
        }
    }

    fn farewell(&self) {
        if let (Some(id), true) = (&self.conversation, self.spent.runs > 0) {
            let agent = plain(&self.agent);
            let hint = format!("go on later with `toolwright agents chat {agent} --conversation {id}`");
            self.cx.output.note(self.cx.output.err.dim(hint));
        }
    }

    /// The next line that says something; none at the end.
    async fn read(&self) -> Option<String> {
        loop {
            let prompt = self.cx.output.out.good("› ");
            match self.keyboard.line(&prompt, "").await {
                Typed::Line(line) if line.trim().is_empty() => {}
                Typed::Line(line) => return Some(line),
                Typed::Interrupted => self.cx.output.note(self.cx.output.err.dim("Ctrl-D or /quit leaves")),
                Typed::Closed => return None,
            }
        }
    }

    async fn take(&mut self, line: &str) -> Result<Next, Failure> {
        self.keyboard.remember(line);
        match line {
            "/quit" => return Ok(Next::Quit),
            "/help" => self.help()?,
            "/new" => self.begin_anew(),
            "/history" => self.history().await?,
            "/tools" => tools::show(self.cx, &self.agent, None).await?,
            "/cost" => self.cost()?,
            "/resume" => self.resume().await?,
            unknown if unknown.starts_with('/') && !unknown.contains(char::is_whitespace) => {
                self.cx.output.note(format!("there is no {unknown}; /help shows what there is"));
            }
            message => self.say(message).await?,
        }
        Ok(Next::Go)
    }

    async fn say(&mut self, message: &str) -> Result<(), Failure> {
        let body = live::request(message, self.conversation.as_deref(), self.context.clone());
        let feed = live::start(&self.cx.client, &address(&self.agent), &body).await?;
        self.follow(feed).await
    }

    async fn resume(&mut self) -> Result<(), Failure> {
        let Some(run) = self.waiting.take() else {
            self.cx.output.note("no run waits");
            return Ok(());
        };
        let feed = live::watch(&self.cx.client, &run).await?;
        self.follow(feed).await
    }

    async fn follow(&mut self, feed: Feed) -> Result<(), Failure> {
        let manner = Manner { approvals: Approvals::Ask(&self.keyboard), role: Role::Owner };
        let Followed { report, .. } = live::follow(self.cx, feed, &manner).await?;
        self.conversation.clone_from(&report.conversation_id);
        self.waiting = report.waits().then(|| report.run_id.clone());
        self.spent.add(&report);
        self.show_end(&report)
    }

    /// An answer speaks for itself; everything else is told.
    fn show_end(&self, report: &Report) -> Result<(), Failure> {
        let out = &self.cx.output;
        if live::exit(report) == Exit::Ok && report.reason.is_none() {
            return Ok(out.line(out.out.dim(format!("{}\n", live::spent(report))))?);
        }
        out.lines(live::ending(out, report))?;
        if self.waiting.is_some() {
            out.note(out.err.dim("/resume goes on with it"));
        }
        Ok(())
    }

    fn help(&self) -> Result<(), Failure> {
        let out = &self.cx.output;
        let line = |(name, does): (&str, &str)| format!("{}  {does}", out.out.good(format!("{name:<9}")));
        out.lines(COMMANDS.into_iter().map(line))?;
        Ok(out.line("Alt-Enter begins a new line, a paste keeps its lines, Ctrl-C cancels the run under way.")?)
    }

    fn begin_anew(&mut self) {
        self.conversation = None;
        self.waiting = None;
        self.cx.output.note(self.cx.output.err.dim("a new conversation"));
    }

    async fn history(&self) -> Result<(), Failure> {
        match &self.conversation {
            Some(id) => conversations::show(self.cx, id).await.map(|_| ()),
            None => {
                self.cx.output.note("nothing was said yet");
                Ok(())
            }
        }
    }

    fn cost(&self) -> Result<(), Failure> {
        let Spent { runs, tokens, cost_usd } = self.spent;
        let (runs, tokens) = (live::counted(runs, "run"), live::counted(tokens, "token"));
        let cost = if cost_usd > 0.0 { live::dollars(cost_usd) } else { "no known price".into() };
        Ok(self.cx.output.line(format!("{runs} · {tokens} · {cost}"))?)
    }
}

impl Spent {
    fn add(&mut self, report: &Report) {
        self.runs += 1;
        self.tokens = self.tokens.saturating_add(report.usage.total());
        self.cost_usd += report.cost_usd;
    }
}
