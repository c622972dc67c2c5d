//! Implements `toolwright runs`. The subcommands that control a run share one module, and the others have separate
//! modules.

pub(super) mod bundles;
mod closed_calls;
mod control;
mod details;
mod fork;
mod journal;
mod list;
mod materialize;
pub(super) mod replay_with;
mod show;
mod tree;
mod undo;
mod watch;

pub(super) use list::parse_status;

use super::Context;
use super::client::parse_name;
use super::exit::Exit;
use super::failure::Failure;

/// Subcommands of `runs`.
#[derive(clap::Subcommand)]
pub(crate) enum RunsCommand {
    /// List runs, most recent first
    List(list::ListArgs),
    /// Show the calls, usage and reply of a run
    #[command(visible_alias = "show")]
    Get(show::ShowArgs),
    /// Print the journal of a run: entries with kind, call, duration, cost, and whether the run can be forked there
    Journal(journal::JournalArgs),
    /// Print a run and its child runs, with status and cost
    Tree(RunArg),
    /// Follow a run from its beginning to its end
    Watch(RunArg),
    /// Cancel a run and its child runs
    Cancel(RunArg),
    /// Approve a call and wait for the run
    Approve(control::ApproveArgs),
    /// Deny a call and wait for the run
    Deny(control::DenyArgs),
    /// Approve a call with an edited input and wait for the run
    Edit(control::EditArgs),
    /// Return the result of a client action and wait for the run
    Results(control::ResultsArgs),
    /// Export a run as a bundle that can be replayed anywhere
    Export(bundles::ExportArgs),
    /// Replay a bundle locally, or on the server with other tools, models or prompts (`--with…`)
    Replay(bundles::ReplayArgs),
    /// Replay all bundles in a directory, for CI
    Test(bundles::TestArgs),
    /// Verify the hash chain of a run's journal
    Verify(RunArg),
    /// Delete an ended run and its journal; a tombstone remains
    Delete(RunArg),
    /// Start a run that replays the beginning of another and continues with changes
    Fork(fork::ForkArgs),
    /// Compare the outcomes of two runs
    Diff(fork::DiffArgs),
    /// Undo the writes of a run with the compensations declared by its tools
    Undo(undo::UndoArgs),
    /// Make a workflow from the calls of a run, and print it as YAML or create it
    Materialize(materialize::MaterializeArgs),
}

/// The run argument.
#[derive(clap::Args)]
pub(crate) struct RunArg {
    /// Run ID, such as run_01J…
    #[arg(value_name = "RUN", value_parser = parse_name)]
    run: String,
}

/// Runs a `runs` subcommand.
pub(super) async fn run(cx: &Context, command: RunsCommand) -> Result<Exit, Failure> {
    match command {
        RunsCommand::List(args) => list::run(cx, args).await,
        RunsCommand::Get(args) => show::run(cx, args).await,
        RunsCommand::Journal(args) => journal::run(cx, args).await,
        RunsCommand::Tree(target) => tree::run(cx, &target).await,
        RunsCommand::Watch(target) => watch::run(cx, &target.run).await,
        RunsCommand::Cancel(target) => control::cancel(cx, &target.run).await,
        RunsCommand::Approve(args) => control::approve(cx, args).await,
        RunsCommand::Deny(args) => control::deny(cx, args).await,
        RunsCommand::Edit(args) => control::edit(cx, args).await,
        RunsCommand::Results(args) => control::results(cx, args).await,
        RunsCommand::Export(args) => bundles::export(cx, args).await,
        RunsCommand::Replay(args) => bundles::replay(cx, &args).await,
        RunsCommand::Test(args) => bundles::test(cx, &args),
        RunsCommand::Verify(target) => bundles::verify(cx, &target.run).await,
        RunsCommand::Delete(target) => control::delete(cx, &target.run).await,
        RunsCommand::Fork(args) => fork::fork(cx, args).await,
        RunsCommand::Diff(args) => fork::diff(cx, &args).await,
        RunsCommand::Undo(args) => undo::run(cx, args).await,
        RunsCommand::Materialize(args) => materialize::run(cx, args).await,
    }
}
