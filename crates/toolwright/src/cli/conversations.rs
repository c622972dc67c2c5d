//! Implements `toolwright conversations`.

use serde_json::json;
use toolwright_api::wire::{ConversationView, TurnView};
use toolwright_gram::{ConversationContext, Message, MessageRole, Pattern, print};

use super::client::{CONVERSATIONS, parse_name, path};
use super::exit::Exit;
use super::failure::Failure;
use super::fields;
use super::output::{sanitize, sanitize_line};
use super::pages::{List, PageArgs};
use super::table::{Table, truncate};
use super::time::format_minute;
use super::{Context, delete};

/// Subcommands of `conversations`.
#[derive(clap::Subcommand)]
pub(crate) enum ConversationsCommand {
    /// List conversations, most recent first
    List(ListArgs),
    /// Show the messages of a conversation
    #[command(visible_alias = "show")]
    Get(ShowArgs),
    /// Change the title of a conversation
    Rename(RenameArgs),
    /// Delete conversations and their messages
    Delete(delete::DeleteArgs),
}

/// Arguments of `conversations list`.
#[derive(clap::Args)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    page: PageArgs,
    /// Filter by agent
    #[arg(long, value_name = "REF")]
    agent: Option<String>,
    /// Include the conversations of other users
    #[arg(long)]
    everyone: bool,
}

/// The conversation argument.
#[derive(clap::Args)]
pub(super) struct ConversationArg {
    /// Conversation ID
    #[arg(value_name = "ID", value_parser = parse_name)]
    id: String,
}

/// Arguments of `conversations get`.
#[derive(clap::Args)]
pub(crate) struct ShowArgs {
    #[command(flatten)]
    conversation: ConversationArg,
    /// Print gram notation
    #[arg(long)]
    gram: bool,
}

/// Arguments of `conversations rename`.
#[derive(clap::Args)]
pub(crate) struct RenameArgs {
    #[command(flatten)]
    conversation: ConversationArg,
    /// New title
    title: String,
}

/// Runs a `conversations` subcommand.
pub(super) async fn run(cx: &Context, command: ConversationsCommand) -> Result<Exit, Failure> {
    match command {
        ConversationsCommand::List(args) => list(cx, args).await,
        ConversationsCommand::Get(args) if args.gram => show_gram(cx, &args.conversation.id).await,
        ConversationsCommand::Get(args) => show(cx, &args.conversation.id).await,
        ConversationsCommand::Rename(args) => rename(cx, args).await,
        ConversationsCommand::Delete(args) => delete::run(cx, CONVERSATIONS, args).await,
    }
}

async fn list(cx: &Context, args: ListArgs) -> Result<Exit, Failure> {
    let mut query = Vec::new();
    query.extend(args.agent.map(|agent| ("agentRef", agent)));
    query.extend(args.everyone.then(|| ("all", "true".to_owned())));
    let list = List { collection: CONVERSATIONS, query, empty_message: "no conversations found" };
    list.show(cx, &args.page, table).await?;
    Ok(Exit::Ok)
}

fn table(conversations: &[ConversationView]) -> Table {
    let mut table = Table::new(["ID", "AGENT", "STATUS", "TURNS", "TOKENS", "UPDATED", "TITLE"]);
    for conversation in conversations {
        table.row([
            &conversation.id,
            &conversation.agent_ref,
            &conversation.status,
            &conversation.turn_count.to_string(),
            &conversation.total_tokens_used.to_string(),
            &format_minute(conversation.updated_at),
            conversation.title.as_deref().unwrap_or_default(),
        ]);
    }
    table
}

/// Shows the turns of a conversation.
pub(super) async fn show(cx: &Context, id: &str) -> Result<Exit, Failure> {
    let response = cx.client.get(&path(CONVERSATIONS, id), &[]).await?;
    if cx.output.json {
        cx.output.document(response.text.trim_end())?;
        return Ok(Exit::Ok);
    }
    let conversation: ConversationView = response.read()?;
    let title = conversation.title.as_deref().unwrap_or_default();
    let fields = [
        ("conversation", &*conversation.id),
        ("title", title),
        ("agent", &conversation.agent_ref),
        ("status", &conversation.status),
    ];
    fields::print_labeled(&cx.output, &fields.map(|(label, value)| (label, sanitize_line(value))))?;
    for turn in conversation.turns.iter().flatten() {
        show_turn(cx, turn)?;
    }
    Ok(Exit::Ok)
}

/// Prints a conversation as a gram pattern. Gram calls the role of tool results `function`.
async fn show_gram(cx: &Context, id: &str) -> Result<Exit, Failure> {
    let conversation: ConversationView = cx.client.get(&path(CONVERSATIONS, id), &[]).await?.read()?;
    let messages = conversation.turns.into_iter().flatten().filter_map(turn_message).collect();
    cx.output.print(&print(&Pattern::from(&ConversationContext { messages })))?;
    Ok(Exit::Ok)
}

/// Converts a turn to a message. Returns `None` for a turn that has no content and only calls tools, because the
/// results of these calls are separate turns.
fn turn_message(turn: TurnView) -> Option<Message> {
    let role = match turn.role.as_str() {
        "system" => MessageRole::System,
        "user" => MessageRole::User,
        "assistant" => MessageRole::Assistant,
        _ => MessageRole::Function { name: turn.tool_ref.unwrap_or_default() },
    };
    (!turn.content.is_empty()).then_some(Message { role, content: turn.content })
}

fn show_turn(cx: &Context, turn: &TurnView) -> Result<(), Failure> {
    let TurnView { role, content, created_at, .. } = turn;
    if content.trim().is_empty() {
        return Ok(());
    }
    let out = &cx.output;
    out.line(format!("\n{}", out.out.dim(format!("{}  {}", sanitize_line(role), format_minute(*created_at)))))?;
    if role == "tool" {
        // Tool results can be long and are meant for the model, so only one truncated line is printed.
        let result = sanitize_line(content);
        return Ok(out.line(out.width.map_or_else(|| result.clone(), |width| truncate(&result, width)))?);
    }
    Ok(out.line(sanitize(content).trim_end())?)
}

async fn rename(cx: &Context, args: RenameArgs) -> Result<Exit, Failure> {
    let response =
        cx.client.patch(&path(CONVERSATIONS, &args.conversation.id), &json!({ "title": args.title })).await?;
    match cx.output.json {
        true => cx.output.document(response.text.trim_end())?,
        false => cx.output.line(format!("{} renamed    {}", cx.output.out.good('✓'), args.conversation.id))?,
    }
    Ok(Exit::Ok)
}
