//! `toolwright trials`: compares implementations of an agent's tools.

mod input;
mod show;

use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Map, Value, json};
use toolwright_api::wire::{LiveReportView, TrialItemView, TrialStartedView, TrialView};
use toolwright_types::{Clock as _, SystemClock, Timestamp};

use self::input::{parse_library, read_inputs, recorded_runs};
use self::show::{is_complete, show_live_report, show_trial};
use super::Context;
use super::client::{AGENTS, ApiResponse, TRIALS, parse_name, path};
use super::exit::Exit;
use super::failure::Failure;
use super::output::sanitize_line;
use super::pages::{List, PageArgs};
use super::table::Table;
use super::time::{format_minute, parse_duration};

/// The initial and the maximum polling delay. Polling is expensive: a report reads every run of the trial.
const POLL_DELAYS: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(3));

/// Subcommands of `trials`.
#[derive(clap::Subcommand)]
pub(crate) enum TrialsCommand {
    /// Run an agent with two libraries on the same inputs or recorded runs, and compare the results
    Run(RunArgs),
    /// List trials, newest first
    List(ListArgs),
    /// Show the current results of a trial
    #[command(visible_alias = "show")]
    Get(ShowArgs),
    /// Compare an agent's live runs with and without the library of its A/B split, and shadow runs with their originals
    Report(ReportArgs),
}

/// Arguments of `trials run`.
#[derive(clap::Args)]
pub(crate) struct RunArgs {
    /// refName or ID of the agent
    #[arg(value_name = "AGENT", value_parser = parse_name)]
    agent: String,
    /// Library A: a library of the agent, `default`, a comma-separated list of TOOL@VERSION or TOOL=OTHER@VERSION, or
    /// @FILE with a JSON object of bindings
    #[arg(long, value_name = "LIBRARY")]
    a: String,
    /// Library B, in the same form
    #[arg(long, value_name = "LIBRARY")]
    b: String,
    /// File with user messages, one per line: a JSON string, or an object with `userMessage` and `context`; `-` for
    /// standard input
    #[arg(long, value_name = "FILE", conflicts_with = "runs", required_unless_present = "runs")]
    inputs: Option<PathBuf>,
    /// Use recorded runs instead of inputs: run IDs, or a directory of bundles
    #[arg(long, value_name = "RUN|DIR", num_args = 1..)]
    runs: Vec<String>,
    /// Number of runs per input and library
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    repeat: u32,
    /// Execute the writes of both libraries instead of capturing them
    #[arg(long, conflicts_with = "runs")]
    send_writes: bool,
}

/// Arguments of `trials list`.
#[derive(clap::Args)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    page: PageArgs,
    /// Filter by agent
    #[arg(long, value_name = "REF")]
    agent: Option<String>,
    /// Filter by status
    #[arg(long, value_parser = ["running", "ended"])]
    status: Option<String>,
}

/// Arguments of `trials get`.
#[derive(clap::Args)]
pub(crate) struct ShowArgs {
    /// Trial ID, such as trial_01J…
    #[arg(value_name = "TRIAL", value_parser = parse_name)]
    trial: String,
}

/// Arguments of `trials report`.
#[derive(clap::Args)]
pub(crate) struct ReportArgs {
    /// refName or ID of the agent
    #[arg(value_name = "AGENT", value_parser = parse_name)]
    agent: String,
    /// Only include runs of this period, such as 12h or 7d [default: all runs]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    since: Option<Duration>,
}

/// Runs a `trials` subcommand.
pub(super) async fn run(cx: &Context, command: TrialsCommand) -> Result<Exit, Failure> {
    match command {
        TrialsCommand::Run(args) => compare(cx, args).await,
        TrialsCommand::List(args) => {
            let query = [("agentRef", args.agent), ("status", args.status)];
            let query = query.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
            let list = List { collection: TRIALS, query, empty_message: "no trials found" };
            list.show(cx, &args.page, list_table).await?;
            Ok(Exit::Ok)
        }
        TrialsCommand::Get(args) => {
            let response = cx.client.get(&path(TRIALS, &args.trial), &[]).await?;
            let trial: TrialView = response.read()?;
            show(cx, &response, &trial)
        }
        TrialsCommand::Report(args) => report(cx, &args).await,
    }
}

fn list_table(trials: &[TrialItemView]) -> Table {
    let mut table = Table::new(["TRIAL", "AGENT", "STATUS", "RUNS", "STARTED", "LIBRARIES"]);
    for trial in trials {
        let (runs, started) = (trial.runs.to_string(), format_minute(trial.started_at));
        let libraries = trial.libraries.join(", ");
        table.row([&trial.trial_id, &trial.agent_ref, &trial.status, &runs, &started, &libraries]);
    }
    table
}

async fn compare(cx: &Context, args: RunArgs) -> Result<Exit, Failure> {
    let mut body = Map::new();
    body.insert("agentRef".into(), json!(args.agent));
    body.insert("a".into(), parse_library("--a", &args.a)?);
    body.insert("b".into(), parse_library("--b", &args.b)?);
    body.insert("repeat".into(), json!(args.repeat));
    let (name, subjects) = match &args.inputs {
        Some(file) => ("inputs", read_inputs(file)?),
        None => recorded_runs(&args.runs)?,
    };
    body.insert(name.into(), subjects);
    if args.send_writes {
        body.insert("writes".into(), json!("send"));
    }
    let started: TrialStartedView = cx.client.call(TRIALS, &Value::Object(body)).await?.read()?;
    let id = &started.trial_id;
    cx.output.note(format!("started {}", sanitize_line(id)));
    let (mut delay, max_delay) = POLL_DELAYS;
    loop {
        let response = cx.client.get(&path(TRIALS, id), &[]).await?;
        let trial: TrialView = response.read()?;
        if !trial.under_way {
            return show(cx, &response, &trial);
        }
        tokio::time::sleep(delay).await;
        delay = (delay * 2).min(max_delay);
    }
}

/// Shows a trial. The exit code is `Failed` if the trial has ended and runs are missing.
fn show(cx: &Context, response: &ApiResponse, trial: &TrialView) -> Result<Exit, Failure> {
    match cx.output.json {
        true => cx.output.document(response.text.trim_end())?,
        false => show_trial(cx, trial)?,
    }
    Ok(if trial.under_way || is_complete(trial) { Exit::Ok } else { Exit::Failed })
}

async fn report(cx: &Context, args: &ReportArgs) -> Result<Exit, Failure> {
    let since = args.since.map(|since| {
        let micros = i64::try_from(since.as_micros()).unwrap_or(i64::MAX);
        Timestamp::from_micros(SystemClock.now().as_micros().saturating_sub(micros)).to_string()
    });
    let query: Vec<(&str, String)> = since.into_iter().map(|since| ("since", since)).collect();
    let response = cx.client.get(&format!("{}/trial-report", path(AGENTS, &args.agent)), &query).await?;
    let found: LiveReportView = response.read()?;
    match cx.output.json {
        true => cx.output.document(response.text.trim_end())?,
        false => show_live_report(cx, &args.agent, &found)?,
    }
    Ok(Exit::Ok)
}
