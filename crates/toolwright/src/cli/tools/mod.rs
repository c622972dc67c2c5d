//! `toolwright tools …`: one file per command.

mod call;
mod get;
mod import;
mod list;
mod receipt;
mod validate;

use super::client::TOOLS;
use super::definitions::Kind;
use super::exit::Exit;
use super::failure::Failure;
use super::{Context, apply, export, remove};

/// What can be done with tools.
#[derive(clap::Subcommand)]
pub enum ToolsCommand {
    /// List the tools of the realm
    List(list::ListArgs),
    /// Show a tool and its parameters
    Get(get::GetArgs),
    /// Create or replace tools, and whatever else is defined in the files
    Apply(apply::ApplyArgs),
    /// Make tools of a description of an API
    #[command(subcommand)]
    Import(import::ImportCommand),
    /// Print the definition of a tool for a file
    Export(export::ExportArgs),
    /// Delete tools with all their versions
    Delete(remove::DeleteArgs),
    /// Call a tool
    Run(call::RunArgs),
    /// Check an input against a tool's schema without calling it
    Validate(validate::ValidateArgs),
}

/// Runs one of them.
pub async fn run(cx: &Context, command: ToolsCommand) -> Result<Exit, Failure> {
    match command {
        ToolsCommand::List(args) => list::run(cx, args).await,
        ToolsCommand::Get(args) => get::run(cx, args).await,
        ToolsCommand::Apply(args) => apply::run(cx, args, None).await,
        ToolsCommand::Import(command) => import::run(cx, command).await,
        ToolsCommand::Export(args) => export::run(cx, Kind::Tool, args).await,
        ToolsCommand::Delete(args) => remove::run(cx, TOOLS, args).await,
        ToolsCommand::Run(args) => call::run(cx, args).await,
        ToolsCommand::Validate(args) => validate::run(cx, args).await,
    }
}
