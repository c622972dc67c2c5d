//! `types import`: what is there already becomes types.

use serde::Deserialize;
use serde_json::{Value, json};

use crate::cli::Context;
use crate::cli::client::TYPES;
use crate::cli::definitions::document_at;
use crate::cli::exit::Exit;
use crate::cli::failure::Failure;
use crate::cli::imported::Imported;

/// What can be imported.
#[derive(clap::Subcommand)]
pub enum ImportCommand {
    /// Make types of the tables of a database; the records stay there and are only read
    Database(DatabaseArgs),
    /// Make types of the objects that an OpenAPI 3 document describes; their records are kept here
    Openapi(OpenapiArgs),
}

/// Which tables.
#[derive(clap::Args)]
pub struct DatabaseArgs {
    /// The secret that holds the URL of the database
    #[arg(long, value_name = "NAME")]
    secret: String,
    /// The schema; SQLite has none
    #[arg(long, default_value = "public")]
    schema: String,
    /// Only tables with such a name, with `*` for anything; may be repeated
    #[arg(long = "table", value_name = "PATTERN")]
    tables: Vec<String>,
    #[command(flatten)]
    how: HowArgs,
}

/// Which document, and what of it.
#[derive(clap::Args)]
pub struct OpenapiArgs {
    /// A file, `-` for standard input, or a URL that the server fetches
    #[arg(value_name = "FILE|URL")]
    source: String,
    /// Only schemas with such a name, with `*` for anything; may be repeated
    #[arg(long = "schema", value_name = "PATTERN")]
    schemas: Vec<String>,
    #[command(flatten)]
    how: HowArgs,
}

/// What is done about it.
#[derive(clap::Args)]
pub struct HowArgs {
    /// Replace types that were imported before and have changed
    #[arg(long)]
    update: bool,
    /// Write the types; without it, show what would be done
    #[arg(long)]
    apply: bool,
}

#[derive(Deserialize)]
struct Report {
    applied: bool,
    #[serde(flatten)]
    imported: Imported,
}

/// Runs one of them.
pub async fn run(cx: &Context, command: ImportCommand) -> Result<Exit, Failure> {
    let (route, body) = match command {
        ImportCommand::Database(args) => ("database", args.body()),
        ImportCommand::Openapi(args) => ("openapi", args.body()?),
    };
    let answer = cx.client.call(&format!("{TYPES}/import/{route}"), &body).await?;
    if cx.output.json {
        cx.output.line(answer.text.trim_end())?;
    } else {
        let Report { applied, imported } = answer.read()?;
        imported.show(cx, "type ", if applied { "" } else { " (nothing was written; --apply writes)" })?;
    }
    Ok(Exit::Ok)
}

impl DatabaseArgs {
    fn body(&self) -> Value {
        let HowArgs { update, apply } = self.how;
        json!({ "secretRef": self.secret, "schema": self.schema, "tables": self.tables, "update": update, "apply": apply })
    }
}

impl OpenapiArgs {
    fn body(&self) -> Result<Value, Failure> {
        let (field, source) = document_at(&self.source)?;
        let HowArgs { update, apply } = self.how;
        Ok(json!({ field: source, "schemas": self.schemas, "update": update, "apply": apply }))
    }
}
