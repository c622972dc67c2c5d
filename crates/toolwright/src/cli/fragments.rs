//! `toolwright prompt-fragments …`, or `fragments` in short.

use serde_json::Value;

use super::client::{FRAGMENTS, parse_name, path};
use super::definitions::Kind;
use super::exit::Exit;
use super::facts::{self, revision, text};
use super::failure::Failure;
use super::output::printable;
use super::pages::{List, PageArgs};
use super::table::Table;
use super::{Context, apply, remove};

/// What can be done with prompt fragments.
#[derive(clap::Subcommand)]
pub enum FragmentsCommand {
    /// List the fragments of the realm
    List(ListArgs),
    /// Show a fragment
    Show(ShowArgs),
    /// Create or replace fragments, and whatever else is defined in the files
    Apply(apply::ApplyArgs),
    /// Delete fragments
    Delete(remove::DeleteArgs),
}

/// How many.
#[derive(clap::Args)]
pub struct ListArgs {
    #[command(flatten)]
    page: PageArgs,
}

/// Which fragment.
#[derive(clap::Args)]
pub struct ShowArgs {
    /// Its refName or id
    #[arg(value_name = "REF", value_parser = parse_name)]
    reference: String,
}

/// Runs one of them.
pub async fn run(cx: &Context, command: FragmentsCommand) -> Result<Exit, Failure> {
    match command {
        FragmentsCommand::List(args) => list(cx, args).await,
        FragmentsCommand::Show(args) => show(cx, args).await,
        FragmentsCommand::Apply(args) => apply::run(cx, args, Some(Kind::Fragment)).await,
        FragmentsCommand::Delete(args) => remove::run(cx, FRAGMENTS, args).await,
    }
}

async fn list(cx: &Context, args: ListArgs) -> Result<Exit, Failure> {
    let list = List { collection: FRAGMENTS, query: Vec::new(), empty: "there are no prompt fragments" };
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
    let answer = cx.client.get(&path(FRAGMENTS, &args.reference), &[]).await?;
    if cx.output.json {
        cx.output.line(answer.text.trim_end())?;
        return Ok(Exit::Ok);
    }
    let fragment: Value = answer.read()?;
    let out = &cx.output;
    out.line(out.out.good(text(&fragment, "refName")))?;
    facts::show(out, &[("description", text(&fragment, "description")), ("revision", revision(&fragment))])?;
    let content = fragment.get("content").and_then(Value::as_str).unwrap_or_default();
    out.line(format!("\n{}", printable(content).trim_end()))?;
    Ok(Exit::Ok)
}
