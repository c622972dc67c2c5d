//! `runs export`, `replay`, `test` and `verify`: what was recorded, and whether it still holds.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::json;
use toolwright_machine::journal::bundle::Bundle;

use super::with;
use crate::cli::Context;
use crate::cli::client::{RUNS, parse_name, path};
use crate::cli::exit::Exit;
use crate::cli::failure::Failure;
use crate::cli::output::plain;

/// Which run, and where to.
#[derive(clap::Args)]
pub struct ExportArgs {
    /// The run
    #[arg(value_name = "RUN", value_parser = parse_name)]
    run: String,
    /// The file to write; RUN.jsonl when absent, `-` for standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Which bundle.
#[derive(clap::Args)]
pub struct ReplayArgs {
    /// The bundle that `runs export` wrote
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    with: with::WithArgs,
}

/// Which bundles.
#[derive(clap::Args)]
pub struct TestArgs {
    /// A folder with bundles (*.jsonl)
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
    /// Also write the results there, as JUnit XML
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Verification {
    intact: bool,
    entries: u64,
    head: String,
    broken_at: Option<u64>,
    why: Option<String>,
}

/// Writes a run to a file.
pub async fn export(cx: &Context, args: ExportArgs) -> Result<Exit, Failure> {
    let answer = cx.client.get(&format!("{}/export", path(RUNS, &args.run)), &[]).await?;
    let file = args.output.unwrap_or_else(|| PathBuf::from(format!("{}.jsonl", args.run)));
    if file == Path::new("-") {
        cx.output.part(&answer.text)?;
        return Ok(Exit::Ok);
    }
    let unwritable = |error| Failure::Usage(format!("cannot write {}: {error}", file.display()));
    std::fs::write(&file, &answer.text).map_err(unwritable)?;
    if cx.output.json {
        cx.output.line(json!({ "run": args.run, "file": file, "bytes": answer.text.len() }))?;
    } else {
        let written = format!("✓ {} bytes written to {}", answer.text.len(), file.display());
        cx.output.line(cx.output.out.good(written))?;
    }
    Ok(Exit::Ok)
}

/// Replays a bundle: here, without a server; or against something new, which takes one.
pub async fn replay(cx: &Context, args: &ReplayArgs) -> Result<Exit, Failure> {
    if !args.file.is_file() {
        return Err(Failure::Usage(format!("there is no file {}", args.file.display())));
    }
    if args.with.any() {
        return with::replay(cx, &args.file, &args.with).await;
    }
    let outcome = replayed(&args.file);
    if cx.output.json {
        let line = match &outcome {
            Outcome::Identical(entries) => json!({ "identical": true, "entries": entries }),
            Outcome::Diverged(_, details) => json!({ "identical": false, "divergence": details }),
            Outcome::Unusable(problem) => json!({ "identical": false, "error": problem }),
        };
        cx.output.line(line)?;
    } else {
        match &outcome {
            Outcome::Identical(entries) => {
                cx.output.line(cx.output.out.good(format!("✓ identical: {entries} entries")))?;
            }
            Outcome::Diverged(text, _) => cx.output.line(cx.output.out.bad(format!("✗ {}", plain(text))))?,
            Outcome::Unusable(problem) => cx.output.line(cx.output.out.bad(format!("✗ {}", plain(problem))))?,
        }
    }
    Ok(outcome.exit())
}

/// Replays every bundle of a folder.
pub fn test(cx: &Context, args: &TestArgs) -> Result<Exit, Failure> {
    let unreadable = |error| Failure::Usage(format!("cannot read {}: {error}", args.folder.display()));
    let mut files: Vec<PathBuf> = std::fs::read_dir(&args.folder)
        .map_err(unreadable)?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "jsonl"))
        .collect();
    files.sort();
    if files.is_empty() {
        return Err(Failure::Usage(format!("there is no bundle (*.jsonl) in {}", args.folder.display())));
    }
    let results: Vec<(String, Outcome)> = files
        .iter()
        .map(|file| (file.file_name().unwrap_or_default().to_string_lossy().into_owned(), replayed(file)))
        .collect();
    if let Some(file) = &args.junit {
        let unwritable = |error| Failure::Usage(format!("cannot write {}: {error}", file.display()));
        std::fs::write(file, junit(&results)).map_err(unwritable)?;
    }
    let failed = results.iter().filter(|(_, outcome)| !matches!(outcome, Outcome::Identical(_))).count();
    if cx.output.json {
        let item = |(name, outcome): &(String, Outcome)| json!({ "bundle": name, "identical": outcome.problem().is_none(), "problem": outcome.problem() });
        cx.output.line(json!({ "items": results.iter().map(item).collect::<Vec<_>>(), "failed": failed }))?;
    }
    for (name, outcome) in results.iter().filter(|_| !cx.output.json) {
        match outcome.problem() {
            None => cx.output.line(format!("{} {}", cx.output.out.good('✓'), plain(name)))?,
            Some(problem) => {
                cx.output.line(format!("{} {}  {}", cx.output.out.bad('✗'), plain(name), plain(problem)))?;
            }
        }
    }
    if !cx.output.json {
        cx.output.line(format!("{} of {} identical", results.len() - failed, results.len()))?;
    }
    Ok(if failed == 0 { Exit::Ok } else { Exit::Failed })
}

