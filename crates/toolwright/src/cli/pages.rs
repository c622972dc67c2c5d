//! Lists: a page, or all pages.

use serde::Deserialize;
use serde_json::Value;

use super::Context;
use super::failure::Failure;
use super::table::Table;

/// How much of a list.
#[derive(Default, clap::Args)]
pub struct PageArgs {
    /// How many; with --all, how many per request [default: 20]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    limit: Option<u32>,
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

/// A list to show.
pub struct List<'a> {
    /// Where it is.
    pub collection: &'a str,
    /// What is asked for.
    pub query: Vec<(&'static str, String)>,
    /// What is said when nothing is there.
    pub empty: &'a str,
}

impl List<'_> {
    /// Prints the list: as JSON, or as the table that `table` makes of its items.
    pub async fn show(
        self,
        cx: &Context,
        args: &PageArgs,
        table: impl FnOnce(&[Value]) -> Table,
    ) -> Result<(), Failure> {
        let mut cursor: Option<String> = None;
        let mut items = Vec::new();
        loop {
            let answer = cx.client.get(self.collection, &self.page(args, cursor.as_deref())).await?;
            if cx.output.json && !args.all {
                return Ok(cx.output.line(answer.text.trim_end())?);
            }
            let page: Page = answer.read()?;
            items.extend(page.items);
            cursor = page.next_cursor;
            if cursor.is_none() || !args.all {
                break;
            }
        }
        if cx.output.json {
            return Ok(cx.output.line(serde_json::json!({ "items": items, "nextCursor": null }))?);
        }
        if items.is_empty() {
            cx.output.note(self.empty);
            return Ok(());
        }
        cx.output.lines(table(&items).lines(cx.output.out, cx.output.width))?;
        if cursor.is_some() {
            cx.output.note(cx.output.err.dim("there are more: --all shows them"));
        }
        Ok(())
    }

    fn page(&self, args: &PageArgs, cursor: Option<&str>) -> Vec<(&'static str, String)> {
        // Whoever wants all is served best by the largest pages.
        let limit = args.limit.or(args.all.then_some(100));
        let mut query = self.query.clone();
        query.extend(limit.map(|limit| ("limit", limit.to_string())));
        query.extend(cursor.map(|cursor| ("cursor", cursor.to_owned())));
        query
    }
}
