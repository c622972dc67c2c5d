//! Implements `toolwright tools`, with one module per subcommand.

mod call;
mod check;
mod envelope;
mod get;
mod import;
mod list;
mod validate;

pub(super) use envelope::error_lines;

use super::client::TOOLS;
use super::definitions::ResourceKind;
use super::exit::Exit;
use super::failure::Failure;
use super::{Context, apply, delete, export, ready, revisions, uses, versions};

/// Subcommands of `tools`.
#[derive(clap::Subcommand)]
pub(crate) enum ToolsCommand {
    /// List tools
    List(list::ListArgs),
    /// Show a tool and its parameters
    #[command(visible_alias = "show")]
    Get(get::GetArgs),
    /// Create or update tools and other definitions from files
    Apply(apply::ApplyArgs),
    /// Import tools from an OpenAPI document, a gRPC server or an MCP server
    #[command(subcommand)]
    Import(import::ImportCommand),
    /// Print the definition of a tool
    Export(export::ExportArgs),
    /// List the versions of a tool
    Versions(versions::VersionsArgs),
    /// List the revisions of a tool, or compare two of them
    Revisions(revisions::RevisionsArgs),
    /// Check whether a tool works for you: life cycle, permission, secrets, connection and drift
    Ready(ready::ReadyArgs),
    /// List the definitions that use a tool
    Uses(uses::UsesArgs),
    /// Delete tools and all their versions
    Delete(delete::DeleteArgs),
    /// Call a tool
    Run(call::RunArgs),
    /// Check that tools comply with the rules for tools, by calling them with their examples
    Check(check::CheckArgs),
    /// Validate an input against a tool's schema without calling the tool
    Validate(validate::ValidateArgs),
}

/// Runs a `tools` subcommand.
pub(super) async fn run(cx: &Context, command: ToolsCommand) -> Result<Exit, Failure> {
    match command {
        ToolsCommand::List(args) => list::run(cx, args).await,
        ToolsCommand::Get(args) => get::run(cx, args).await,
        ToolsCommand::Apply(args) => apply::run(cx, args, None).await,
        ToolsCommand::Import(command) => import::run(cx, command).await,
        ToolsCommand::Export(args) => export::run(cx, ResourceKind::Tool, args).await,
        ToolsCommand::Versions(args) => versions::run(cx, TOOLS, args).await,
        ToolsCommand::Revisions(args) => revisions::run(cx, TOOLS, args).await,
        ToolsCommand::Ready(args) => ready::run(cx, TOOLS, args).await,
        ToolsCommand::Uses(args) => uses::run(cx, TOOLS, args).await,
        ToolsCommand::Delete(args) => delete::run(cx, TOOLS, args).await,
        ToolsCommand::Run(args) => call::run(cx, args).await,
        ToolsCommand::Check(args) => check::run(cx, args).await,
        ToolsCommand::Validate(args) => validate::run(cx, args).await,
    }
}
