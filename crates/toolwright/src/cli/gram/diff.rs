//! `gram diff`: what changed from one text to another.

use std::path::PathBuf;

use serde_json::json;
use toolwright_gram::diff;

use super::texts;
use crate::cli::Context;
use crate::cli::exit::Exit;
use crate::cli::failure::Failure;
use crate::cli::output::plain;

/// Which files.
#[derive(clap::Args)]
pub struct DiffArgs {
    /// The file before, or `-` for standard input
    before: PathBuf,
    /// The file after
    after: PathBuf,
}

/// Says what changed; exit code 1 if anything did. Layout, comments and the order of the patterns do not count.
pub fn run(cx: &Context, args: DiffArgs) -> Result<Exit, Failure> {
    let texts = texts::parsed(&[args.before, args.after])?;
    let [before, after] = texts.as_slice() else {
        return Err(Failure::Usage("two files are compared, not folders".into()));
    };
    let differences = diff(&before.pattern, &after.pattern);
    if cx.output.json {
        cx.output.line(json!({ "differences": differences }))?;
    } else {
        cx.output.lines(differences.iter().map(|difference| plain(&difference.to_string())))?;
    }
    Ok(if differences.is_empty() { Exit::Ok } else { Exit::Failed })
}
