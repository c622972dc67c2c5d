//! `toolwright gram …`: one file per command. They work on files alone; only a query without files asks the server.

mod check;
mod definitions;
mod diff;
mod fmt;
mod query;
mod rewrite;
mod schema;
mod texts;

pub use definitions::{definitions, is_gram};

use super::Context;
use super::exit::Exit;
use super::failure::Failure;

/// What can be done with gram files.
#[derive(clap::Subcommand)]
pub enum GramCommand {
    /// Say everything that is wrong with files
    Check(check::CheckArgs),
    /// Lay files out in the usual way
    Fmt(fmt::FmtArgs),
    /// Find what fits a pattern, in files or in the realm
    Query(query::QueryArgs),
    /// Change everything that fits a pattern
    Rewrite(rewrite::RewriteArgs),
    /// Say what changed from one file to another, layout aside
    Diff(diff::DiffArgs),
    /// Print the JSON Schemas of tools or of a type signature
    Schema(schema::SchemaArgs),
}

/// Runs one of them.
pub async fn run(cx: &Context, command: GramCommand) -> Result<Exit, Failure> {
    match command {
        GramCommand::Check(args) => check::run(cx, args),
        GramCommand::Fmt(args) => fmt::run(cx, args),
        GramCommand::Query(args) => query::run(cx, args).await,
        GramCommand::Rewrite(args) => rewrite::run(cx, args),
        GramCommand::Diff(args) => diff::run(cx, args),
        GramCommand::Schema(args) => schema::run(cx, args),
    }
}
