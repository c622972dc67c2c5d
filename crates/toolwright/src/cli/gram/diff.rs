//! Implements `gram diff`, which prints the differences between two files.

use std::path::PathBuf;

use serde_json::json;
use toolwright_gram::diff;

use super::sources;
use crate::cli::Context;
use crate::cli::exit::Exit;
use crate::cli::failure::Failure;
use crate::cli::output::sanitize_line;

/// Arguments of `gram diff`.
#[derive(clap::Args)]
pub(crate) struct DiffArgs {
    /// Old file, or `-` for standard input
    before: PathBuf,
    /// New file, or `-` for standard input
    after: PathBuf,
}

/// Prints the differences, with exit code 1 if there are any. Ignores layout, comments and the order of patterns.
pub(super) fn run(cx: &Context, args: DiffArgs) -> Result<Exit, Failure> {
    let sources = sources::read_parsed(&[args.before, args.after])?;
    let [before, after] = sources.as_slice() else {
        return Err(Failure::Usage("expected two files, got directories".into()));
    };
    let differences = diff(&before.pattern, &after.pattern);
    if cx.output.json {
        cx.output.document(json!({ "differences": differences }))?;
    } else {
        cx.output.lines(differences.iter().map(|difference| sanitize_line(&difference.to_string())))?;
    }
    Ok(if differences.is_empty() { Exit::Ok } else { Exit::Failed })
}
