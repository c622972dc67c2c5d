//! Prints paginated lists.

use serde::de::DeserializeOwned;
use serde_json::Value;
use toolwright_api::wire::PageView;

use super::Context;
use super::failure::Failure;
use super::table::Table;

/// Pagination options of list commands.
#[derive(Default, clap::Args)]
pub(super) struct PageArgs {
    /// Maximum number of items; with --all, the page size of requests [default: 20]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    limit: Option<u32>,
    /// Fetch all pages
    #[arg(long)]
    all: bool,
}

/// A list command.
pub(super) struct List<'a> {
    /// The path of the collection.
    pub collection: &'a str,
    /// The query parameters.
    pub query: Vec<(&'static str, String)>,
    /// The message for an empty list.
    pub empty_message: &'a str,
}

impl List<'_> {
    /// Prints the list as JSON or as the table built by `table`.
    pub(super) async fn show<T: DeserializeOwned>(
        self,
        cx: &Context,
        args: &PageArgs,
        table: impl FnOnce(&[T]) -> Table,
    ) -> Result<(), Failure> {
        self.show_lines(cx, args, |items| table(items).lines(cx.output.out, cx.output.width)).await
    }

    /// Prints the list as JSON or as the lines that `lines` returns.
    pub(super) async fn show_lines<T: DeserializeOwned>(
        self,
        cx: &Context,
        args: &PageArgs,
        lines: impl FnOnce(&[T]) -> Vec<String>,
    ) -> Result<(), Failure> {
        let mut cursor: Option<String> = None;
        let mut items = Vec::new();
        loop {
            let response = cx.client.get(self.collection, &self.page_query(args, cursor.as_deref())).await?;
            if cx.output.json && !args.all {
                return Ok(cx.output.document(response.text.trim_end())?);
            }
            // Items stay untyped because `--all --json` prints them unchanged.
            let page: PageView<Value> = response.read()?;
            items.extend(page.items);
            cursor = page.next_cursor;
            if cursor.is_none() || !args.all {
                break;
            }
        }
        if cx.output.json {
            return Ok(cx.output.document(serde_json::json!({ "items": items, "nextCursor": null }))?);
        }
        if items.is_empty() {
            cx.output.note(self.empty_message);
            return Ok(());
        }
        let unexpected = |error: serde_json::Error| Failure::Unexpected {
            url: format!("{}{}", cx.client.base_url(), self.collection),
            cause: error.to_string(),
        };
        let items: Result<Vec<T>, _> = items.into_iter().map(serde_json::from_value).collect();
        cx.output.lines(lines(&items.map_err(unexpected)?))?;
        if cursor.is_some() {
            cx.output.note(cx.output.err.dim("more results available; use --all to list them"));
        }
        Ok(())
    }

    fn page_query(&self, args: &PageArgs, cursor: Option<&str>) -> Vec<(&'static str, String)> {
        // With `--all`, the largest page size is used, because it needs the fewest requests.
        let limit = args.limit.or(args.all.then_some(100));
        let mut query = self.query.clone();
        query.extend(limit.map(|limit| ("limit", limit.to_string())));
        query.extend(cursor.map(|cursor| ("cursor", cursor.to_owned())));
        query
    }
}
