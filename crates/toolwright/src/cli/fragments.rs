//! Implements `toolwright prompt-fragments`, with the alias `fragments`.

use serde_json::Value;

use super::client::{FRAGMENTS, parse_name, path};
use super::definitions::ResourceKind;
use super::exit::Exit;
use super::failure::Failure;
use super::fields::{self, revision, text};
use super::output::{sanitize, wrap};
use super::pages::{List, PageArgs};
use super::table::Table;
use super::{Context, apply, delete};

/// Subcommands of `prompt-fragments`.
#[derive(clap::Subcommand)]
pub(crate) enum FragmentsCommand {
    /// List prompt fragments
    List(ListArgs),
    /// Show a prompt fragment
    #[command(visible_alias = "show")]
    Get(ShowArgs),
    /// Create or update prompt fragments and other definitions from files
    Apply(apply::ApplyArgs),
    /// Delete prompt fragments
    Delete(delete::DeleteArgs),
}

/// Arguments of `prompt-fragments list`.
#[derive(clap::Args)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    page: PageArgs,
}

/// Arguments of `prompt-fragments get`.
#[derive(clap::Args)]
pub(crate) struct ShowArgs {
    /// refName or ID of the fragment
    #[arg(value_name = "REF", value_parser = parse_name)]
    reference: String,
}

/// Runs a `prompt-fragments` subcommand.
pub(super) async fn run(cx: &Context, command: FragmentsCommand) -> Result<Exit, Failure> {
    match command {
        FragmentsCommand::List(args) => list(cx, args).await,
        FragmentsCommand::Get(args) => show(cx, args).await,
        FragmentsCommand::Apply(args) => apply::run(cx, args, Some(ResourceKind::Fragment)).await,
        FragmentsCommand::Delete(args) => delete::run(cx, FRAGMENTS, args).await,
    }
}

async fn list(cx: &Context, args: ListArgs) -> Result<Exit, Failure> {
    let list = List { collection: FRAGMENTS, query: Vec::new(), empty_message: "no prompt fragments found" };
    list.show(cx, &args.page, table).await?;
    Ok(Exit::Ok)
}

fn table(items: &[Value]) -> Table {
    let mut table = Table::new(["NAME", "DESCRIPTION", "CONTENT"]);
    for fragment in items {
        table.row([&text(fragment, "refName"), &text(fragment, "description"), &text(fragment, "content")]);
    }
    table
}

async fn show(cx: &Context, args: ShowArgs) -> Result<Exit, Failure> {
    let response = cx.client.get(&path(FRAGMENTS, &args.reference), &[]).await?;
    if cx.output.json {
        cx.output.document(response.text.trim_end())?;
        return Ok(Exit::Ok);
    }
    let fragment: Value = response.read()?;
    let out = &cx.output;
    out.line(out.out.good(text(&fragment, "refName")))?;
    fields::print_labeled(out, &[("description", text(&fragment, "description")), ("revision", revision(&fragment))])?;
    let content = fragment.get("content").and_then(Value::as_str).unwrap_or_default();
    out.line(format!("\n{}", wrap(sanitize(content).trim_end(), out.width, 0)))?;
    Ok(Exit::Ok)
}
