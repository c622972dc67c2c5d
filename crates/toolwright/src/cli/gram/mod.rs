//! Implements `toolwright gram`, with one module per subcommand. The subcommands read only files, with two exceptions:
//! `apply` sends a file to the server, and `query` without files sends the query to the server.

mod apply;
mod check;
mod definitions;
mod diff;
mod fmt;
mod query;
mod rewrite;
mod schema;
mod sources;

pub(super) use definitions::{definitions, is_gram};

use super::Context;
use super::exit::Exit;
use super::failure::Failure;

/// Subcommands of `gram`.
#[derive(clap::Subcommand)]
pub(crate) enum GramCommand {
    /// Write the agents and tools of a file to the realm, all or none
    Apply(apply::ApplyArgs),
    /// Check files and report all errors
    Check(check::CheckArgs),
    /// Format files
    Fmt(fmt::FmtArgs),
    /// Find matches of a pattern in files or in the realm's definitions
    Query(query::QueryArgs),
    /// Change all matches of a pattern
    Rewrite(rewrite::RewriteArgs),
    /// Show the differences between two files, ignoring layout
    Diff(diff::DiffArgs),
    /// Print the JSON Schema of tools or of a type signature
    Schema(schema::SchemaArgs),
}

/// Runs a `gram` subcommand.
pub(super) async fn run(cx: &Context, command: GramCommand) -> Result<Exit, Failure> {
    match command {
        GramCommand::Apply(args) => apply::run(cx, args).await,
        GramCommand::Check(args) => check::run(cx, args),
        GramCommand::Fmt(args) => fmt::run(cx, args),
        GramCommand::Query(args) => query::run(cx, args).await,
        GramCommand::Rewrite(args) => rewrite::run(cx, args),
        GramCommand::Diff(args) => diff::run(cx, args),
        GramCommand::Schema(args) => schema::run(cx, args),
    }
}
