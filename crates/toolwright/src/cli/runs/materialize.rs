//! `runs materialize`: makes a workflow from a recorded run.

use std::path::PathBuf;

use serde_json::{Value, json};
use toolwright_api::wire::{MaterializedView, NotReproducedView};

use crate::cli::Context;
use crate::cli::client::{RUNS, parse_name, path};
use crate::cli::exit::Exit;
use crate::cli::failure::Failure;
use crate::cli::fields::text;
use crate::cli::follow::pluralize;
use crate::cli::output::sanitize_line;

/// Arguments of `runs materialize`.
#[derive(clap::Args)]
#[command(after_long_help = crate::cli::exit::HELP)]
pub(crate) struct MaterializeArgs {
    /// Run ID
    #[arg(value_name = "RUN", value_parser = parse_name)]
    run: String,
    /// Use only this call; may be repeated [default: all successful calls]
    #[arg(long = "call", value_name = "CALL", conflicts_with = "pin")]
    calls: Vec<String>,
    /// Use only the call that a pin of the run selects
    #[arg(long, value_name = "PIN")]
    pin: Option<String>,
    /// refName of the workflow [default: a name made from the run]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Create the workflow on the server
    #[arg(long)]
    save: bool,
    /// File to write in place of standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Makes a workflow from a run, and prints or creates it. The exit code is 6 if the workflow has an error.
pub(super) async fn run(cx: &Context, args: MaterializeArgs) -> Result<Exit, Failure> {
    let calls = (!args.calls.is_empty()).then_some(args.calls);
    let body = json!({ "calls": calls, "pin": args.pin, "name": args.name, "save": args.save });
    let response = cx.client.call(&format!("{}/materialize", path(RUNS, &args.run)), &body).await?;
    let made: MaterializedView = response.read()?;
    if let Some(file) = &args.output {
        let unwritable = |error| Failure::Usage(format!("cannot write `{}`: {error}", file.display()));
        std::fs::write(file, &made.yaml).map_err(unwritable)?;
    }
    let exit = if made.check.valid { Exit::Ok } else { Exit::Invalid };
    if cx.output.json {
        cx.output.document(response.text.trim_end())?;
        return Ok(exit);
    }
    let name = sanitize_line(&text(&made.definition, "refName"));
    match &args.output {
        Some(file) => {
            let written = format!("✓ wrote {name} to {}", file.display());
            cx.output.line(cx.output.out.good(written))?;
        }
        None if !made.saved => cx.output.print(&made.yaml)?,
        None => {}
    }
    if made.saved {
        cx.output.line(cx.output.out.good(format!("✓ created {name}")))?;
    }
    for line in notes(&made) {
        cx.output.note(sanitize_line(&line));
    }
    Ok(exit)
}

/// What the author should know about the workflow, one fact per line.
fn notes(made: &MaterializedView) -> Vec<String> {
    let (report, verified) = (&made.report, &made.verification);
    let mut notes = vec![format!("{} of {} reproduced", verified.reproduced, pluralize(verified.calls, "call"))];
    let left_out = report.left_out.iter().map(|call| {
        let why = if call.reason == "retried" { "failed and was called again" } else { "failed" };
        format!("left out: {} {} {why} ({})", call.tool, call.call_id, call.code)
    });
    notes.extend(left_out);
    notes.extend(report.truncated.iter().map(|step| format!("the recorded output of step `{step}` is truncated")));
    let not_reproduced =
        verified.not_reproduced.iter().map(|NotReproducedView { step, path, recorded, reason, .. }| {
            let place = match step {
                Some(step) => format!("{step}{path}"),
                None => format!("output{path}"),
            };
            let why = match reason.as_str() {
                "redacted" => "was redacted, so it is a required input".to_owned(),
                "not_found" => "is in no output of a call".to_owned(),
                "not_run" => "belongs to a step that did not run".to_owned(),
                _ => format!("differs from {}", shortened(recorded)),
            };
            format!("not reproduced: {place} {why}")
        });
    notes.extend(not_reproduced);
    notes.extend(report.warnings.iter().cloned());
    notes
        .extend(made.check.issues.iter().map(|issue| format!("{}: {}: {}", issue.severity, issue.path, issue.message)));
    notes
}

fn shortened(value: &Value) -> String {
    const MAX_CHARS: usize = 60;
    let text = value.to_string();
    match text.char_indices().nth(MAX_CHARS) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text,
    }
}
