//! Implements `workflow-instances signal`, `pause`, `resume`, `cancel` and `retry`.

use serde_json::{Value, json};
use toolwright_api::wire::AcceptedView;

use super::InstanceArg;
use super::live::{self, no_fields, show_accepted, show_settled};
use crate::cli::Context;
use crate::cli::client::{WORKFLOW_INSTANCES, encode_segment, parse_name, path};
use crate::cli::exit::Exit;
use crate::cli::failure::Failure;
use crate::cli::follow::FollowRole;
use crate::cli::input::parse_json_argument;
use crate::cli::output::sanitize_line;

/// Arguments of `workflow-instances signal`.
#[derive(clap::Args)]
#[command(after_long_help = crate::cli::exit::HELP)]
pub(crate) struct SignalArgs {
    #[command(flatten)]
    target: InstanceArg,
    /// Name of the signal
    #[arg(value_name = "NAME", value_parser = parse_name)]
    name: String,
    /// Data of the signal as JSON, `@FILE` to read a file, or `-` to read standard input [default: null]
    #[arg(long, value_name = "JSON")]
    data: Option<String>,
    /// Return without waiting for the run
    #[arg(long)]
    no_wait: bool,
}

/// Arguments of `workflow-instances pause` and `resume`.
#[derive(clap::Args)]
#[command(after_long_help = crate::cli::exit::HELP)]
pub(crate) struct CommandArgs {
    #[command(flatten)]
    target: InstanceArg,
    /// Return without waiting for the run
    #[arg(long)]
    no_wait: bool,
}

/// Arguments of `workflow-instances retry`.
#[derive(clap::Args)]
#[command(after_long_help = crate::cli::exit::HELP)]
pub(crate) struct RetryArgs {
    #[command(flatten)]
    target: InstanceArg,
    /// Run this step and all steps after it again [default: the steps that failed or did not run]
    #[arg(long, value_name = "STEP")]
    from: Option<String>,
    /// Run only this step again
    #[arg(long, value_name = "STEP", conflicts_with = "from")]
    only: Option<String>,
    /// Run all items of a failed forEach again, not only the failed items
    #[arg(long)]
    all_items: bool,
    /// Use the current definition of the workflow instead of the definition of the earlier run
    #[arg(long)]
    latest: bool,
    /// Print the ID of the new run and do not wait for it
    #[arg(long)]
    no_wait: bool,
}

/// Sends a signal.
pub(super) async fn signal(cx: &Context, args: SignalArgs) -> Result<Exit, Failure> {
    let data = args.data.as_deref().map(|data| parse_json_argument("--data", data)).transpose()?;
    let command = format!("signals/{}", encode_segment(&args.name));
    send(cx, &args.target.run, &command, "signalled", &data.unwrap_or_default(), args.no_wait).await
}

/// Pauses a run.
pub(super) async fn pause(cx: &Context, args: CommandArgs) -> Result<Exit, Failure> {
    send(cx, &args.target.run, "pause", "paused", &no_fields(), args.no_wait).await
}

/// Resumes a run.
pub(super) async fn resume(cx: &Context, args: CommandArgs) -> Result<Exit, Failure> {
    send(cx, &args.target.run, "resume", "resumed", &no_fields(), args.no_wait).await
}

/// Cancels a run. The exit code is 0 if the run is cancelled.
pub(super) async fn cancel(cx: &Context, target: &InstanceArg) -> Result<Exit, Failure> {
    cx.client.call(&format!("{}/cancel", path(WORKFLOW_INSTANCES, &target.run)), &no_fields()).await?;
    show_settled(cx, &target.run).await?;
    Ok(Exit::Ok)
}

/// Starts a run that reuses results of another, and follows it.
pub(super) async fn retry(cx: &Context, args: RetryArgs) -> Result<Exit, Failure> {
    let RetryArgs { target, from, only, all_items, latest, no_wait } = args;
    let body = json!({ "fromStep": from, "onlyStep": only, "allItems": all_items, "latest": latest });
    let address = format!("{}/retry?wait=false", path(WORKFLOW_INSTANCES, &target.run));
    let response = cx.client.post(&address, &body).await?;
    let started: AcceptedView = response.read()?;
    if no_wait {
        return show_accepted(cx, &response, &sanitize_line(&started.run_id));
    }
    live::watch(cx, &started.run_id, FollowRole::Owner).await
}

/// Sends a command, and shows the run when it has ended or waits.
async fn send(
    cx: &Context,
    run: &str,
    command: &str,
    done: &str,
    body: &Value,
    no_wait: bool,
) -> Result<Exit, Failure> {
    let wait = if no_wait { "?wait=false" } else { "" };
    let response = cx.client.call(&format!("{}/{command}{wait}", path(WORKFLOW_INSTANCES, run)), body).await?;
    if no_wait {
        return show_accepted(cx, &response, &format!("{} {run} {done}", cx.output.out.good('✓')));
    }
    show_settled(cx, run).await
}
