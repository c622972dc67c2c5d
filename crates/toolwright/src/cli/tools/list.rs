//! Implements `tools list`.

use serde::Deserialize;

use crate::cli::Context;
use crate::cli::client::TOOLS;
use crate::cli::exit::Exit;
use crate::cli::failure::Failure;
use crate::cli::pages::{List, PageArgs};
use crate::cli::table::Table;

/// Arguments of `tools list`.
#[derive(clap::Args)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    page: PageArgs,
    /// Filter by category
    #[arg(long)]
    category: Option<String>,
    /// Filter by tag
    #[arg(long)]
    tag: Option<String>,
    /// List the built-in tools instead of those of the realm
    #[arg(long, conflicts_with_all = ["limit", "category", "tag"])]
    builtin: bool,
}

/// The fields of a tool that the table shows. The complete type of a definition would reject unknown fields of a newer
/// server.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Row {
    ref_name: String,
    version: String,
    tool_type: String,
    side_effects: Option<String>,
    status: String,
    enabled: bool,
    description: Option<String>,
}

/// Lists tools.
pub(super) async fn run(cx: &Context, args: ListArgs) -> Result<Exit, Failure> {
    let list = List { collection: TOOLS, query: args.query(), empty_message: "no tools found" };
    list.show(cx, &args.page, table).await?;
    Ok(Exit::Ok)
}

impl ListArgs {
    fn query(&self) -> Vec<(&'static str, String)> {
        let mut query = Vec::new();
        query.extend(self.category.clone().map(|category| ("category", category)));
        query.extend(self.tag.clone().map(|tag| ("tag", tag)));
        query.extend(self.builtin.then(|| ("source", "built-in".to_owned())));
        query
    }
}

fn table(rows: &[Row]) -> Table {
    let mut table = Table::new(["NAME", "VERSION", "TYPE", "EFFECTS", "STATUS", "DESCRIPTION"]);
    for row in rows {
        let status = if row.enabled { &row.status } else { "disabled" };
        table.row([
            &row.ref_name,
            &row.version,
            &row.tool_type,
            row.side_effects.as_deref().unwrap_or_default(),
            status,
            row.description.as_deref().unwrap_or_default(),
        ]);
    }
    table
}
