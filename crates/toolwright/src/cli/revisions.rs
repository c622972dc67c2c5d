//! Implements the `revisions` subcommands, which list the revisions of a definition and compare two of them.

use toolwright_api::wire::{RevisionDiffView, RevisionView};

use super::Context;
use super::client::{parse_name, path};
use super::exit::Exit;
use super::failure::Failure;
use super::output::sanitize_line;
use super::pages::{List, PageArgs};
use super::table::Table;
use super::time::format_minute;

/// Arguments of the `revisions` subcommands.
#[derive(clap::Args)]
pub(crate) struct RevisionsArgs {
    /// refName or ID
    #[arg(value_name = "REF", value_parser = parse_name)]
    reference: String,
    #[command(flatten)]
    page: PageArgs,
    /// Show the changes between two revisions instead
    #[arg(long, num_args = 2, value_names = ["FROM", "TO"], conflicts_with_all = ["limit", "all"])]
    diff: Option<Vec<i64>>,
}

/// Lists the revisions of a definition, or shows the changes between two of them.
pub(super) async fn run(cx: &Context, collection: &str, args: RevisionsArgs) -> Result<Exit, Failure> {
    let collection = format!("{}/revisions", path(collection, &args.reference));
    match args.diff.as_deref() {
        Some([from, to]) => diff(cx, &format!("{collection}/{from}/diff/{to}")).await,
        _ => {
            let list = List { collection: &collection, query: Vec::new(), empty_message: "no revisions found" };
            list.show(cx, &args.page, table).await?;
            Ok(Exit::Ok)
        }
    }
}

fn table(revisions: &[RevisionView]) -> Table {
    let mut table = Table::new(["REVISION", "VERSION", "CHANGED", "BY", "HASH"]);
    for revision in revisions {
        table.row([
            &revision.revision.to_string(),
            revision.version.as_deref().unwrap_or("-"),
            &format_minute(revision.updated_at),
            &revision.updated_by,
            revision.content_hash.get(..12).unwrap_or(&revision.content_hash),
        ]);
    }
    table
}

async fn diff(cx: &Context, path: &str) -> Result<Exit, Failure> {
    let response = cx.client.get(path, &[]).await?;
    if cx.output.json {
        cx.output.document(response.text.trim_end())?;
        return Ok(Exit::Ok);
    }
    let diff: RevisionDiffView = response.read()?;
    if diff.changes.is_empty() {
        cx.output.note("the revisions are equal");
    }
    for change in &diff.changes {
        cx.output.line(sanitize_line(&change.path))?;
        if !change.before.is_null() {
            cx.output.line(cx.output.out.bad(format!("  - {}", sanitize_line(&change.before.to_string()))))?;
        }
        if !change.after.is_null() {
            cx.output.line(cx.output.out.good(format!("  + {}", sanitize_line(&change.after.to_string()))))?;
        }
    }
    if diff.truncated {
        cx.output.note(cx.output.err.dim("there are more changes"));
    }
    Ok(Exit::Ok)
}
