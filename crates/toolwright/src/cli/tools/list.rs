//! `tools list`.

use serde::Deserialize;
use serde_json::Value;

use crate::cli::Context;
use crate::cli::client::TOOLS;
use crate::cli::exit::Exit;
use crate::cli::failure::Failure;
use crate::cli::pages::{List, PageArgs};
use crate::cli::table::Table;

/// Which tools.
#[derive(clap::Args)]
pub struct ListArgs {
    #[command(flatten)]
    page: PageArgs,
    /// Only those of this category
    #[arg(long)]
    category: Option<String>,
    /// Only those with this tag
    #[arg(long)]
    tag: Option<String>,
    /// The tools that are part of the server, instead of those of the realm
    #[arg(long, conflicts_with_all = ["limit", "category", "tag"])]
    builtin: bool,
}

/// What the table shows of a tool.
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
pub async fn run(cx: &Context, args: ListArgs) -> Result<Exit, Failure> {
    let list = List { collection: TOOLS, query: args.query(), empty: "there are no such tools" };
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

fn table(items: &[Value]) -> Table {
    let mut table = Table::new(["NAME", "VERSION", "TYPE", "EFFECTS", "STATUS", "DESCRIPTION"]);
    for item in items {
        let row = Row::deserialize(item).unwrap_or_default();
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
