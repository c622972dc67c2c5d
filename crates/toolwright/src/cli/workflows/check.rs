//! Implements `workflows check`, which checks workflows as a save does.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use toolwright_api::wire::{WorkflowCheckView, WorkflowIssueView};

use super::source;
use crate::cli::Context;
use crate::cli::client::{WORKFLOWS, path};
use crate::cli::definitions::FileDefinition;
use crate::cli::exit::Exit;
use crate::cli::failure::Failure;
use crate::cli::follow::pluralize;
use crate::cli::output::sanitize_line;

/// Arguments of `workflows check`.
#[derive(clap::Args)]
#[command(after_long_help = crate::cli::exit::HELP)]
pub(crate) struct CheckArgs {
    /// Files or directories, `-` for standard input, or the refName or ID of a workflow on the server
    #[arg(value_name = "SOURCE", required = true)]
    sources: Vec<String>,
}

/// A workflow to check.
enum Subject {
    File(FileDefinition),
    Stored(String),
}

/// Checks workflows. The exit code is 6 if a workflow has an error.
pub(super) async fn run(cx: &Context, args: CheckArgs) -> Result<Exit, Failure> {
    let mut subjects = Vec::new();
    for source in args.sources {
        if source::is_file(&source) {
            subjects.extend(source::workflows(&[PathBuf::from(source)])?.into_iter().map(Subject::File));
        } else {
            subjects.push(Subject::Stored(source));
        }
    }
    let (mut exit, mut items) = (Exit::Ok, Vec::new());
    for subject in &subjects {
        let (name, file, checked) = match subject {
            Subject::File(definition) => {
                let response = cx.client.post(&format!("{WORKFLOWS}/check"), &definition.body).await?;
                (&definition.name, Some(definition), response.read::<WorkflowCheckView>()?)
            }
            Subject::Stored(name) => {
                let response = cx.client.post(&format!("{}/check", path(WORKFLOWS, name)), &json!({})).await?;
                (name, None, response.read::<WorkflowCheckView>()?)
            }
        };
        if !checked.valid {
            exit = Exit::Invalid;
        }
        if cx.output.json {
            items.push(document(name, file, &checked));
        } else {
            show(cx, name, file, &checked)?;
        }
    }
    if cx.output.json {
        cx.output.document(json!({ "items": items }))?;
    }
    Ok(exit)
}

/// The line of an issue in its file.
fn line(file: Option<&FileDefinition>, issue: &WorkflowIssueView) -> Option<usize> {
    // The name of a workflow may be written as `name`.
    let definition = file?;
    let path = match issue.path.as_str() {
        "/refName" if definition.body.get("refName").is_none() => "/name",
        path => path,
    };
    definition.lines.line(path)
}

fn document(name: &str, file: Option<&FileDefinition>, checked: &WorkflowCheckView) -> Value {
    let issues = checked.issues.iter().map(|issue| {
        let mut issue_document = serde_json::to_value(issue).unwrap_or_default();
        if let (Some(fields), Some(line)) = (issue_document.as_object_mut(), line(file, issue)) {
            fields.insert("line".into(), line.into());
        }
        issue_document
    });
    let mut document = json!({ "refName": name, "valid": checked.valid, "issues": issues.collect::<Vec<_>>() });
    if let (Some(fields), Some(definition)) = (document.as_object_mut(), file) {
        fields.insert("file".into(), definition.location.file.display().to_string().into());
    }
    document
}

fn show(cx: &Context, name: &str, file: Option<&FileDefinition>, checked: &WorkflowCheckView) -> Result<(), Failure> {
    let (paint, name) = (cx.output.out, sanitize_line(name));
    let errors = checked.issues.iter().filter(|issue| issue.severity == "error").count();
    let warnings = checked.issues.len() - errors;
    let counts: Vec<String> = [(errors, "error"), (warnings, "warning")]
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, noun)| pluralize(count as u64, noun))
        .collect();
    cx.output.line(match checked.valid {
        true if counts.is_empty() => format!("{} {name}  valid", paint.good('✓')),
        true => format!("{} {name}  valid, {}", paint.good('✓'), counts.join(", ")),
        false => format!("{} {name}  {}", paint.bad('✗'), counts.join(", ")),
    })?;
    for issue in &checked.issues {
        let is_error = issue.severity == "error";
        let word = if is_error { paint.bad("error  ") } else { paint.warn("warning") };
        let location = file.map(|definition| location(&definition.location.file, line(file, issue)));
        let place = location.map(|location| format!("{location}  ")).unwrap_or_default();
        let hint = issue.hint.as_deref().map(|hint| format!("; {hint}")).unwrap_or_default();
        let text = sanitize_line(&format!("{place}{}: {}{hint}", issue.path, issue.message));
        cx.output.line(format!("  {word}  {text}  {}", paint.dim(sanitize_line(&issue.code))))?;
    }
    Ok(())
}

fn location(file: &Path, line: Option<usize>) -> String {
    match line {
        Some(line) => format!("{}:{line}", file.display()),
        None => file.display().to_string(),
    }
}
