//! `toolwright conversations …`.

use serde_json::{Value, json};
use toolwright_gram::{ConversationContext, Message, Pattern, Role, print};

use super::client::{CONVERSATIONS, parse_name, path};
use super::exit::Exit;
use super::facts::{self, moment, text};
use super::failure::Failure;
use super::output::{plain, printable};
use super::pages::{List, PageArgs};
use super::table::{Table, cut};
use super::time::minute;
use super::{Context, remove};

/// What can be done with conversations.
#[derive(clap::Subcommand)]
pub enum ConversationsCommand {
    /// List your conversations, the latest first
    List(ListArgs),
    /// Show what was said
    Show(ShowArgs),
    /// Give a conversation another title
    Rename(RenameArgs),
    /// Delete conversations with everything that was said
    Delete(remove::DeleteArgs),
}

/// Which conversations.
#[derive(clap::Args)]
pub struct ListArgs {
    #[command(flatten)]
    page: PageArgs,
    /// Only those with this agent
    #[arg(long, value_name = "REF")]
    agent: Option<String>,
    /// Everyone's, not only your own
    #[arg(long)]
    everyone: bool,
}

/// Which conversation.
#[derive(clap::Args)]
pub struct Which {
    /// Its id
    #[arg(value_name = "ID", value_parser = parse_name)]
    id: String,
}

/// Which conversation, and in which language.
#[derive(clap::Args)]
pub struct ShowArgs {
    #[command(flatten)]
    which: Which,
    /// In gram notation
    #[arg(long)]
    gram: bool,
}

/// Which conversation, and its title.
#[derive(clap::Args)]
pub struct RenameArgs {
    #[command(flatten)]
    which: Which,
    /// The title
    title: String,
}

/// Runs one of them.
pub async fn run(cx: &Context, command: ConversationsCommand) -> Result<Exit, Failure> {
    match command {
        ConversationsCommand::List(args) => list(cx, args).await,
        ConversationsCommand::Show(args) if args.gram => show_gram(cx, &args.which.id).await,
        ConversationsCommand::Show(args) => show(cx, &args.which.id).await,
        ConversationsCommand::Rename(args) => rename(cx, args).await,
        ConversationsCommand::Delete(args) => remove::run(cx, CONVERSATIONS, args).await,
    }
}

async fn list(cx: &Context, args: ListArgs) -> Result<Exit, Failure> {
    let mut query = Vec::new();
    query.extend(args.agent.map(|agent| ("agentRef", agent)));
    query.extend(args.everyone.then(|| ("all", "true".to_owned())));
    let list = List { collection: CONVERSATIONS, query, empty: "there are no such conversations" };
    list.show(cx, &args.page, table).await?;
    Ok(Exit::Ok)
}

fn table(items: &[Value]) -> Table {
    let mut table = Table::new(["ID", "AGENT", "STATUS", "TURNS", "TOKENS", "LAST", "TITLE"]);
    for item in items {
        let last = moment(item, "updatedAt").map(minute).unwrap_or_default();
        let field = |name: &str| text(item, name);
        table.row([
            &field("id"),
            &field("agentRef"),
            &field("status"),
            &field("turnCount"),
            &field("totalTokensUsed"),
            &last,
            &field("title"),
        ]);
    }
    table
}

/// Shows a conversation.
pub async fn show(cx: &Context, id: &str) -> Result<Exit, Failure> {
    let answer = cx.client.get(&path(CONVERSATIONS, id), &[]).await?;
    if cx.output.json {
        cx.output.line(answer.text.trim_end())?;
        return Ok(Exit::Ok);
    }
    let conversation: Value = answer.read()?;
    let out = &cx.output;
    let fact = |label: &'static str, field: &str| (label, text(&conversation, field));
    facts::show(
        out,
        &[fact("conversation", "id"), fact("title", "title"), fact("agent", "agentRef"), fact("status", "status")],
    )?;
    let turns = conversation.get("turns").and_then(Value::as_array);
    for turn in turns.into_iter().flatten() {
        show_turn(cx, turn)?;
    }
    Ok(Exit::Ok)
}

/// Shows a conversation as a pattern. Gram calls the role of a tool `function`.
async fn show_gram(cx: &Context, id: &str) -> Result<Exit, Failure> {
    let conversation: Value = cx.client.get(&path(CONVERSATIONS, id), &[]).await?.read()?;
    let turns = conversation.get("turns").and_then(Value::as_array).into_iter().flatten();
    let messages = turns.filter_map(message).collect();
    cx.output.part(&print(&Pattern::from(&ConversationContext { messages })))?;
    Ok(Exit::Ok)
}

/// What a turn says; none for one that only calls tools, whose results say more.
fn message(turn: &Value) -> Option<Message> {
    let role = match turn.get("role")?.as_str()? {
        "system" => Role::System,
        "user" => Role::User,
        "assistant" => Role::Assistant,
        _ => Role::Function { name: turn.get("toolRef").and_then(Value::as_str).unwrap_or_default().to_owned() },
    };
    let content = turn.get("content")?.as_str()?.to_owned();
    (!content.is_empty()).then_some(Message { role, content })
}

fn show_turn(cx: &Context, turn: &Value) -> Result<(), Failure> {
    let said = turn.get("content").and_then(Value::as_str).unwrap_or_default();
    if said.trim().is_empty() {
        return Ok(());
    }
    let (out, role) = (&cx.output, text(turn, "role"));
    let at = moment(turn, "createdAt").map(minute).unwrap_or_default();
    out.line(format!("\n{}", out.out.dim(format!("{role}  {at}"))))?;
    if role == "tool" {
        // A result is for the model; a person wants to see that there is one.
        let result = plain(said);
        return Ok(out.line(out.width.map_or_else(|| result.clone(), |width| cut(&result, width)))?);
    }
    Ok(out.line(printable(said).trim_end())?)
}

async fn rename(cx: &Context, args: RenameArgs) -> Result<Exit, Failure> {
    let answer = cx.client.patch(&path(CONVERSATIONS, &args.which.id), &json!({ "title": args.title })).await?;
    match cx.output.json {
        true => cx.output.line(answer.text.trim_end())?,
        false => cx.output.line(format!("{} renamed    {}", cx.output.out.good('✓'), args.which.id))?,
    }
    Ok(Exit::Ok)
}
