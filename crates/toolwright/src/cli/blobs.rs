//! Implements `toolwright blobs`, which downloads large payloads of calls.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use serde_json::json;

use super::Context;
use super::client::{BLOBS, parse_name, path};
use super::exit::Exit;
use super::failure::Failure;
use super::follow::pluralize;
use super::output::write_raw;

/// Subcommands of `blobs`.
#[derive(clap::Subcommand)]
pub(crate) enum BlobsCommand {
    /// Download a blob to a file or to standard output
    #[command(visible_alias = "show")]
    Get(GetArgs),
}

/// Arguments of `blobs get`.
#[derive(clap::Args)]
pub(crate) struct GetArgs {
    /// ID of the blob, or its `url` in an envelope
    #[arg(value_name = "ID", value_parser = parse_id)]
    id: String,
    /// File to write, or `-` for standard output [default: standard output, unless it is a terminal]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Accepts the id and the path of a blob.
fn parse_id(text: &str) -> Result<String, String> {
    parse_name(text.strip_prefix(BLOBS).and_then(|rest| rest.strip_prefix('/')).unwrap_or(text))
}

/// Runs a `blobs` subcommand.
pub(super) async fn run(cx: &Context, BlobsCommand::Get(args): BlobsCommand) -> Result<Exit, Failure> {
    let is_stdout = args.output.as_deref() == Some(Path::new("-"));
    if args.output.is_none() && (std::io::stdout().is_terminal() || cx.output.json) {
        let rule = "a blob may contain binary data";
        return Err(Failure::Usage(format!("{rule}; name a file with `-o FILE`, or `-o -` for standard output")));
    }
    let bytes = cx.client.get_bytes(&path(BLOBS, &args.id)).await?;
    let Some(file) = args.output.filter(|_| !is_stdout) else {
        write_raw(&bytes);
        return Ok(Exit::Ok);
    };
    let unwritable = |error| Failure::Usage(format!("cannot write `{}`: {error}", file.display()));
    std::fs::write(&file, &bytes).map_err(unwritable)?;
    if cx.output.json {
        cx.output.document(json!({ "id": args.id, "file": file, "bytes": bytes.len() }))?;
    } else {
        let written = format!("✓ wrote {} to {}", pluralize(bytes.len() as u64, "byte"), file.display());
        cx.output.line(cx.output.out.good(written))?;
    }
    Ok(Exit::Ok)
}
