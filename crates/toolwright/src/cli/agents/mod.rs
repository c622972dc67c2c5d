//! `toolwright agents …`: one file per command.

mod chat;
mod context;
mod list;
mod run;
mod show;
mod tools;

pub use run::by_whom;

use super::client::AGENTS;
use super::definitions::Kind;
use super::exit::Exit;
use super::failure::Failure;
use super::{Context, apply, export, remove};

/// What can be done with agents.
#[derive(clap::Subcommand)]
pub enum AgentsCommand {
    /// List the agents of the realm
    List(list::ListArgs),
    /// Show an agent and its instructions
    Show(show::ShowArgs),
    /// Create or replace agents, and whatever else is defined in the files
    Apply(apply::ApplyArgs),
    /// Print the definition of an agent for a file
    Export(export::ExportArgs),
    /// Delete agents
    Delete(remove::DeleteArgs),
    /// Show the tools an agent has, in the order they are resolved
    Tools(tools::ToolsArgs),
    /// Run an agent and watch it work
    Run(run::RunArgs),
    /// Talk to an agent
    Chat(chat::ChatArgs),
}

/// Runs one of them.
pub async fn run(cx: &Context, command: AgentsCommand) -> Result<Exit, Failure> {
    match command {
        AgentsCommand::List(args) => list::run(cx, args).await,
        AgentsCommand::Show(args) => show::run(cx, args).await,
        AgentsCommand::Apply(args) => apply::run(cx, args, Some(Kind::Agent)).await,
        AgentsCommand::Export(args) => export::run(cx, Kind::Agent, args).await,
        AgentsCommand::Delete(args) => remove::run(cx, AGENTS, args).await,
        AgentsCommand::Tools(args) => tools::run(cx, args).await,
        AgentsCommand::Run(args) => run::run(cx, args).await,
        AgentsCommand::Chat(args) => chat::run(cx, args).await,
    }
}
