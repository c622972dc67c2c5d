//! `gram fmt`: formats files.

use std::fs;
use std::path::{Path, PathBuf};

use toolwright_gram::format;

use super::sources;
use crate::cli::Context;
use crate::cli::definitions::STDIN;
use crate::cli::exit::Exit;
use crate::cli::failure::Failure;

/// Arguments of `gram fmt`.
#[derive(clap::Args)]
pub(crate) struct FmtArgs {
    /// Files or directories to format in place, or `-` to format standard input to standard output
    #[arg(value_name = "PATH", required = true)]
    files: Vec<PathBuf>,
    /// Only list the files that are not formatted; exit with 1 if there are any
    #[arg(long)]
    check: bool,
}

/// Formats files. If one of them has syntax errors, none is changed.
pub(super) fn run(cx: &Context, args: FmtArgs) -> Result<Exit, Failure> {
    let mut exit = Exit::Ok;
    for text in sources::read_parsed(&args.files)? {
        let formatted = format(&text.source)
            .map_err(|diagnostics| sources::argument_error(&text.file.to_string_lossy(), &diagnostics))?;
        let is_stdin = text.file == Path::new(STDIN);
        if is_stdin && !args.check {
            cx.output.print(&formatted)?;
        } else if formatted != text.source {
            cx.output.line(text.file.display())?;
            if args.check {
                exit = Exit::Failed;
            } else {
                write_file(&text.file, &formatted)?;
            }
        }
    }
    Ok(exit)
}

/// Writes a file, with a usage error on failure.
pub(super) fn write_file(file: &Path, text: &str) -> Result<(), Failure> {
    fs::write(file, text).map_err(|error| Failure::Usage(format!("cannot write `{}`: {error}", file.display())))
}
