//! `toolwright runs …`: one file per command, those that steer in one.

mod bundles;
mod fork;
mod list;
mod show;
mod steer;
mod undo;
mod watch;
pub mod with;

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
    /// Write a run to a file that can be replayed anywhere
    Export(bundles::ExportArgs),
    /// Replay a bundle: here, without a server, or with `--with…` against something new, on one
    Replay(bundles::ReplayArgs),
    /// Replay every bundle of a folder, for CI
    Test(bundles::TestArgs),
    /// Hold a run's journal against its chain of hashes
    Verify(Which),
    /// Delete a run that has ended, with its journal; a tombstone stays
    Delete(Which),
    /// Start a run with the beginning of another, and with changes
    Fork(fork::ForkArgs),
    /// Show where the outcomes of two runs differ
    Diff(fork::DiffArgs),
    /// Take back what a run did, with the compensations that its tools declare
    Undo(undo::UndoArgs),
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
        RunsCommand::Export(args) => bundles::export(cx, args).await,
        RunsCommand::Replay(args) => bundles::replay(cx, &args).await,
        RunsCommand::Test(args) => bundles::test(cx, &args),
        RunsCommand::Verify(which) => bundles::verify(cx, &which.run).await,
        RunsCommand::Delete(which) => steer::delete(cx, &which.run).await,
        RunsCommand::Fork(args) => fork::fork(cx, args).await,
        RunsCommand::Diff(args) => fork::diff(cx, &args).await,
        RunsCommand::Undo(args) => undo::run(cx, args).await,
    }
}
