//! Gram files as texts and patterns, and what is wrong with them.

use std::path::{Path, PathBuf};

use toolwright_gram::{Diagnostic, Diagnostics, Pattern, decode, parse};

use crate::cli::definitions::{bytes_of, collect};
use crate::cli::failure::Failure;

/// A file and what is in it.
pub struct Text {
    /// Where it is.
    pub file: PathBuf,
    /// Its text, or where that stops being one.
    pub source: Result<String, Diagnostics>,
}

/// A file that is gram.
pub struct Parsed {
    /// Where it is.
    pub file: PathBuf,
    /// Its text.
    pub source: String,
    /// What it says.
    pub pattern: Pattern,
}

/// The texts of these files, and of all `*.gram` in these folders; `-` is standard input.
pub fn read(paths: &[PathBuf]) -> Result<Vec<Text>, Failure> {
    let mut files = Vec::new();
    for path in paths {
        let found = files.len();
        let is_gram = |path: &Path| path.extension().is_some_and(|extension| extension == "gram");
        collect(path, &is_gram, &mut files).map_err(|error| unreadable(path, &error))?;
        if files.len() == found {
            return Err(Failure::Usage(format!("there is no .gram file in `{}`", path.display())));
        }
    }
    files.into_iter().map(text).collect()
}

/// The same files, all of which must be gram.
pub fn parsed(paths: &[PathBuf]) -> Result<Vec<Parsed>, Failure> {
    parse_all(read(paths)?).map_err(Failure::Gram)
}

/// Texts, all of which must be gram, or everything that is wrong with them.
pub fn parse_all(texts: impl IntoIterator<Item = Text>) -> Result<Vec<Parsed>, Vec<String>> {
    let (mut all, mut errors) = (Vec::new(), Vec::new());
    for Text { file, source } in texts {
        let parsed = source.and_then(|source| parse(&source).map(|pattern| (source, pattern)));
        match parsed {
            Ok((source, pattern)) => all.push(Parsed { file, source, pattern }),
            Err(mistakes) => errors.extend(mistakes.as_slice().iter().map(|mistake| line(&file, mistake))),
        }
    }
    if errors.is_empty() { Ok(all) } else { Err(errors) }
}

/// A mistake in one line, as editors read it.
pub fn line(file: &Path, mistake: &Diagnostic) -> String {
    let hint = mistake.hint.as_deref().map(|hint| format!("; {hint}")).unwrap_or_default();
    format!("{}:{}: {}{hint}", file.display(), mistake.position, mistake.message)
}

/// Mistakes of an argument, which is no file.
pub fn argument(name: &str, mistakes: &Diagnostics) -> Failure {
    Failure::Gram(mistakes.as_slice().iter().map(|mistake| line(Path::new(name), mistake)).collect())
}

pub fn unreadable(path: &Path, error: &std::io::Error) -> Failure {
    Failure::Usage(format!("read `{}`: {error}", path.display()))
}

fn text(file: PathBuf) -> Result<Text, Failure> {
    let bytes = bytes_of(&file).map_err(|error| unreadable(&file, &error))?;
    Ok(Text { file, source: decode(&bytes).map(str::to_owned) })
}
