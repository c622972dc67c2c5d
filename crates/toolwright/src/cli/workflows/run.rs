//! Implements `workflows run`, which starts a workflow and follows its steps.

use serde_json::{Map, Value, json};
use toolwright_api::wire::AcceptedView;
use toolwright_types::{Clock, SystemClock};

use crate::cli::Context;
use crate::cli::client::{WORKFLOWS, parse_name, path};
use crate::cli::exit::Exit;
use crate::cli::failure::Failure;
use crate::cli::follow::{self, FollowRole};
use crate::cli::input::parse_json_argument;
use crate::cli::output::sanitize_line;
use crate::cli::workflow_instances::live::{self, Subject};

/// Arguments of `workflows run`.
#[derive(clap::Args)]
#[command(after_long_help = crate::cli::exit::HELP, disable_version_flag = true)]
pub(crate) struct RunArgs {
    /// refName or ID of the workflow
    #[arg(value_name = "REF", value_parser = parse_name)]
    reference: String,
    /// Input as JSON, `@FILE` to read a file, or `-` to read standard input [default: {}]
    #[arg(long, value_name = "JSON")]
    input: Option<String>,
    /// Version or requirement, such as ^1.2 [default: the highest active version]
    #[arg(long, value_name = "VERSION")]
    version: Option<String>,
    /// Run only this step; the steps before it are skipped, so their outputs are null
    #[arg(long, value_name = "STEP")]
    only: Option<String>,
    /// Start a durable run, which continues after a crash of the server, whatever the definition says
    #[arg(long)]
    durable: bool,
    /// Start a durable run, print its ID and do not wait for it
    #[arg(long)]
    no_wait: bool,
}

/// Runs a workflow.
pub(super) async fn run(cx: &Context, args: RunArgs) -> Result<Exit, Failure> {
    let input = args.input.as_deref().map(|input| parse_json_argument("--input", input)).transpose()?;
    let input = input.unwrap_or_else(|| Value::Object(Map::new()));
    let body = json!({ "input": input, "version": args.version, "onlyStep": args.only });
    let execute = format!("{}/execute", path(WORKFLOWS, &args.reference));
    if args.no_wait || args.durable {
        let response = cx.client.post(&format!("{execute}/durable"), &body).await?;
        let started: AcceptedView = response.read()?;
        if args.no_wait {
            return live::show_accepted(cx, &response, &sanitize_line(&started.run_id));
        }
        return live::watch(cx, &started.run_id, FollowRole::Owner).await;
    }
    // The response names the run only with its first event. Until then, the run is found by this id.
    let correlation = format!("cli-{}-{}", std::process::id(), SystemClock.now().as_micros());
    let feed = follow::start_correlated_run(&cx.client, &format!("{execute}/stream"), &body, &correlation).await?;
    live::follow(cx, feed, Subject::Started(correlation), FollowRole::Owner).await
}
