//! `toolwright tools …`: one file per command.

mod apply;
mod call;
mod delete;
mod get;
mod list;
mod receipt;
mod validate;

use super::Context;
use super::exit::Exit;
use super::failure::Failure;

/// What can be done with tools.
#[derive(clap::Subcommand)]
pub enum ToolsCommand {
    /// List the tools of the realm
    List(list::ListArgs),
    /// Show a tool and its parameters
    Get(get::GetArgs),
    /// Create or replace tools and providers from files
    Apply(apply::ApplyArgs),
    /// Delete tools with all their versions
    Delete(delete::DeleteArgs),
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
        ToolsCommand::Apply(args) => apply::run(cx, args).await,
        ToolsCommand::Delete(args) => delete::run(cx, args).await,
        ToolsCommand::Run(args) => call::run(cx, args).await,
        ToolsCommand::Validate(args) => validate::run(cx, args).await,
    }
}
