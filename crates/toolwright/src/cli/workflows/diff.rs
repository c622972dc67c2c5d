//! Implements `workflows diff`, which compares two workflows.

use serde_json::{Value, json};
use toolwright_workflow::{WorkflowDiff, diff};

use super::source;
use crate::cli::Context;
use crate::cli::exit::Exit;
use crate::cli::failure::Failure;
use crate::cli::output::sanitize_line;

/// Arguments of `workflows diff`.
#[derive(clap::Args)]
#[command(after_help = "Exit codes:\n  0  no differences\n  1  differences\n  2  an error")]
pub(crate) struct DiffArgs {
    /// File with one workflow, `-` for standard input, or the refName or ID of a workflow on the server
    #[arg(value_name = "BEFORE")]
    before: String,
    /// The workflow to compare with, in the same forms
    #[arg(value_name = "AFTER")]
    after: String,
}

/// Prints the differences. The exit code is 0 without differences, 1 with differences and 2 for every error, like the
/// program `diff`.
pub(super) async fn run(cx: &Context, args: &DiffArgs) -> Result<Exit, Failure> {
    match compare(cx, args).await {
        Err(failure @ (Failure::Interrupted | Failure::Output(_))) => Err(failure),
        Err(failure) => {
            failure.report(&cx.output);
            Ok(Exit::Usage)
        }
        ended => ended,
    }
}

async fn compare(cx: &Context, args: &DiffArgs) -> Result<Exit, Failure> {
    let before = source::workflow(cx, &args.before).await?;
    let difference = diff(&before, &source::workflow(cx, &args.after).await?);
    if cx.output.json {
        cx.output.document(document(&difference))?;
    } else {
        show(cx, &difference)?;
    }
    Ok(if difference.is_empty() { Exit::Ok } else { Exit::Failed })
}

fn document(difference: &WorkflowDiff) -> Value {
    let mut document = json!({ "equal": difference.is_empty() });
    if let (Some(fields), Ok(Value::Object(changes))) = (document.as_object_mut(), serde_json::to_value(difference)) {
        fields.extend(changes);
    }
    document
}

fn show(cx: &Context, difference: &WorkflowDiff) -> Result<(), Failure> {
    if difference.is_empty() {
        cx.output.note("the workflows are equal");
    }
    let paint = cx.output.out;
    for line in difference.to_string().lines() {
        let line = sanitize_line(line);
        cx.output.line(match line.trim_start().chars().next() {
            Some('+') => paint.good(line),
            Some('-') => paint.bad(line),
            _ => paint.warn(line),
        })?;
    }
    Ok(())
}
