//! `gram rewrite`: changes everything that fits a pattern.

use std::path::{Path, PathBuf};

use toolwright_gram::{Query, Rewrite, print};

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
    /// Change the files instead of printing them; comments and layout are lost in files that change
    #[arg(long, short)]
    write: bool,
}

/// Rewrites each file for itself. If one of them is not gram, none is changed.
pub fn run(cx: &Context, args: RewriteArgs) -> Result<Exit, Failure> {
    let query = Query::parse(&args.query).map_err(|mistakes| texts::argument("query", &mistakes))?;
    let rewrite = Rewrite::parse(query, &args.changes).map_err(|mistakes| texts::argument("changes", &mistakes))?;
    let mut changed = 0;
    for text in texts::parsed(&args.files)? {
        let rewritten = rewrite.apply(&text.pattern).map_err(|error| Failure::Gram(vec![format!("query: {error}")]))?;
        changed += rewritten.changed;
        if !args.write || text.file == Path::new(STDIN) {
            cx.output.part(&print(&rewritten.pattern))?;
        } else if rewritten.changed > 0 {
            write(&text.file, &print(&rewritten.pattern))?;
            cx.output.line(text.file.display())?;
        }
    }
    cx.output.note(cx.output.err.dim(format!("{changed} changed")));
    Ok(Exit::Ok)
}
