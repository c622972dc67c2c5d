//! `tools list`: a page, or all pages.

use serde::Deserialize;
use serde_json::Value;

use crate::cli::Context;
use crate::cli::client::TOOLS;
use crate::cli::exit::Exit;
use crate::cli::failure::Failure;
use crate::cli::table::Table;

/// Which tools.
#[derive(clap::Args)]
pub struct ListArgs {
    /// How many; with --all, how many per request [default: 20]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    limit: Option<u32>,
    /// Only those of this category
    #[arg(long)]
    category: Option<String>,
    /// Only those with this tag
    #[arg(long)]
    tag: Option<String>,
    /// The tools that are part of the server, instead of those of the realm
    #[arg(long, conflicts_with_all = ["limit", "category", "tag"])]
    builtin: bool,
    /// All there are, not just the first page
    #[arg(long)]
    all: bool,
}

/// A page, as the API sends it. Items stay as they are, because `--all` prints them again.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Page {
    items: Vec<Value>,
    next_cursor: Option<String>,
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
    let mut cursor: Option<String> = None;
    let mut items = Vec::new();
    loop {
        let answer = cx.client.get(TOOLS, &args.query(cursor.as_deref())).await?;
        if cx.output.json && !args.all {
            cx.output.line(answer.text.trim_end())?;
            return Ok(Exit::Ok);
        }
        let page: Page = answer.read()?;
        items.extend(page.items);
        cursor = page.next_cursor;
        if cursor.is_none() || !args.all {
            break;
        }
    }
    if cx.output.json {
        cx.output.line(serde_json::json!({ "items": items, "nextCursor": null }))?;
    } else {
        show(cx, &items, cursor.is_some())?;
    }
    Ok(Exit::Ok)
}

impl ListArgs {
    fn query(&self, cursor: Option<&str>) -> Vec<(&'static str, String)> {
        // Whoever wants all is served best by the largest pages.
        let limit = self.limit.or(self.all.then_some(100));
        let mut query = Vec::new();
        query.extend(limit.map(|limit| ("limit", limit.to_string())));
        query.extend(self.category.clone().map(|category| ("category", category)));
        query.extend(self.tag.clone().map(|tag| ("tag", tag)));
        query.extend(self.builtin.then(|| ("source", "built-in".to_owned())));
        query.extend(cursor.map(|cursor| ("cursor", cursor.to_owned())));
        query
    }
}

fn show(cx: &Context, items: &[Value], more: bool) -> Result<(), Failure> {
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
    if items.is_empty() {
        cx.output.note("there are no such tools");
        return Ok(());
    }
    cx.output.lines(table.lines(cx.output.out, cx.output.width))?;
    if more {
        cx.output.note(cx.output.err.dim("there are more: --all shows them"));
    }
    Ok(())
}
