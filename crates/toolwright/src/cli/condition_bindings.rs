//! Implements `toolwright condition-bindings`.

use serde_json::Value;

use super::client::{CONDITION_BINDINGS, parse_name, path};
use super::definitions::ResourceKind;
use super::exit::Exit;
use super::failure::Failure;
use super::fields::{self, revision, text};
use super::pages::{List, PageArgs};
use super::table::Table;
use super::{Context, apply, delete, export, revisions};

/// Subcommands of `condition-bindings`.
#[derive(clap::Subcommand)]
pub(crate) enum ConditionBindingsCommand {
    /// List condition bindings
    List(ListArgs),
    /// Show a condition binding
    #[command(visible_alias = "show")]
    Get(GetArgs),
    /// Create or update condition bindings and other definitions from files
    Apply(apply::ApplyArgs),
    /// Print the definition of a condition binding
    Export(export::JsonExportArgs),
    /// List the revisions of a condition binding, or compare two of them
    Revisions(revisions::RevisionsArgs),
    /// Delete condition bindings
    Delete(delete::DeleteArgs),
}

/// Arguments of `condition-bindings list`.
#[derive(clap::Args)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    page: PageArgs,
}

/// Arguments of `condition-bindings get`.
#[derive(clap::Args)]
pub(crate) struct GetArgs {
    /// Name or ID of the condition binding
    #[arg(value_name = "REF", value_parser = parse_name)]
    reference: String,
}

/// Runs a `condition-bindings` subcommand.
pub(super) async fn run(cx: &Context, command: ConditionBindingsCommand) -> Result<Exit, Failure> {
    let kind = ResourceKind::ConditionBinding;
    match command {
        ConditionBindingsCommand::List(args) => list(cx, args).await,
        ConditionBindingsCommand::Get(args) => get(cx, args).await,
        ConditionBindingsCommand::Apply(args) => apply::run(cx, args, Some(kind)).await,
        ConditionBindingsCommand::Export(args) => export::run_json(cx, kind, args).await,
        ConditionBindingsCommand::Revisions(args) => revisions::run(cx, CONDITION_BINDINGS, args).await,
        ConditionBindingsCommand::Delete(args) => delete::run(cx, CONDITION_BINDINGS, args).await,
    }
}

async fn list(cx: &Context, args: ListArgs) -> Result<Exit, Failure> {
    let list = List { collection: CONDITION_BINDINGS, query: Vec::new(), empty_message: "no condition bindings found" };
    list.show(cx, &args.page, table).await?;
    Ok(Exit::Ok)
}

fn table(items: &[Value]) -> Table {
    let mut table = Table::new(["NAME", "CONDITION", "DESCRIPTION"]);
    for view in items {
        table.row([&text(view, "name"), &text(view, "condition"), &text(view, "description")]);
    }
    table
}

async fn get(cx: &Context, args: GetArgs) -> Result<Exit, Failure> {
    let response = cx.client.get(&path(CONDITION_BINDINGS, &args.reference), &[]).await?;
    if cx.output.json {
        cx.output.document(response.text.trim_end())?;
        return Ok(Exit::Ok);
    }
    let view: Value = response.read()?;
    cx.output.line(cx.output.out.good(text(&view, "name")))?;
    let fields = [
        ("description", text(&view, "description")),
        ("condition", text(&view, "condition")),
        ("revision", revision(&view)),
    ];
    fields::print_labeled(&cx.output, &fields)?;
    Ok(Exit::Ok)
}
