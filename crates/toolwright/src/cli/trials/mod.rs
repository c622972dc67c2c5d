//! `toolwright trials …`: implementations of an agent's tools side by side.

mod input;
mod show;

use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Map, Value, json};
use toolwright_types::{Clock as _, SystemClock, Timestamp};

use self::input::{inputs, library, recorded};
use self::show::{LiveReport, Trial};
use super::Context;
use super::client::{AGENTS, Answer, TRIALS, parse_name, path};
use super::exit::Exit;
use super::failure::Failure;
use super::output::plain;
use super::time::parse_duration;

/// How long to wait before looking again: at first, and at most. A report reads every run of the trial.
const PATIENCE: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(3));

/// What can be done with trials.
#[derive(clap::Subcommand)]
pub enum TrialsCommand {
    /// Run an agent with two libraries over the same inputs or recorded runs, and compare them
    Run(RunArgs),
    /// Show a trial, as far as it has come
    Show(ShowArgs),
    /// Compare what became of an agent's runs with and without the library of its split
    Report(ReportArgs),
}

/// Two libraries, and what they are tried on.
#[derive(clap::Args)]
pub struct RunArgs {
    /// The agent
    #[arg(value_name = "AGENT", value_parser = parse_name)]
    agent: String,
    /// A library: one of the agent's, `default`, TOOL@VERSION or TOOL=OTHER@VERSION (several with commas), or @FILE with
    /// a JSON object of them
    #[arg(long, value_name = "LIBRARY")]
    a: String,
    /// The library that is held against it
    #[arg(long, value_name = "LIBRARY")]
    b: String,
    /// What users say: a file with a JSON text, or an object with `userMessage` and `context`, on each line; `-` for
    /// standard input
    #[arg(long, value_name = "FILE", conflicts_with = "runs", required_unless_present = "runs")]
    inputs: Option<PathBuf>,
    /// Recorded runs instead, by their ids, or a folder of bundles
    #[arg(long, value_name = "RUN|FOLDER", num_args = 1..)]
    runs: Vec<String>,
    /// How often each is tried
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    repeat: u32,
    /// Make the writes of both, instead of capturing them
    #[arg(long, conflicts_with = "runs")]
    send_writes: bool,
}

/// Which trial.
#[derive(clap::Args)]
pub struct ShowArgs {
    /// Its id, such as trial_01J…
    #[arg(value_name = "TRIAL", value_parser = parse_name)]
    trial: String,
}

/// Which runs.
#[derive(clap::Args)]
pub struct ReportArgs {
    /// The agent
    #[arg(value_name = "AGENT", value_parser = parse_name)]
    agent: String,
    /// Only runs of this last while, such as 12h or 7d; all when absent
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    since: Option<Duration>,
}

/// Runs one of them.
pub async fn run(cx: &Context, command: TrialsCommand) -> Result<Exit, Failure> {
    match command {
        TrialsCommand::Run(args) => compare(cx, args).await,
        TrialsCommand::Show(args) => {
            let answer = cx.client.get(&path(TRIALS, &args.trial), &[]).await?;
            let trial: Trial = answer.read()?;
            show(cx, &answer, &trial)
        }
        TrialsCommand::Report(args) => report(cx, &args).await,
    }
}

async fn compare(cx: &Context, args: RunArgs) -> Result<Exit, Failure> {
    let mut body = Map::new();
    body.insert("agentRef".into(), json!(args.agent));
    body.insert("a".into(), library("--a", &args.a)?);
    body.insert("b".into(), library("--b", &args.b)?);
    body.insert("repeat".into(), json!(args.repeat));
    let (name, tried) = match &args.inputs {
        Some(file) => ("inputs", inputs(file)?),
        None => recorded(&args.runs)?,
    };
    body.insert(name.into(), tried);
    if args.send_writes {
        body.insert("writes".into(), json!("send"));
    }
    let begun: Value = cx.client.call(TRIALS, &Value::Object(body)).await?.read()?;
    let id = begun.get("trialId").and_then(Value::as_str).unwrap_or_default();
    cx.output.note(format!("{} has begun", plain(id)));
    let (mut patience, longest) = PATIENCE;
    loop {
        let answer = cx.client.get(&path(TRIALS, id), &[]).await?;
        let trial: Trial = answer.read()?;
        if !trial.under_way {
            return show(cx, &answer, &trial);
        }
        tokio::time::sleep(patience).await;
        patience = (patience * 2).min(longest);
    }
}

/// Shows a trial. One that has ended with runs missing is a failure.
fn show(cx: &Context, answer: &Answer, trial: &Trial) -> Result<Exit, Failure> {
    match cx.output.json {
        true => cx.output.line(answer.text.trim_end())?,
        false => trial.show(cx)?,
    }
    Ok(if trial.under_way || trial.is_whole() { Exit::Ok } else { Exit::Failed })
}

async fn report(cx: &Context, args: &ReportArgs) -> Result<Exit, Failure> {
    let since = args.since.map(|since| {
        let micros = i64::try_from(since.as_micros()).unwrap_or(i64::MAX);
        Timestamp::from_micros(SystemClock.now().as_micros().saturating_sub(micros)).to_string()
    });
    let query: Vec<(&str, String)> = since.into_iter().map(|since| ("since", since)).collect();
    let answer = cx.client.get(&format!("{}/trial-report", path(AGENTS, &args.agent)), &query).await?;
    let found: LiveReport = answer.read()?;
    match cx.output.json {
        true => cx.output.line(answer.text.trim_end())?,
        false => found.show(cx, &args.agent)?,
    }
    Ok(Exit::Ok)
}
