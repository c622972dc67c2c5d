//! `gram fmt`: the usual layout.

use std::fs;
use std::path::{Path, PathBuf};

use toolwright_gram::format;

use super::texts;
use crate::cli::Context;
use crate::cli::definitions::STDIN;
use crate::cli::exit::Exit;
use crate::cli::failure::Failure;

/// Which files.
#[derive(clap::Args)]
pub struct FmtArgs {
    /// Files or folders, which are changed, or `-` for standard input, which is printed
    #[arg(value_name = "PATH", required = true)]
    files: Vec<PathBuf>,
    /// Change nothing; list the files that would change, with exit code 1 if there are any
    #[arg(long)]
    check: bool,
}

/// Lays files out. If one of them is not gram, none is changed.
pub fn run(cx: &Context, args: FmtArgs) -> Result<Exit, Failure> {
    let mut exit = Exit::Ok;
    for text in texts::parsed(&args.files)? {
        let laid_out =
            format(&text.source).map_err(|mistakes| texts::argument(&text.file.to_string_lossy(), &mistakes))?;
        let is_stdin = text.file == Path::new(STDIN);
        if is_stdin && !args.check {
            cx.output.part(&laid_out)?;
        } else if laid_out != text.source {
            cx.output.line(text.file.display())?;
            if args.check {
                exit = Exit::Failed;
            } else {
                write(&text.file, &laid_out)?;
            }
        }
    }
    Ok(exit)
}

/// Writes a file anew.
pub fn write(file: &Path, text: &str) -> Result<(), Failure> {
    fs::write(file, text).map_err(|error| Failure::Usage(format!("write `{}`: {error}", file.display())))
}
