//! Implements `runs export`, `replay`, `test` and `verify`: exports runs as bundles, replays bundles and verifies
//! journals.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde_json::json;
use toolwright_api::wire::VerificationView;
use toolwright_machine::journal::bundle::Bundle;

use super::replay_with;
use crate::cli::Context;
use crate::cli::client::{RUNS, parse_name, path};
use crate::cli::exit::Exit;
use crate::cli::failure::Failure;
use crate::cli::follow::pluralize;
use crate::cli::output::sanitize_line;

/// Arguments of `runs export`.
#[derive(clap::Args)]
pub(crate) struct ExportArgs {
    /// Run ID
    #[arg(value_name = "RUN", value_parser = parse_name)]
    run: String,
    /// File to write, or `-` for standard output [default: RUN.jsonl]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Arguments of `runs replay`.
#[derive(clap::Args)]
pub(crate) struct ReplayArgs {
    /// Bundle written by `runs export`
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    overrides: replay_with::ReplayOverrides,
}

/// Arguments of `runs test`.
#[derive(clap::Args)]
pub(crate) struct TestArgs {
    /// Directory with bundles (*.jsonl)
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// Write the results to a file as JUnit XML
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
}

/// Exports a run to a file.
pub(crate) async fn export(cx: &Context, args: ExportArgs) -> Result<Exit, Failure> {
    let response = cx.client.get(&format!("{}/export", path(RUNS, &args.run)), &[]).await?;
    let file = args.output.unwrap_or_else(|| PathBuf::from(format!("{}.jsonl", args.run)));
    if file == Path::new("-") {
        cx.output.print(&response.text)?;
        return Ok(Exit::Ok);
    }
    let unwritable = |error| Failure::Usage(format!("cannot write `{}`: {error}", file.display()));
    std::fs::write(&file, &response.text).map_err(unwritable)?;
    if cx.output.json {
        cx.output.document(json!({ "run": args.run, "file": file, "bytes": response.text.len() }))?;
    } else {
        let written = format!("✓ wrote {} to {}", pluralize(response.text.len() as u64, "byte"), file.display());
        cx.output.line(cx.output.out.good(written))?;
    }
    Ok(Exit::Ok)
}

/// Replays a bundle locally, or on the server if there are overrides.
pub(crate) async fn replay(cx: &Context, args: &ReplayArgs) -> Result<Exit, Failure> {
    if !args.file.is_file() {
        return Err(Failure::Usage(format!("file `{}` does not exist", args.file.display())));
    }
    if args.overrides.is_set() {
        return replay_with::replay(cx, &args.file, &args.overrides).await;
    }
    let outcome = replay_bundle(&args.file);
    if cx.output.json {
        let line = match &outcome {
            ReplayOutcome::Identical(entries) => json!({ "identical": true, "entries": entries }),
            ReplayOutcome::Diverged(_, details) => json!({ "identical": false, "divergence": details }),
            ReplayOutcome::Invalid(problem) => json!({ "identical": false, "error": problem }),
        };
        cx.output.document(line)?;
    } else {
        match &outcome {
            ReplayOutcome::Identical(entries) => {
                cx.output.line(cx.output.out.good(format!("✓ identical: {}", pluralize(*entries as u64, "entry"))))?;
            }
            ReplayOutcome::Diverged(text, _) => {
                cx.output.line(cx.output.out.bad(format!("✗ {}", sanitize_line(text))))?
            }
            ReplayOutcome::Invalid(problem) => {
                cx.output.line(cx.output.out.bad(format!("✗ {}", sanitize_line(problem))))?
            }
        }
    }
    Ok(outcome.exit())
}

/// Replays all bundles in a directory.
pub(crate) fn test(cx: &Context, args: &TestArgs) -> Result<Exit, Failure> {
    let files = bundle_files(&args.directory)?;
    let results: Vec<(String, ReplayOutcome)> = files
        .iter()
        .map(|file| (file.file_name().unwrap_or_default().to_string_lossy().into_owned(), replay_bundle(file)))
        .collect();
    if let Some(file) = &args.junit {
        let unwritable = |error| Failure::Usage(format!("cannot write `{}`: {error}", file.display()));
        std::fs::write(file, junit_report(&results)).map_err(unwritable)?;
    }
    let failed = results.iter().filter(|(_, outcome)| !matches!(outcome, ReplayOutcome::Identical(_))).count();
    if cx.output.json {
        let item = |(name, outcome): &(String, ReplayOutcome)| json!({ "bundle": name, "identical": outcome.problem().is_none(), "problem": outcome.problem() });
        cx.output.document(json!({ "items": results.iter().map(item).collect::<Vec<_>>(), "failed": failed }))?;
    }
    for (name, outcome) in results.iter().filter(|_| !cx.output.json) {
        match outcome.problem() {
            None => cx.output.line(format!("{} {}", cx.output.out.good('✓'), sanitize_line(name)))?,
            Some(problem) => {
                cx.output.line(format!(
                    "{} {}  {}",
                    cx.output.out.bad('✗'),
                    sanitize_line(name),
                    sanitize_line(problem)
                ))?;
            }
        }
    }
    if !cx.output.json {
        cx.output.line(format!("{} of {} identical", results.len() - failed, results.len()))?;
    }
    Ok(if failed == 0 { Exit::Ok } else { Exit::Failed })
}

/// Returns the bundles (`*.jsonl`) in a directory, sorted by name; there must be at least one.
pub(crate) fn bundle_files(directory: &Path) -> Result<Vec<PathBuf>, Failure> {
    let unreadable = |error| Failure::Usage(format!("cannot read `{}`: {error}", directory.display()));
    let mut files: Vec<PathBuf> = std::fs::read_dir(directory)
        .map_err(unreadable)?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "jsonl"))
        .collect();
    files.sort();
    if files.is_empty() {
        return Err(Failure::Usage(format!("no bundle (*.jsonl) found in `{}`", directory.display())));
    }
    Ok(files)
}

