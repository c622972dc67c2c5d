//! `gram rewrite`: changes everything that fits a pattern.

use std::path::{Path, PathBuf};

use toolwright_gram::{Query, Rewrite};
use toolwright_notation::links;

use super::fmt::write;
use super::texts;
use crate::cli::Context;
use crate::cli::definitions::STDIN;
use crate::cli::exit::Exit;
use crate::cli::failure::Failure;

/// What to change, and how.
#[derive(clap::Args)]
pub struct RewriteArgs {
    /// What to find, such as '(t:Tool {sideEffects: "writes"})'
    query: String,
    /// What to change in it, such as '(t {requiresConfirmation: true})'
    changes: String,
    /// Files or folders, or `-` for standard input
    #[arg(value_name = "PATH", required = true)]
    files: Vec<PathBuf>,
    /// Change the files instead of printing them
    #[arg(long, short)]
    write: bool,
}

/// Rewrites files, which know each other's names. Only what changes is written anew. If one of the files is not gram, none
/// is changed.
pub fn run(cx: &Context, args: RewriteArgs) -> Result<Exit, Failure> {
    let query = Query::parse(&args.query).map_err(|mistakes| texts::argument("query", &mistakes))?;
    let rewrite = Rewrite::parse(query, &args.changes).map_err(|mistakes| texts::argument("changes", &mistakes))?;
    let texts = texts::parsed(&args.files)?;
    let sources: Vec<&str> = texts.iter().map(|text| text.source.as_str()).collect();
    let linked = links(texts.iter().map(|text| &text.pattern));
    let rewritten = rewrite.apply(&sources, &linked).map_err(|error| Failure::Gram(vec![error.to_string()]))?;
    let mut changed = 0;
    for (text, rewritten) in texts.iter().zip(rewritten) {
        changed += rewritten.changed;
        if !args.write || text.file == Path::new(STDIN) {
            cx.output.part(&rewritten.text)?;
        } else if rewritten.changed > 0 {
            write(&text.file, &rewritten.text)?;
            cx.output.line(text.file.display())?;
        }
    }
    cx.output.note(cx.output.err.dim(format!("{changed} changed")));
    Ok(Exit::Ok)
}
