//! Reads and parses gram files.

use std::path::{Path, PathBuf};

use toolwright_gram::{Diagnostic, Diagnostics, Pattern, decode, parse};

use crate::cli::definitions::{collect_files, read_bytes};
use crate::cli::failure::Failure;

/// A file and its text.
pub(super) struct SourceFile {
    pub file: PathBuf,
    /// The text, or the error if it is not valid UTF-8.
    pub source: Result<String, Diagnostics>,
}

pub(super) struct ParsedFile {
    pub file: PathBuf,
    pub source: String,
    pub pattern: Pattern,
}

/// Reads files, and all `*.gram` files in directories; `-` is standard input.
pub(super) fn read(paths: &[PathBuf]) -> Result<Vec<SourceFile>, Failure> {
    let mut files = Vec::new();
    for path in paths {
        let found = files.len();
        let is_gram = |path: &Path| path.extension().is_some_and(|extension| extension == "gram");
        collect_files(path, &is_gram, &mut files).map_err(|error| read_error(path, &error))?;
        if files.len() == found {
            return Err(Failure::Usage(format!("no .gram file found in `{}`", path.display())));
        }
    }
    files.into_iter().map(read_source_file).collect()
}

/// Reads and parses files; all of them must be valid.
pub(super) fn read_parsed(paths: &[PathBuf]) -> Result<Vec<ParsedFile>, Failure> {
    parse_all(read(paths)?).map_err(Failure::InvalidGram)
}

/// Parses texts, or returns all errors.
pub(super) fn parse_all(sources: impl IntoIterator<Item = SourceFile>) -> Result<Vec<ParsedFile>, Vec<String>> {
    let (mut all, mut errors) = (Vec::new(), Vec::new());
    for SourceFile { file, source } in sources {
        let parsed = source.and_then(|source| parse(&source).map(|pattern| (source, pattern)));
        match parsed {
            Ok((source, pattern)) => all.push(ParsedFile { file, source, pattern }),
            Err(diagnostics) => {
                errors.extend(diagnostics.as_slice().iter().map(|diagnostic| diagnostic_line(&file, diagnostic)))
            }
        }
    }
    if errors.is_empty() { Ok(all) } else { Err(errors) }
}

/// Formats a diagnostic on one line, as editors expect it.
pub(super) fn diagnostic_line(file: &Path, diagnostic: &Diagnostic) -> String {
    let hint = diagnostic.hint.as_deref().map(|hint| format!("; {hint}")).unwrap_or_default();
    format!("{}:{}: {}{hint}", file.display(), diagnostic.position, diagnostic.message)
}

/// Converts the diagnostics of an argument to an error.
pub(super) fn argument_error(name: &str, diagnostics: &Diagnostics) -> Failure {
    Failure::InvalidGram(
        diagnostics.as_slice().iter().map(|diagnostic| diagnostic_line(Path::new(name), diagnostic)).collect(),
    )
}

pub(super) fn read_error(path: &Path, error: &std::io::Error) -> Failure {
    Failure::Usage(format!("cannot read `{}`: {error}", path.display()))
}

fn read_source_file(file: PathBuf) -> Result<SourceFile, Failure> {
    let bytes = read_bytes(&file).map_err(|error| read_error(&file, &error))?;
    Ok(SourceFile { file, source: decode(&bytes).map(str::to_owned) })
}
