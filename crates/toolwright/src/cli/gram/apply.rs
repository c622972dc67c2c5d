//! `gram apply`: writes the definitions of a gram text, all or none.

use std::path::PathBuf;

use serde_json::json;
use toolwright_api::wire::{AppliedView, GramApplyView};
use toolwright_gram::decode;

use super::sources;
use crate::cli::Context;
use crate::cli::definitions::read_bytes;
use crate::cli::exit::Exit;
use crate::cli::failure::Failure;
use crate::cli::output::sanitize_line;

/// Arguments of `gram apply`.
#[derive(clap::Args)]
pub(crate) struct ApplyArgs {
    /// File, or `-` for standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Only report what would change
    #[arg(long)]
    dry_run: bool,
    /// Also change tools that agents outside of the file use
    #[arg(long)]
    overwrite: bool,
}

/// Sends the text to the server, which checks and writes it.
pub(super) async fn run(cx: &Context, args: ApplyArgs) -> Result<Exit, Failure> {
    let bytes = read_bytes(&args.file).map_err(|error| sources::read_error(&args.file, &error))?;
    let text = decode(&bytes)
        .map_err(|diagnostics| sources::argument_error(&args.file.display().to_string(), &diagnostics))?;
    let body = json!({ "gram": text, "dryRun": args.dry_run, "overwrite": args.overwrite });
    let response = cx.client.post("/api/v1/ai/gram/apply", &body).await?;
    let applied: GramApplyView = response.read()?;
    if cx.output.json {
        cx.output.document(json!(applied))?;
        return Ok(Exit::Ok);
    }
    for definition in &applied.definitions {
        show(cx, definition)?;
    }
    if applied.dry_run {
        cx.output.note(cx.output.err.dim("dry run: nothing was written"));
    }
    Ok(Exit::Ok)
}

fn show(cx: &Context, definition: &AppliedView) -> Result<(), Failure> {
    let paint = cx.output.out;
    let outcome = format!("{:<9}", sanitize_line(&definition.outcome));
    let word = match definition.outcome.as_str() {
        "unchanged" => paint.dim(format!("= {outcome}")),
        _ => paint.good(format!("✓ {outcome}")),
    };
    let name = sanitize_line(&definition.ref_name);
    cx.output.line(format!("{word}  {} {name}", sanitize_line(&definition.kind)))?;
    for warning in &definition.warnings {
        cx.output.note(cx.output.err.warn(format!("! {name}: {}", sanitize_line(warning))));
    }
    Ok(())
}
