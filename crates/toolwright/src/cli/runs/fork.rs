//! `runs fork` and `runs diff`: forks a run with changes, and compares two runs.

use std::path::PathBuf;

use serde_json::{Map, Value, json};
use toolwright_api::wire::{AcceptedView, DivergenceView, RunDiffView};
use toolwright_machine::journal::diff::ValueDifference;

use crate::cli::Context;
use crate::cli::client::{RUNS, parse_name, path};
use crate::cli::exit::Exit;
use crate::cli::failure::Failure;
use crate::cli::input::parse_json_argument;
use crate::cli::output::sanitize_line;

/// Arguments of `runs fork`.
#[derive(clap::Args)]
pub(crate) struct ForkArgs {
    /// Run ID
    #[arg(value_name = "RUN", value_parser = parse_name)]
    run: String,
    /// Number of the last journal entry that both runs share, starting at 1
    #[arg(long, value_name = "ENTRY")]
    at: u64,
    /// Replace the user message
    #[arg(long, value_name = "TEXT")]
    message: Option<String>,
    /// Replace the system prompt with the contents of a file
    #[arg(long, value_name = "FILE")]
    prompt: Option<PathBuf>,
    /// Replace the model, as PROVIDER/MODEL or MODEL
    #[arg(long)]
    model: Option<String>,
    /// Replace the result of the call that ends at the entry, as JSON, `@FILE` to read a file, or `-` for standard
    /// input
    #[arg(long, value_name = "JSON")]
    result: Option<String>,
    /// Use this version of a tool; may be repeated
    #[arg(long = "tool", value_name = "NAME@VERSION", value_parser = parse_tool)]
    tools: Vec<(String, String)>,
    /// Allow the fork to send writes again that the original run completed after the entry
    #[arg(long)]
    send_writes: bool,
}

/// Arguments of `runs diff`.
#[derive(clap::Args)]
pub(crate) struct DiffArgs {
    /// First run ID
    #[arg(value_name = "RUN", value_parser = parse_name)]
    run: String,
    /// Second run ID
    #[arg(value_name = "OTHER", value_parser = parse_name)]
    other: String,
}

/// Forks a run.
pub(super) async fn fork(cx: &Context, args: ForkArgs) -> Result<Exit, Failure> {
    let mut body = Map::new();
    body.insert("at".into(), json!(args.at));
    let mut put = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            body.insert(name.into(), value);
        }
    };
    put("message", args.message.map(Value::String));
    if let Some(file) = &args.prompt {
        let text = std::fs::read_to_string(file)
            .map_err(|error| Failure::Usage(format!("cannot read `{}`: {error}", file.display())))?;
        put("prompt", Some(Value::String(text)));
    }
    put("model", args.model.map(Value::String));
    put("result", args.result.as_deref().map(|given| parse_json_argument("--result", given)).transpose()?);
    if !args.tools.is_empty() {
        put("tools", Some(args.tools.into_iter().map(|(name, version)| (name, Value::String(version))).collect()));
    }
    put("sendWrites", args.send_writes.then_some(Value::Bool(true)));
    let response = cx.client.call(&format!("{}/fork", path(RUNS, &args.run)), &Value::Object(body)).await?;
    if cx.output.json {
        cx.output.document(response.text.trim_end())?;
    } else {
        let run = sanitize_line(&response.read::<AcceptedView>()?.run_id);
        cx.output.line(format!("{} forked {} as {}", cx.output.out.good('✓'), args.run, run))?;
        cx.output.note(format!("follow it with `toolwright runs watch {run}`"));
    }
    Ok(Exit::Ok)
}

/// Compares the outcomes of two runs.
pub(super) async fn diff(cx: &Context, args: &DiffArgs) -> Result<Exit, Failure> {
    let address = path(&format!("{}/diff", path(RUNS, &args.run)), &args.other);
    let response = cx.client.get(&address, &[]).await?;
    let found: RunDiffView = response.read()?;
    if cx.output.json {
        cx.output.document(response.text.trim_end())?;
    } else {
        show_differences(cx, &found.differences)?;
        if let Some(divergence) = &found.first_divergence {
            show_divergence(cx, divergence)?;
        }
    }
    Ok(if found.differences.is_empty() { Exit::Ok } else { Exit::Failed })
}

/// Prints the first journal entry that differs.
fn show_divergence(cx: &Context, divergence: &DivergenceView) -> Result<(), Failure> {
    let kind = |kind: &Option<String>| kind.as_deref().map_or_else(|| "no entry".to_owned(), sanitize_line);
    let (one, other) = (kind(&divergence.kind), kind(&divergence.other_kind));
    let kinds = if one == other { one } else { format!("{one}, {other}") };
    let at = format!("the journals differ from entry {} ({kinds})", divergence.n);
    Ok(cx.output.line(cx.output.out.dim(at))?)
}

/// Prints the expected and actual value of each field that differs, or a confirmation if none does.
pub(super) fn show_differences(cx: &Context, differences: &[ValueDifference]) -> Result<(), Failure> {
    if differences.is_empty() {
        cx.output.line(cx.output.out.good("✓ no differences"))?;
    }
    for ValueDifference { field, expected, got } in differences {
        cx.output.line(sanitize_line(field))?;
        cx.output.line(cx.output.out.bad(format!("  - {}", sanitize_line(&expected.to_string()))))?;
        cx.output.line(cx.output.out.good(format!("  + {}", sanitize_line(&got.to_string()))))?;
    }
    Ok(())
}

fn parse_tool(text: &str) -> Result<(String, String), String> {
    match text.rsplit_once('@') {
        Some((name, version)) if !name.is_empty() && !version.is_empty() => Ok((name.to_owned(), version.to_owned())),
        _ => Err("expected NAME@VERSION, such as hubspot/search-deals@1.2.0".to_owned()),
    }
}
