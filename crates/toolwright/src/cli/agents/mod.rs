//! Implements `toolwright agents`, with one module per subcommand.

mod chat;
mod context;
mod cost;
mod list;
mod run;
mod show;
mod tools;

pub(super) use run::approval_mode;

use super::client::AGENTS;
use super::definitions::ResourceKind;
use super::exit::Exit;
use super::failure::Failure;
use super::{Context, apply, delete, export, revisions, versions};

/// Subcommands of `agents`.
#[derive(clap::Subcommand)]
pub(crate) enum AgentsCommand {
    /// List agents
    List(list::ListArgs),
    /// Show an agent and its system prompt
    #[command(visible_alias = "show")]
    Get(show::ShowArgs),
    /// Create or update agents and other definitions from files
    Apply(apply::ApplyArgs),
    /// Print the definition of an agent
    Export(export::ExportArgs),
    /// List the versions of an agent
    Versions(versions::VersionsArgs),
    /// List the revisions of an agent, or compare two of them
    Revisions(revisions::RevisionsArgs),
    /// Estimate the worst-case cost of one run
    Cost(cost::CostArgs),
    /// Delete agents and all their versions
    Delete(delete::DeleteArgs),
    /// List the tools of an agent in resolution order
    Tools(tools::ToolsArgs),
    /// Run an agent and follow its progress
    Run(run::RunArgs),
    /// Chat with an agent
    Chat(chat::ChatArgs),
}

/// Runs an `agents` subcommand.
pub(super) async fn run(cx: &Context, command: AgentsCommand) -> Result<Exit, Failure> {
    match command {
        AgentsCommand::List(args) => list::run(cx, args).await,
        AgentsCommand::Get(args) => show::run(cx, args).await,
        AgentsCommand::Apply(args) => apply::run(cx, args, Some(ResourceKind::Agent)).await,
        AgentsCommand::Export(args) => export::run(cx, ResourceKind::Agent, args).await,
        AgentsCommand::Versions(args) => versions::run(cx, AGENTS, args).await,
        AgentsCommand::Revisions(args) => revisions::run(cx, AGENTS, args).await,
        AgentsCommand::Cost(args) => cost::run(cx, args).await,
        AgentsCommand::Delete(args) => delete::run(cx, AGENTS, args).await,
        AgentsCommand::Tools(args) => tools::run(cx, args).await,
        AgentsCommand::Run(args) => run::run(cx, args).await,
        AgentsCommand::Chat(args) => chat::run(cx, args).await,
    }
}
