//! `toolwright types …`.

mod import;

use serde_json::Value;

use super::client::{TYPES, parse_name, path};
use super::definitions::Kind;
use super::exit::Exit;
use super::facts::{self, revision, text};
use super::failure::Failure;
use super::pages::{List, PageArgs};
use super::table::Table;
use super::{Context, apply, remove};

/// What can be done with types.
#[derive(clap::Subcommand)]
pub enum TypesCommand {
    /// List the types of the realm
    List(ListArgs),
    /// Show a type and its schema
    Get(GetArgs),
    /// Create or replace types, and whatever else is defined in the files
    Apply(apply::ApplyArgs),
    /// Make types of what is there already
    #[command(subcommand)]
    Import(import::ImportCommand),
    /// Delete types that have no records; their generated tools go with them
    Delete(remove::DeleteArgs),
}

/// How many.
#[derive(clap::Args)]
pub struct ListArgs {
    #[command(flatten)]
    page: PageArgs,
}

/// Which type.
#[derive(clap::Args)]
pub struct GetArgs {
    /// Its name or id
    #[arg(value_name = "REF", value_parser = parse_name)]
    reference: String,
}

/// Runs one of them.
pub async fn run(cx: &Context, command: TypesCommand) -> Result<Exit, Failure> {
    match command {
        TypesCommand::List(args) => list(cx, args).await,
        TypesCommand::Get(args) => get(cx, args).await,
        TypesCommand::Apply(args) => apply::run(cx, args, Some(Kind::Type)).await,
        TypesCommand::Import(command) => import::run(cx, command).await,
        TypesCommand::Delete(args) => remove::run(cx, TYPES, args).await,
    }
}

async fn list(cx: &Context, args: ListArgs) -> Result<Exit, Failure> {
    let list = List { collection: TYPES, query: Vec::new(), empty: "there are no types" };
    list.show(cx, &args.page, table).await?;
    Ok(Exit::Ok)
}

fn table(items: &[Value]) -> Table {
    let mut table = Table::new(["NAME", "SEARCHABLE", "WITHOUT", "DESCRIPTION"]);
    for of in items {
        table.row([
            &text(of, "refName"),
            &text(of, "searchableFields"),
            &text(of, "excludeOperations"),
            &text(of, "description"),
        ]);
    }
    table
}

async fn get(cx: &Context, args: GetArgs) -> Result<Exit, Failure> {
    let answer = cx.client.get(&path(TYPES, &args.reference), &[]).await?;
    if cx.output.json {
        cx.output.line(answer.text.trim_end())?;
        return Ok(Exit::Ok);
    }
    let of: Value = answer.read()?;
    let out = &cx.output;
    out.line(out.out.good(text(&of, "refName")))?;
    let relations = of.get("relations").and_then(Value::as_array).into_iter().flatten();
    let relations: Vec<String> = relations
        .map(|one| format!("{} → {} by {}", text(one, "name"), text(one, "type"), text(one, "field")))
        .collect();
    facts::show(
        out,
        &[
            ("description", text(&of, "description")),
            ("category", text(&of, "category")),
            ("searchable", text(&of, "searchableFields")),
            ("without", text(&of, "excludeOperations")),
            ("relations", relations.join(", ")),
            ("records", place(&of)),
            ("revision", revision(&of)),
        ],
    )?;
    if let Some(schema) = of.get("jsonSchema") {
        out.line(format!("\n{}", serde_json::to_string_pretty(schema).unwrap_or_default()))?;
    }
    Ok(Exit::Ok)
}

/// Where the records are, if they are not here.
fn place(of: &Value) -> String {
    match of.get("records") {
        Some(records) => {
            format!("{} {}, by secret {}", text(records, "kind"), text(records, "table"), text(records, "urlSecretRef"))
        }
        None => String::new(),
    }
}
