//! `runs cancel`, `delete`, `approve`, `deny`, `edit` and `results`: subcommands that control a run.

use serde_json::{Value, json};
use toolwright_api::wire::{AgentResponseView, RunView};

use crate::cli::Context;
use crate::cli::client::{ApiResponse, RUNS, parse_name, path};
use crate::cli::exit::Exit;
use crate::cli::failure::Failure;
use crate::cli::follow;
use crate::cli::input::parse_json_argument;
use crate::cli::output::{sanitize, sanitize_line, wrap};

/// The call to act on, and whether to wait for the run.
#[derive(clap::Args)]
pub(super) struct CallTarget {
    /// Run ID
    #[arg(value_name = "RUN", value_parser = parse_name)]
    run: String,
    /// Call ID, such as call_…
    #[arg(value_name = "CALL", value_parser = parse_name)]
    call: String,
    /// Return without waiting for the run
    #[arg(long)]
    no_wait: bool,
}

/// Arguments of `runs approve`.
#[derive(clap::Args)]
pub(crate) struct ApproveArgs {
    #[command(flatten)]
    target: CallTarget,
}

/// Arguments of `runs deny`.
#[derive(clap::Args)]
pub(crate) struct DenyArgs {
    #[command(flatten)]
    target: CallTarget,
    /// Reason, shown to the model
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

/// Arguments of `runs edit`.
#[derive(clap::Args)]
pub(crate) struct EditArgs {
    #[command(flatten)]
    target: CallTarget,
    /// New input as JSON, `@FILE` to read a file, or `-` to read standard input
    #[arg(long, value_name = "JSON")]
    input: String,
}

/// Arguments of `runs results`.
#[derive(clap::Args)]
pub(crate) struct ResultsArgs {
    #[command(flatten)]
    target: CallTarget,
    /// Result as JSON, `@FILE` to read a file, or `-` to read standard input
    #[arg(long, value_name = "JSON", required_unless_present = "error")]
    output: Option<String>,
    /// Error message, if the action failed
    #[arg(long, value_name = "TEXT", conflicts_with = "output")]
    error: Option<String>,
}

pub(super) async fn cancel(cx: &Context, run: &str) -> Result<Exit, Failure> {
    let response = cx.client.call(&format!("{}/cancel", path(RUNS, run)), &json!({})).await?;
    if cx.output.json {
        cx.output.document(response.text.trim_end())?;
    } else {
        cx.output.lines(follow::summary_lines(&cx.output, &response.read()?, None))?;
    }
    Ok(Exit::Ok)
}

pub(super) async fn delete(cx: &Context, run: &str) -> Result<Exit, Failure> {
    cx.client.delete(&path(RUNS, run), &[]).await?;
    if cx.output.json {
        cx.output.document(json!({ "items": [{ "ref": run, "outcome": "deleted" }] }))?;
    } else {
        cx.output.line(format!("{} {run} deleted", cx.output.out.good('✓')))?;
    }
    Ok(Exit::Ok)
}

pub(super) async fn approve(cx: &Context, args: ApproveArgs) -> Result<Exit, Failure> {
    args.target.decide(cx, "approved", json!({ "decision": "approve" })).await
}

pub(super) async fn deny(cx: &Context, args: DenyArgs) -> Result<Exit, Failure> {
    args.target.decide(cx, "denied", json!({ "decision": "deny", "reason": args.reason })).await
}

/// Approves a call with an edited input.
pub(super) async fn edit(cx: &Context, args: EditArgs) -> Result<Exit, Failure> {
    let input = parse_json_argument("--input", &args.input)?;
    args.target.decide(cx, "approved with edited input", json!({ "decision": "edit", "input": input })).await
}

/// Sends the result of a client action to the run.
pub(super) async fn results(cx: &Context, args: ResultsArgs) -> Result<Exit, Failure> {
    let call = &args.target.call;
    let result = match &args.output {
        Some(given) => json!({ "callId": call, "output": parse_json_argument("--output", given)? }),
        None => json!({ "callId": call, "error": args.error }),
    };
    let address = format!("{}/tool-results", path(RUNS, &args.target.run));
    args.target.send(cx, "returned", &address, json!({ "results": [result] })).await
}

impl CallTarget {
    async fn decide(&self, cx: &Context, word: &str, body: Value) -> Result<Exit, Failure> {
        self.send(cx, word, &follow::approval_path(&self.run, &self.call), body).await
    }

    async fn send(&self, cx: &Context, word: &str, address: &str, body: Value) -> Result<Exit, Failure> {
        let wait = if self.no_wait { "?wait=false" } else { "" };
        let response = cx.client.call(&format!("{address}{wait}"), &body).await?;
        if !cx.output.json {
            cx.output.line(format!("{} {} {word}", cx.output.out.good('✓'), self.call))?;
        }
        let exit = if self.no_wait { show_accepted(cx, &response) } else { show_settled_run(cx, &response) }?;
        self.note_parent_run(cx).await;
        Ok(exit)
    }

    /// If another run started this run, tells that the other run continues. A failed request is ignored, because the
    /// decision was sent.
    async fn note_parent_run(&self, cx: &Context) {
        let run = follow::fetch_run(cx, &self.run).await.and_then(|response| response.read::<RunView>());
        if let Ok(RunView { origin, .. }) = run
            && let Some(parent) = origin.parent_run_id.as_deref().map(sanitize_line)
        {
            let note = format!("the parent run {parent} continues; follow it with `toolwright runs watch {parent}`");
            cx.output.note(cx.output.err.dim(note));
        }
    }
}

fn show_accepted(cx: &Context, response: &ApiResponse) -> Result<Exit, Failure> {
    if cx.output.json {
        cx.output.document(response.text.trim_end())?;
    }
    Ok(Exit::Ok)
}

/// Shows a run that has ended or waits again.
fn show_settled_run(cx: &Context, response: &ApiResponse) -> Result<Exit, Failure> {
    let state: AgentResponseView = response.read()?;
    if cx.output.json {
        cx.output.document(response.text.trim_end())?;
        return Ok(follow::exit_code(&state));
    }
    let reply = &state.response.response_text;
    if state.response.status.is_terminal() && !reply.is_empty() {
        cx.output.line(format!("\n{}\n", wrap(sanitize(reply).trim_end(), cx.output.width, 0)))?;
    }
    cx.output.lines(follow::summary_lines(&cx.output, &state, None))?;
    Ok(follow::exit_code(&state))
}