/// Has the server hold a journal against its hashes.
pub async fn verify(cx: &Context, run: &str) -> Result<Exit, Failure> {
    let answer = cx.client.get(&format!("{}/verify", path(RUNS, run)), &[]).await?;
    let found: Verification = answer.read()?;
    if cx.output.json {
        cx.output.line(answer.text.trim_end())?;
    } else if found.intact {
        cx.output.line(cx.output.out.good(format!("✓ {} entries, head {}", found.entries, found.head)))?;
    } else {
        let (at, why) = (found.broken_at.unwrap_or_default(), found.why.unwrap_or_default());
        cx.output.line(cx.output.out.bad(format!("✗ entry {at}: {}", plain(&why))))?;
    }
    Ok(if found.intact { Exit::Ok } else { Exit::Failed })
}

/// What came of a replay.
enum Outcome {
    Identical(usize),
    /// In words, and as data.
    Diverged(String, serde_json::Value),
    Unusable(String),
}

impl Outcome {
    fn problem(&self) -> Option<&str> {
        match self {
            Outcome::Identical(_) => None,
            Outcome::Diverged(text, _) => Some(text),
            Outcome::Unusable(problem) => Some(problem),
        }
    }

    fn exit(&self) -> Exit {
        match self {
            Outcome::Identical(_) => Exit::Ok,
            Outcome::Diverged(..) => Exit::Failed,
            Outcome::Unusable(_) => Exit::Invalid,
        }
    }
}

fn replayed(file: &Path) -> Outcome {
    let text = match std::fs::read(file) {
        Ok(bytes) => bytes,
        Err(error) => return Outcome::Unusable(format!("cannot read {}: {error}", file.display())),
    };
    let Ok(text) = String::from_utf8(text) else {
        return Outcome::Unusable("this is no bundle: it is not UTF-8".to_owned());
    };
    let replayed = Bundle::read(&text).and_then(|bundle| Ok((bundle.entries.len(), bundle.replay()?)));
    match replayed {
        Ok((entries, None)) => Outcome::Identical(entries),
        Ok((_, Some(divergence))) => {
            Outcome::Diverged(divergence.to_string(), serde_json::to_value(&divergence).unwrap_or_default())
        }
        Err(error) => Outcome::Unusable(error.to_string()),
    }
}

/// The results in the form that CI servers read.
fn junit(results: &[(String, Outcome)]) -> String {
    let failures = results.iter().filter(|(_, outcome)| matches!(outcome, Outcome::Diverged(..))).count();
    let errors = results.iter().filter(|(_, outcome)| matches!(outcome, Outcome::Unusable(_))).count();
    let mut xml = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let tests = results.len();
    // Writing to a String cannot fail.
    let _ = writeln!(
        xml,
        "<testsuite name=\"toolwright runs test\" tests=\"{tests}\" failures=\"{failures}\" errors=\"{errors}\">"
    );
    for (name, outcome) in results {
        let name = escaped(name);
        let _ = match outcome {
            Outcome::Identical(_) => writeln!(xml, "  <testcase classname=\"runs\" name=\"{name}\"/>"),
            Outcome::Diverged(text, _) => writeln!(
                xml,
                "  <testcase classname=\"runs\" name=\"{name}\"><failure message=\"{}\"/></testcase>",
                escaped(text)
            ),
            Outcome::Unusable(problem) => writeln!(
                xml,
                "  <testcase classname=\"runs\" name=\"{name}\"><error message=\"{}\"/></testcase>",
                escaped(problem)
            ),
        };
    }
    xml.push_str("</testsuite>\n");
    xml
}

/// Text as XML takes it; control characters, which it does not, are left out.
fn escaped(text: &str) -> String {
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
