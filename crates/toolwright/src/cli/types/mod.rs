//! Implements `toolwright types`.

mod import;

use serde_json::Value;

use super::client::{TYPES, parse_name, path};
use super::definitions::ResourceKind;
use super::exit::Exit;
use super::failure::Failure;
use super::fields::{self, revision, text};
use super::pages::{List, PageArgs};
use super::table::Table;
use super::{Context, apply, delete};

/// Subcommands of `types`.
#[derive(clap::Subcommand)]
pub(crate) enum TypesCommand {
    /// List entity types
    List(ListArgs),
    /// Show an entity type and its schema
    #[command(visible_alias = "show")]
    Get(GetArgs),
    /// Create or update entity types and other definitions from files
    Apply(apply::ApplyArgs),
    /// Import entity types from a database or an OpenAPI document
    #[command(subcommand)]
    Import(import::ImportCommand),
    /// Delete entity types without records, and their generated tools
    Delete(delete::DeleteArgs),
}

/// Arguments of `types list`.
#[derive(clap::Args)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    page: PageArgs,
}

/// Arguments of `types get`.
#[derive(clap::Args)]
pub(crate) struct GetArgs {
    /// Name or ID of the type
    #[arg(value_name = "REF", value_parser = parse_name)]
    reference: String,
}

/// Runs a `types` subcommand.
pub(super) async fn run(cx: &Context, command: TypesCommand) -> Result<Exit, Failure> {
    match command {
        TypesCommand::List(args) => list(cx, args).await,
        TypesCommand::Get(args) => get(cx, args).await,
        TypesCommand::Apply(args) => apply::run(cx, args, Some(ResourceKind::Type)).await,
        TypesCommand::Import(command) => import::run(cx, command).await,
        TypesCommand::Delete(args) => delete::run(cx, TYPES, args).await,
    }
}

async fn list(cx: &Context, args: ListArgs) -> Result<Exit, Failure> {
    let list = List { collection: TYPES, query: Vec::new(), empty_message: "no types found" };
    list.show(cx, &args.page, table).await?;
    Ok(Exit::Ok)
}

fn table(items: &[Value]) -> Table {
    let mut table = Table::new(["NAME", "SEARCHABLE", "EXCLUDED", "DESCRIPTION"]);
    for view in items {
        table.row([
            &text(view, "refName"),
            &text(view, "searchableFields"),
            &text(view, "excludeOperations"),
            &text(view, "description"),
        ]);
    }
    table
}

async fn get(cx: &Context, args: GetArgs) -> Result<Exit, Failure> {
    let response = cx.client.get(&path(TYPES, &args.reference), &[]).await?;
    if cx.output.json {
        cx.output.document(response.text.trim_end())?;
        return Ok(Exit::Ok);
    }
    let view: Value = response.read()?;
    let out = &cx.output;
    out.line(out.out.good(text(&view, "refName")))?;
    let relations = view.get("relations").and_then(Value::as_array).into_iter().flatten();
    let relations: Vec<String> = relations
        .map(|relation| {
            format!("{} → {} by {}", text(relation, "name"), text(relation, "type"), text(relation, "field"))
        })
        .collect();
    fields::print_labeled(
        out,
        &[
            ("description", text(&view, "description")),
            ("category", text(&view, "category")),
            ("searchable", text(&view, "searchableFields")),
            ("excluded", text(&view, "excludeOperations")),
            ("relations", relations.join(", ")),
            ("records", records_location(&view)),
            ("revision", revision(&view)),
        ],
    )?;
    if let Some(schema) = view.get("jsonSchema") {
        out.line(format!("\n{}", serde_json::to_string_pretty(schema).unwrap_or_default()))?;
    }
    Ok(Exit::Ok)
}

/// Formats the location of records in an external database.
fn records_location(view: &Value) -> String {
    match view.get("records") {
        Some(records) => {
            format!("{} {}, by secret {}", text(records, "kind"), text(records, "table"), text(records, "urlSecretRef"))
        }
        None => String::new(),
    }
}
