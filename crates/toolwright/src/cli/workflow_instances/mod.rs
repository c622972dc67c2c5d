//! Implements `toolwright workflow-instances`, and shows the progress of workflow runs.

mod control;
mod list;
pub(super) mod live;
mod outline;
mod progress;
mod screen;
mod show;
mod summary;

use super::Context;
use super::client::parse_name;
use super::exit::Exit;
use super::failure::Failure;
use super::follow::FollowRole;

/// Subcommands of `workflow-instances`.
#[derive(clap::Subcommand)]
pub(crate) enum WorkflowInstancesCommand {
    /// List workflow runs, most recent first
    List(list::ListArgs),
    /// Show a workflow run, its steps and what it waits for
    #[command(visible_alias = "show")]
    Get(InstanceArg),
    /// Follow a workflow run to its end
    Watch(InstanceArg),
    /// Send a signal to a workflow run
    Signal(control::SignalArgs),
    /// Pause a workflow run: the calls in progress end, and nothing else starts
    Pause(control::CommandArgs),
    /// Resume a paused workflow run
    Resume(control::CommandArgs),
    /// Cancel a workflow run and its child runs
    Cancel(InstanceArg),
    /// Start a run that reuses the results of another and runs its failed steps again
    Retry(control::RetryArgs),
}

/// The workflow run argument.
#[derive(clap::Args)]
pub(crate) struct InstanceArg {
    /// ID of the workflow run, such as run_01J…
    #[arg(value_name = "RUN", value_parser = parse_name)]
    run: String,
}

/// Runs a `workflow-instances` subcommand.
pub(super) async fn run(cx: &Context, command: WorkflowInstancesCommand) -> Result<Exit, Failure> {
    match command {
        WorkflowInstancesCommand::List(args) => list::run(cx, args).await,
        WorkflowInstancesCommand::Get(target) => show::run(cx, &target).await,
        WorkflowInstancesCommand::Watch(target) => live::watch(cx, &target.run, FollowRole::Watcher).await,
        WorkflowInstancesCommand::Signal(args) => control::signal(cx, args).await,
        WorkflowInstancesCommand::Pause(args) => control::pause(cx, args).await,
        WorkflowInstancesCommand::Resume(args) => control::resume(cx, args).await,
        WorkflowInstancesCommand::Cancel(target) => control::cancel(cx, &target).await,
        WorkflowInstancesCommand::Retry(args) => control::retry(cx, args).await,
    }
}