/// Asks the server to verify the hash chain of a journal.
pub(crate) async fn verify(cx: &Context, run: &str) -> Result<Exit, Failure> {
    let response = cx.client.get(&format!("{}/verify", path(RUNS, run)), &[]).await?;
    let found: VerificationView = response.read()?;
    if cx.output.json {
        cx.output.document(response.text.trim_end())?;
    } else if found.intact {
        cx.output.line(cx.output.out.good(format!(
            "✓ {}, head {}",
            pluralize(found.entries, "entry"),
            found.head_hash
        )))?;
    } else {
        let (at, why) = (found.broken_at.unwrap_or_default(), found.why.unwrap_or_default());
        cx.output.line(cx.output.out.bad(format!("✗ entry {at}: {}", sanitize_line(&why))))?;
    }
    Ok(if found.intact { Exit::Ok } else { Exit::Failed })
}

enum ReplayOutcome {
    Identical(usize),
    /// The difference as text and as JSON.
    Diverged(String, serde_json::Value),
    Invalid(String),
}

impl ReplayOutcome {
    fn problem(&self) -> Option<&str> {
        match self {
            ReplayOutcome::Identical(_) => None,
            ReplayOutcome::Diverged(text, _) => Some(text),
            ReplayOutcome::Invalid(problem) => Some(problem),
        }
    }

    fn exit(&self) -> Exit {
        match self {
            ReplayOutcome::Identical(_) => Exit::Ok,
            ReplayOutcome::Diverged(..) => Exit::Failed,
            ReplayOutcome::Invalid(_) => Exit::Invalid,
        }
    }
}

fn replay_bundle(file: &Path) -> ReplayOutcome {
    let text = match std::fs::read(file) {
        Ok(bytes) => bytes,
        Err(error) => return ReplayOutcome::Invalid(format!("cannot read `{}`: {error}", file.display())),
    };
    let Ok(text) = String::from_utf8(text) else {
        return ReplayOutcome::Invalid("not a bundle: not valid UTF-8".to_owned());
    };
    let replayed = Bundle::parse(&text).and_then(|bundle| Ok((bundle.entries.len(), bundle.replay()?)));
    match replayed {
        Ok((entries, None)) => ReplayOutcome::Identical(entries),
        Ok((_, Some(divergence))) => {
            ReplayOutcome::Diverged(divergence.to_string(), serde_json::to_value(&divergence).unwrap_or_default())
        }
        Err(error) => ReplayOutcome::Invalid(error.to_string()),
    }
}

/// Formats the results as JUnit XML.
fn junit_report(results: &[(String, ReplayOutcome)]) -> String {
    let failures = results.iter().filter(|(_, outcome)| matches!(outcome, ReplayOutcome::Diverged(..))).count();
    let errors = results.iter().filter(|(_, outcome)| matches!(outcome, ReplayOutcome::Invalid(_))).count();
    let mut xml = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let tests = results.len();
    // Writing to a `String` cannot fail.
    let _ = writeln!(
        xml,
        "<testsuite name=\"toolwright runs test\" tests=\"{tests}\" failures=\"{failures}\" errors=\"{errors}\">"
    );
    for (name, outcome) in results {
        let name = escape_xml(name);
        let _ = match outcome {
            ReplayOutcome::Identical(_) => writeln!(xml, "  <testcase classname=\"runs\" name=\"{name}\"/>"),
            ReplayOutcome::Diverged(text, _) => writeln!(
                xml,
                "  <testcase classname=\"runs\" name=\"{name}\"><failure message=\"{}\"/></testcase>",
                escape_xml(text)
            ),
            ReplayOutcome::Invalid(problem) => writeln!(
                xml,
                "  <testcase classname=\"runs\" name=\"{name}\"><error message=\"{}\"/></testcase>",
                escape_xml(problem)
            ),
        };
    }
    xml.push_str("</testsuite>\n");
    xml
}

/// Escapes text for XML. Control characters, which XML does not allow, become spaces.
fn escape_xml(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            letter if letter.is_control() || matches!(letter, '\u{FFFE}' | '\u{FFFF}') => out.push(' '),
            letter => out.push(letter),
        }
    }
    out
}
