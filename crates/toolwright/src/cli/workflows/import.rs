//! Implements `workflows import`, which creates workflows from an Arazzo document.

use std::collections::BTreeMap;

use serde_json::json;
use toolwright_api::wire::WorkflowImportView;

use crate::cli::Context;
use crate::cli::client::WORKFLOWS;
use crate::cli::definitions::read_document;
use crate::cli::exit::Exit;
use crate::cli::failure::Failure;
use crate::cli::import_summary::{ImportSummary, WriteArgs, preview_remark};

/// Arguments of `workflows import`.
#[derive(clap::Args)]
pub(crate) struct ImportArgs {
    /// Arazzo document in JSON or YAML; `-` for standard input
    #[arg(value_name = "FILE")]
    file: String,
    /// Import only this workflow of the document, and those that it executes
    #[arg(long, value_name = "ID")]
    workflow: Option<String>,
    /// Provider whose tools call the operations of a source description [default: the tools that were imported from the
    /// source]; may be repeated
    #[arg(long = "provider", value_name = "SOURCE=PROVIDER", value_parser = parse_provider)]
    providers: Vec<(String, String)>,
    /// Replace workflows that exist and differ
    #[arg(long)]
    update: bool,
    #[command(flatten)]
    write: WriteArgs,
}

fn parse_provider(text: &str) -> Result<(String, String), String> {
    let pair = text.split_once('=').filter(|(source, provider)| !source.is_empty() && !provider.is_empty());
    pair.map(|(source, provider)| (source.to_owned(), provider.to_owned()))
        .ok_or_else(|| "expected SOURCE=PROVIDER".into())
}

/// Creates the workflows of an Arazzo document.
pub(super) async fn run(cx: &Context, args: ImportArgs) -> Result<Exit, Failure> {
    let providers: BTreeMap<String, String> = args.providers.into_iter().collect();
    let body = json!({
        "document": read_document(&args.file)?,
        "workflowId": args.workflow,
        "providers": providers,
        "update": args.update,
        "dryRun": args.write.is_preview(),
    });
    let response = cx.client.call(&format!("{WORKFLOWS}/import"), &body).await?;
    if cx.output.json {
        cx.output.document(response.text.trim_end())?;
    } else {
        let report: WorkflowImportView = response.read()?;
        ImportSummary::from(&report).show(cx, "", preview_remark(report.dry_run))?;
    }
    Ok(Exit::Ok)
}
