//! `runs cancel`, `approve`, `deny`, `edit` and `results`: what makes a run go on, or stop.

use serde_json::{Value, json};

use crate::cli::Context;
use crate::cli::client::{Answer, RUNS, parse_name, path};
use crate::cli::exit::Exit;
use crate::cli::failure::Failure;
use crate::cli::input::json_argument;
use crate::cli::live::{self, Report};
use crate::cli::output::printable;

/// A call, and whether to wait for what comes of it.
#[derive(clap::Args)]
pub struct Target {
    /// The run
    #[arg(value_name = "RUN", value_parser = parse_name)]
    run: String,
    /// The call, such as call_…
    #[arg(value_name = "CALL", value_parser = parse_name)]
    call: String,
    /// Do not wait for the run
    #[arg(long)]
    no_wait: bool,
}

/// Which call.
#[derive(clap::Args)]
pub struct ApproveArgs {
    #[command(flatten)]
    target: Target,
}

/// Which call, and why not.
#[derive(clap::Args)]
pub struct DenyArgs {
    #[command(flatten)]
    target: Target,
    /// Why not; the model reads it
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

/// Which call, and with what.
#[derive(clap::Args)]
pub struct EditArgs {
    #[command(flatten)]
    target: Target,
    /// What the tool is called with instead, `@FILE` to read it from there, or `-` for standard input
    #[arg(long, value_name = "JSON")]
    input: String,
}

/// Which call, and what came of it.
#[derive(clap::Args)]
pub struct ResultsArgs {
    #[command(flatten)]
    target: Target,
    /// The result, `@FILE` to read it from there, or `-` for standard input
    #[arg(long, value_name = "JSON", required_unless_present = "error")]
    output: Option<String>,
    /// Why there is none
    #[arg(long, value_name = "TEXT", conflicts_with = "output")]
    error: Option<String>,
}

/// Stops a run.
pub async fn cancel(cx: &Context, run: &str) -> Result<Exit, Failure> {
    let answer = cx.client.call(&format!("{}/cancel", path(RUNS, run)), &json!({})).await?;
    if cx.output.json {
        cx.output.line(answer.text.trim_end())?;
    } else {
        cx.output.lines(live::ending(&cx.output, &answer.read()?))?;
    }
    Ok(Exit::Ok)
}

/// Deletes a run.
pub async fn delete(cx: &Context, run: &str) -> Result<Exit, Failure> {
    cx.client.delete(&path(RUNS, run), &[]).await?;
    if cx.output.json {
        cx.output.line(json!({ "items": [{ "ref": run, "outcome": "deleted" }] }))?;
    } else {
        cx.output.line(format!("{} {run} deleted", cx.output.out.good('✓')))?;
    }
    Ok(Exit::Ok)
}

/// Approves a call.
pub async fn approve(cx: &Context, args: ApproveArgs) -> Result<Exit, Failure> {
    args.target.decide(cx, "approved", json!({ "decision": "approve" })).await
}

/// Denies a call.
pub async fn deny(cx: &Context, args: DenyArgs) -> Result<Exit, Failure> {
    args.target.decide(cx, "denied", json!({ "decision": "deny", "reason": args.reason })).await
}

/// Approves a call with another input.
pub async fn edit(cx: &Context, args: EditArgs) -> Result<Exit, Failure> {
    let input = json_argument("--input", &args.input)?;
    args.target.decide(cx, "approved with another input", json!({ "decision": "edit", "input": input })).await
}

/// Returns the result of a client's call.
pub async fn results(cx: &Context, args: ResultsArgs) -> Result<Exit, Failure> {
    let call = &args.target.call;
    let result = match &args.output {
        Some(given) => json!({ "callId": call, "output": json_argument("--output", given)? }),
        None => json!({ "callId": call, "error": args.error }),
    };
    let address = format!("{}/tool-results", path(RUNS, &args.target.run));
    args.target.send(cx, "returned", &address, json!({ "results": [result] })).await
}

impl Target {
    async fn decide(&self, cx: &Context, word: &str, body: Value) -> Result<Exit, Failure> {
        self.send(cx, word, &live::approval_path(&self.run, &self.call), body).await
    }

    async fn send(&self, cx: &Context, word: &str, address: &str, body: Value) -> Result<Exit, Failure> {
        let wait = if self.no_wait { "?wait=false" } else { "" };
        let answer = cx.client.call(&format!("{address}{wait}"), &body).await?;
        if !cx.output.json {
            cx.output.line(format!("{} {} {word}", cx.output.out.good('✓'), self.call))?;
        }
        if self.no_wait { accepted(cx, &answer) } else { settled(cx, &answer) }
    }
}

fn accepted(cx: &Context, answer: &Answer) -> Result<Exit, Failure> {
    if cx.output.json {
        cx.output.line(answer.text.trim_end())?;
    }
    Ok(Exit::Ok)
}

/// Shows where the run came to rest.
fn settled(cx: &Context, answer: &Answer) -> Result<Exit, Failure> {
    let report: Report = answer.read()?;
    if cx.output.json {
        cx.output.line(answer.text.trim_end())?;
        return Ok(live::exit(&report));
    }
    if report.status.is_end() && !report.response_text.is_empty() {
        cx.output.line(format!("\n{}\n", printable(&report.response_text).trim_end()))?;
    }
    cx.output.lines(live::ending(&cx.output, &report))?;
    Ok(live::exit(&report))
}
