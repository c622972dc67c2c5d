//! `gram rewrite`: changes all matches of a pattern.

use std::path::{Path, PathBuf};

use toolwright_gram::{Query, Rewrite};
use toolwright_notation::reference_relations;

use super::fmt::write_file;
use super::sources;
use crate::cli::Context;
use crate::cli::definitions::STDIN;
use crate::cli::exit::Exit;
use crate::cli::failure::Failure;

/// Arguments of `gram rewrite`.
#[derive(clap::Args)]
pub(crate) struct RewriteArgs {
    /// Pattern to find, such as '(t:Tool {sideEffects: "writes"})'
    query: String,
    /// Changes to apply to each match, such as '(t {requiresConfirmation: true})'
    changes: String,
    /// Files or directories, or `-` for standard input
    #[arg(value_name = "PATH", required = true)]
    files: Vec<PathBuf>,
    /// Write the files instead of printing them
    #[arg(long, short)]
    write: bool,
}

/// Rewrites files. Unchanged text keeps its layout. If one of the files has syntax errors, none is changed. Files may
/// refer to each other's names.
pub(super) fn run(cx: &Context, args: RewriteArgs) -> Result<Exit, Failure> {
    let query = Query::parse(&args.query).map_err(|diagnostics| sources::argument_error("query", &diagnostics))?;
    let rewrite =
        Rewrite::parse(query, &args.changes).map_err(|diagnostics| sources::argument_error("changes", &diagnostics))?;
    let files = sources::read_parsed(&args.files)?;
    let sources: Vec<&str> = files.iter().map(|file| file.source.as_str()).collect();
    let relations = reference_relations(files.iter().map(|file| &file.pattern));
    let rewritten =
        rewrite.apply(&sources, &relations).map_err(|error| Failure::InvalidGram(vec![error.to_string()]))?;
    let mut changed = 0;
    for (file, rewritten) in files.iter().zip(rewritten) {
        changed += rewritten.changed;
        if !args.write || file.file == Path::new(STDIN) {
            cx.output.print(&rewritten.text)?;
        } else if rewritten.changed > 0 {
            write_file(&file.file, &rewritten.text)?;
            cx.output.line(file.file.display())?;
        }
    }
    cx.output.note(cx.output.err.dim(format!("{changed} changed")));
    Ok(Exit::Ok)
}
