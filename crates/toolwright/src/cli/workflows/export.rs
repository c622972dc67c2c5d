//! Implements `workflows export`, which prints the definition of a workflow for a file.

use serde_json::Value;

use crate::cli::Context;
use crate::cli::client::{WORKFLOWS, path};
use crate::cli::definitions::ResourceKind;
use crate::cli::exit::Exit;
use crate::cli::export::{self, JsonExportArgs};
use crate::cli::failure::Failure;

/// Arguments of `workflows export`.
#[derive(clap::Args)]
pub(crate) struct ExportArgs {
    #[command(flatten)]
    definition: JsonExportArgs,
    /// Format of the export
    #[arg(long, value_enum, default_value_t = ExportFormat::Definition)]
    format: ExportFormat,
    /// Version of the Arazzo document: 1.0, or 1.1, which has timeouts [default: 1.0]
    #[arg(long, value_name = "VERSION", value_parser = ["1.0", "1.1"])]
    arazzo_version: Option<String>,
}

/// The formats of an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum ExportFormat {
    /// A definition that `apply` accepts
    Definition,
    /// An Arazzo document, with the workflows that the workflow executes
    Arazzo,
}

/// Prints the definition of a workflow, or an Arazzo document.
pub(super) async fn run(cx: &Context, args: ExportArgs) -> Result<Exit, Failure> {
    let ExportArgs { definition, format, arazzo_version } = args;
    if format == ExportFormat::Definition {
        return match arazzo_version {
            None => export::run_json(cx, ResourceKind::Workflow, definition).await,
            Some(_) => Err(Failure::Usage("--arazzo-version requires --format arazzo".to_owned())),
        };
    }
    let mut query = vec![("format", "arazzo".to_owned())];
    query.extend(arazzo_version.map(|version| ("arazzoVersion", version)));
    let response = cx.client.get(&format!("{}/export", path(WORKFLOWS, &definition.reference)), &query).await?;
    let document: Value = response.read()?;
    let printed = serde_json::to_string_pretty(&document);
    let text = printed.map_err(|error| Failure::Unexpected { url: response.url.clone(), cause: error.to_string() })?;
    cx.output.document(text)?;
    Ok(Exit::Ok)
}
