//! `types import`: imports entity types from databases and OpenAPI documents.

use serde_json::{Value, json};
use toolwright_api::wire::TypeImportView;

use crate::cli::Context;
use crate::cli::client::TYPES;
use crate::cli::definitions::document_source;
use crate::cli::exit::Exit;
use crate::cli::failure::Failure;
use crate::cli::import_summary::{ImportSummary, WriteArgs, preview_remark};

/// Subcommands of `types import`.
#[derive(clap::Subcommand)]
pub(crate) enum ImportCommand {
    /// Import the tables of a database; the records stay there and are only read
    Database(DatabaseArgs),
    /// Import the object schemas of an OpenAPI 3 document; the records are stored on this server
    Openapi(OpenapiArgs),
}

/// Arguments of `types import database`.
#[derive(clap::Args)]
pub(crate) struct DatabaseArgs {
    /// Secret that contains the URL of the database
    #[arg(long, value_name = "NAME")]
    secret: String,
    /// Database schema; ignored for SQLite
    #[arg(long, default_value = "public")]
    schema: String,
    /// Filter by table name, with `*` as wildcard; may be repeated
    #[arg(long = "table", value_name = "PATTERN")]
    tables: Vec<String>,
    /// Replace previously imported types that have changed
    #[arg(long)]
    update: bool,
    #[command(flatten)]
    write: WriteArgs,
}

/// Arguments of `types import openapi`.
#[derive(clap::Args)]
pub(crate) struct OpenapiArgs {
    /// File, `-` for standard input, or a URL that the server fetches
    #[arg(value_name = "FILE|URL")]
    source: String,
    /// Filter by schema name, with `*` as wildcard; may be repeated
    #[arg(long = "schema", value_name = "PATTERN")]
    schemas: Vec<String>,
    /// Replace previously imported types that have changed
    #[arg(long)]
    update: bool,
    #[command(flatten)]
    write: WriteArgs,
}

/// Runs a `types import` subcommand.
pub(super) async fn run(cx: &Context, command: ImportCommand) -> Result<Exit, Failure> {
    let (route, body) = match command {
        ImportCommand::Database(args) => ("database", args.body()),
        ImportCommand::Openapi(args) => ("openapi", args.body()?),
    };
    let response = cx.client.call(&format!("{TYPES}/import/{route}"), &body).await?;
    if cx.output.json {
        cx.output.document(response.text.trim_end())?;
    } else {
        let report: TypeImportView = response.read()?;
        let summary = ImportSummary::from(&report);
        summary.show(cx, "type ", preview_remark(!report.applied))?;
    }
    Ok(Exit::Ok)
}

impl DatabaseArgs {
    fn body(&self) -> Value {
        json!({
            "secretRef": self.secret, "schema": self.schema, "tables": self.tables, "update": self.update,
            "apply": !self.write.is_preview(),
        })
    }
}

impl OpenapiArgs {
    fn body(&self) -> Result<Value, Failure> {
        let (field, source) = document_source(&self.source)?;
        Ok(json!({ field: source, "schemas": self.schemas, "update": self.update, "apply": !self.write.is_preview() }))
    }
}
