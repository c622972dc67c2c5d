//! Implements `toolwright workflows`, with one module per subcommand.

mod check;
mod diff;
mod export;
mod graph;
mod import;
mod list;
mod run;
mod show;
mod source;

use super::client::WORKFLOWS;
use super::definitions::ResourceKind;
use super::exit::Exit;
use super::failure::Failure;
use super::{Context, apply, delete, revisions, versions};

/// Subcommands of `workflows`.
#[derive(clap::Subcommand)]
pub(crate) enum WorkflowsCommand {
    /// List workflows
    List(list::ListArgs),
    /// Show a workflow and its steps
    #[command(visible_alias = "show")]
    Get(show::ShowArgs),
    /// Create or update workflows and other definitions from files
    Apply(apply::ApplyArgs),
    /// Check workflows in files or on the server, and write nothing
    Check(check::CheckArgs),
    /// Run a workflow and follow its steps
    Run(run::RunArgs),
    /// Print a workflow as a Mermaid, DOT or SVG graph
    Graph(graph::GraphArgs),
    /// Compare two workflows in files or on the server
    Diff(diff::DiffArgs),
    /// Print the definition of a workflow, or an Arazzo document
    Export(export::ExportArgs),
    /// Import the workflows of an Arazzo document
    Import(import::ImportArgs),
    /// List the versions of a workflow
    Versions(versions::VersionsArgs),
    /// List the revisions of a workflow, or compare two of them
    Revisions(revisions::RevisionsArgs),
    /// Delete workflows and all their versions
    Delete(delete::DeleteArgs),
}

/// Runs a `workflows` subcommand.
pub(super) async fn run(cx: &Context, command: WorkflowsCommand) -> Result<Exit, Failure> {
    let kind = ResourceKind::Workflow;
    match command {
        WorkflowsCommand::List(args) => list::run(cx, args).await,
        WorkflowsCommand::Get(args) => show::run(cx, args).await,
        WorkflowsCommand::Apply(args) => apply::run(cx, args, Some(kind)).await,
        WorkflowsCommand::Check(args) => check::run(cx, args).await,
        WorkflowsCommand::Run(args) => run::run(cx, args).await,
        WorkflowsCommand::Graph(args) => graph::run(cx, args).await,
        WorkflowsCommand::Diff(args) => diff::run(cx, &args).await,
        WorkflowsCommand::Export(args) => export::run(cx, args).await,
        WorkflowsCommand::Import(args) => import::run(cx, args).await,
        WorkflowsCommand::Versions(args) => versions::run(cx, WORKFLOWS, args).await,
        WorkflowsCommand::Revisions(args) => revisions::run(cx, WORKFLOWS, args).await,
        WorkflowsCommand::Delete(args) => delete::run(cx, WORKFLOWS, args).await,
    }
}
