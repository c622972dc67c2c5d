//! Implements the `versions` subcommands.

use serde_json::Value;

use super::Context;
use super::client::{parse_name, path};
use super::exit::Exit;
use super::failure::Failure;
use super::fields::text;
use super::pages::{List, PageArgs};
use super::table::Table;

/// Arguments of the `versions` subcommands.
#[derive(clap::Args)]
pub(crate) struct VersionsArgs {
    /// refName or ID, optionally with a version requirement: name@^1.2
    #[arg(value_name = "REF", value_parser = parse_name)]
    reference: String,
}

/// Lists the versions of a definition, highest first.
pub(super) async fn run(cx: &Context, collection: &str, args: VersionsArgs) -> Result<Exit, Failure> {
    let collection = format!("{}/versions", path(collection, &args.reference));
    let list = List { collection: &collection, query: Vec::new(), empty_message: "no version matches" };
    list.show(cx, &PageArgs::default(), table).await?;
    Ok(Exit::Ok)
}

fn table(versions: &[Value]) -> Table {
    let mut table = Table::new(["VERSION", "STATUS", "CHANGED", "DESCRIPTION"]);
    for version in versions {
        let fields = ["version", "status", "updatedAt", "description"].map(|name| text(version, name));
        table.row(fields.each_ref().map(String::as_str));
    }
    table
}
