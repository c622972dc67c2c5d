//! `runs undo`: takes back what a run did.

use serde::Deserialize;
use serde_json::{Value, json};

use crate::cli::Context;
use crate::cli::client::{RUNS, parse_name, path};
use crate::cli::exit::Exit;
use crate::cli::failure::Failure;
use crate::cli::output::plain;

use super::watch;

/// Which run, and how.
#[derive(clap::Args)]
pub struct UndoArgs {
    /// The run
    #[arg(value_name = "RUN", value_parser = parse_name)]
    run: String,
    /// Take back what can be, although something stays
    #[arg(long)]
    partial: bool,
    /// Only say what would be done
    #[arg(long)]
    dry_run: bool,
    /// Do not wait for it
    #[arg(long)]
    no_wait: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Plan {
    steps: Vec<Step>,
    kept: Vec<Kept>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Step {
    call_id: String,
    tool: String,
    with: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Kept {
    call_id: String,
    tool: String,
    why: String,
}

/// Undoes a run, or says what that would mean.
pub async fn run(cx: &Context, args: UndoArgs) -> Result<Exit, Failure> {
    let body = json!({ "partial": args.partial, "dryRun": args.dry_run });
    let answer = cx.client.call(&format!("{}/undo", path(RUNS, &args.run)), &body).await?;
    if args.dry_run {
        if cx.output.json {
            cx.output.line(answer.text.trim_end())?;
        } else {
            show(cx, &answer.read()?)?;
        }
        return Ok(Exit::Ok);
    }
    let new: Value = answer.read()?;
    let run = new.get("runId").and_then(Value::as_str).unwrap_or_default();
    if !args.no_wait {
        return watch::run(cx, run).await;
    }
    if cx.output.json {
        cx.output.line(answer.text.trim_end())?;
    } else {
        cx.output.line(format!("{} {} is undone by {}", cx.output.out.good('✓'), args.run, plain(run)))?;
        cx.output.note(format!("toolwright runs watch {}", plain(run)));
    }
    Ok(Exit::Ok)
}

fn show(cx: &Context, plan: &Plan) -> Result<(), Failure> {
    for Step { call_id, tool, with } in &plan.steps {
        cx.output.line(format!(
            "{} {}  {}  by {}",
            cx.output.out.good('↩'),
            plain(tool),
            plain(call_id),
            plain(with)
        ))?;
    }
    for Kept { call_id, tool, why } in &plan.kept {
        cx.output.line(format!(
            "{} {}  {}  stays: {}",
            cx.output.out.bad('✗'),
            plain(tool),
            plain(call_id),
            plain(why)
        ))?;
    }
    if plan.steps.is_empty() && plan.kept.is_empty() {
        cx.output.line("nothing to take back")?;
    }
    Ok(())
}
