//! `toolwright runs …`: one file per command, those that steer in one.

mod list;
mod show;
mod steer;
mod watch;

use super::Context;
use super::client::parse_name;
use super::exit::Exit;
use super::failure::Failure;

/// What can be done with runs.
#[derive(clap::Subcommand)]
pub enum RunsCommand {
    /// List runs, those that began last first
    List(list::ListArgs),
    /// Show what a run did, what it took and what it answered
    Show(show::ShowArgs),
    /// Watch a run from its beginning to its end
    Watch(Which),
    /// Stop a run, and every run that it started
    Cancel(Which),
    /// Approve a call, and wait for the run
    Approve(steer::ApproveArgs),
    /// Deny a call, and wait for the run
    Deny(steer::DenyArgs),
    /// Approve a call with another input, and wait for the run
    Edit(steer::EditArgs),
    /// Return what a client made of its call, and wait for the run
    Results(steer::ResultsArgs),
}

/// Which run.
#[derive(clap::Args)]
pub struct Which {
    /// Its id, such as run_01J…
    #[arg(value_name = "RUN", value_parser = parse_name)]
    run: String,
}

/// Runs one of them.
pub async fn run(cx: &Context, command: RunsCommand) -> Result<Exit, Failure> {
    match command {
        RunsCommand::List(args) => list::run(cx, args).await,
        RunsCommand::Show(args) => show::run(cx, args).await,
        RunsCommand::Watch(which) => watch::run(cx, &which.run).await,
        RunsCommand::Cancel(which) => steer::cancel(cx, &which.run).await,
        RunsCommand::Approve(args) => steer::approve(cx, args).await,
        RunsCommand::Deny(args) => steer::deny(cx, args).await,
        RunsCommand::Edit(args) => steer::edit(cx, args).await,
        RunsCommand::Results(args) => steer::results(cx, args).await,
    }
}
