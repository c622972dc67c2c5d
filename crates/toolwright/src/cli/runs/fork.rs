//! `runs fork` and `runs diff`: a run that goes on differently, and where two runs differ.

use std::path::PathBuf;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::cli::Context;
use crate::cli::client::{RUNS, parse_name, path};
use crate::cli::exit::Exit;
use crate::cli::failure::Failure;
use crate::cli::input::json_argument;
use crate::cli::output::plain;

/// Which run, from where on, and what is different.
#[derive(clap::Args)]
pub struct ForkArgs {
    /// The run
    #[arg(value_name = "RUN", value_parser = parse_name)]
    run: String,
    /// The last entry that both runs share, from 1
    #[arg(long, value_name = "ENTRY")]
    at: u64,
    /// What the user says instead
    #[arg(long, value_name = "TEXT")]
    message: Option<String>,
    /// A file with the instructions instead
    #[arg(long, value_name = "FILE")]
    prompt: Option<PathBuf>,
    /// The model instead, as PROVIDER/MODEL or MODEL
    #[arg(long)]
    model: Option<String>,
    /// What the call that ends with the entry returned instead, `@FILE` to read it from there, or `-` for standard input
    #[arg(long, value_name = "JSON")]
    result: Option<String>,
    /// A version to use of a tool
    #[arg(long = "tool", value_name = "NAME@VERSION", value_parser = parse_tool)]
    tools: Vec<(String, String)>,
}

/// Which two.
#[derive(clap::Args)]
pub struct DiffArgs {
    /// One run
    #[arg(value_name = "RUN", value_parser = parse_name)]
    run: String,
    /// The other
    #[arg(value_name = "OTHER", value_parser = parse_name)]
    other: String,
}

#[derive(Deserialize)]
struct Differences {
    differences: Vec<Difference>,
}

/// A field in which two runs differ.
#[derive(Deserialize)]
pub struct Difference {
    field: String,
    expected: Value,
    got: Value,
}

/// Starts a run with the beginning of another.
pub async fn fork(cx: &Context, args: ForkArgs) -> Result<Exit, Failure> {
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
            .map_err(|error| Failure::Usage(format!("cannot read {}: {error}", file.display())))?;
        put("prompt", Some(Value::String(text)));
    }
    put("model", args.model.map(Value::String));
    put("result", args.result.as_deref().map(|given| json_argument("--result", given)).transpose()?);
    if !args.tools.is_empty() {
        put("tools", Some(args.tools.into_iter().map(|(name, version)| (name, Value::String(version))).collect()));
    }
    let answer = cx.client.call(&format!("{}/fork", path(RUNS, &args.run)), &Value::Object(body)).await?;
    if cx.output.json {
        cx.output.line(answer.text.trim_end())?;
    } else {
        let new: Value = answer.read()?;
        let run = new.get("runId").and_then(Value::as_str).unwrap_or_default();
        cx.output.line(format!("{} {} goes on as {}", cx.output.out.good('✓'), args.run, plain(run)))?;
        cx.output.note(format!("toolwright runs watch {}", plain(run)));
    }
    Ok(Exit::Ok)
}

/// Shows where the outcomes of two runs differ.
pub async fn diff(cx: &Context, args: &DiffArgs) -> Result<Exit, Failure> {
    let address = path(&format!("{}/diff", path(RUNS, &args.run)), &args.other);
    let answer = cx.client.get(&address, &[]).await?;
    let found: Differences = answer.read()?;
    if cx.output.json {
        cx.output.line(answer.text.trim_end())?;
    } else {
        show_differences(cx, &found.differences)?;
    }
    Ok(if found.differences.is_empty() { Exit::Ok } else { Exit::Failed })
}

/// Shows each field that differs, with what it was and what it is; that nothing does, if so.
pub fn show_differences(cx: &Context, differences: &[Difference]) -> Result<(), Failure> {
    if differences.is_empty() {
        cx.output.line(cx.output.out.good("✓ the same"))?;
    }
    for Difference { field, expected, got } in differences {
        cx.output.line(plain(field))?;
        cx.output.line(cx.output.out.bad(format!("  - {}", plain(&expected.to_string()))))?;
        cx.output.line(cx.output.out.good(format!("  + {}", plain(&got.to_string()))))?;
    }
    Ok(())
}

fn parse_tool(text: &str) -> Result<(String, String), String> {
    match text.rsplit_once('@') {
        Some((name, version)) if !name.is_empty() && !version.is_empty() => Ok((name.to_owned(), version.to_owned())),
        _ => Err("write NAME@VERSION, such as hubspot/search-deals@1.2.0".to_owned()),
    }
}
