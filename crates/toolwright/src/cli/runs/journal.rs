//! Implements `runs journal`, which prints the entries of a run's journal.

use toolwright_api::wire::{JournalEntryView, PageView};

use super::RunArg;
use crate::cli::Context;
use crate::cli::client::{RUNS, path};
use crate::cli::exit::Exit;
use crate::cli::failure::Failure;
use crate::cli::follow::{format_duration, format_usd};
use crate::cli::table::Table;

/// The page size of requests.
const PAGE: u32 = 100;

/// Arguments of `runs journal`.
#[derive(clap::Args)]
pub(crate) struct JournalArgs {
    #[command(flatten)]
    target: RunArg,
    /// Number of the first entry, starting at 1
    #[arg(long, value_name = "ENTRY", default_value_t = 1)]
    from: u64,
    /// Maximum number of entries
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
    /// Show only entries of this kind, such as model_replied or call_ended
    #[arg(long)]
    kind: Option<String>,
}

/// Prints the journal of a run.
pub(super) async fn run(cx: &Context, args: JournalArgs) -> Result<Exit, Failure> {
    let mut pages = JournalPages::new(&args.target.run, args.from, args.kind);
    let (mut left, mut entries) = (args.limit, Vec::new());
    while left > 0 {
        let Some(page) = pages.next(cx, left.min(PAGE)).await? else { break };
        left = left.saturating_sub(u32::try_from(page.len()).unwrap_or(u32::MAX));
        entries.extend(page);
    }
    if cx.output.json {
        cx.output.document(serde_json::json!({ "items": entries, "nextCursor": pages.cursor }))?;
        return Ok(Exit::Ok);
    }
    if entries.is_empty() {
        cx.output.note("no entries found");
        return Ok(Exit::Ok);
    }
    cx.output.lines(table(&entries).lines(cx.output.out, cx.output.width))?;
    if let Some(next) = &pages.cursor {
        cx.output.note(cx.output.err.dim(format!("more entries available; use --from {next}")));
    }
    Ok(Exit::Ok)
}

/// Requests the pages of a journal one after the other.
pub(super) struct JournalPages {
    path: String,
    kind: Option<String>,
    /// The first entry of the next page; `None` after the last page.
    pub cursor: Option<String>,
}

impl JournalPages {
    /// Starts with the page that begins at entry `from`.
    pub(super) fn new(run: &str, from: u64, kind: Option<String>) -> Self {
        Self { path: format!("{}/journal", path(RUNS, run)), kind, cursor: Some(from.to_string()) }
    }

    /// Returns the next entries, at most `limit`; `None` after the last page.
    pub(super) async fn next(&mut self, cx: &Context, limit: u32) -> Result<Option<Vec<JournalEntryView>>, Failure> {
        let Some(cursor) = self.cursor.take() else { return Ok(None) };
        let mut query = vec![("from", cursor), ("limit", limit.to_string())];
        query.extend(self.kind.clone().map(|kind| ("kind", kind)));
        let page: PageView<JournalEntryView> = cx.client.get(&self.path, &query).await?.read()?;
        self.cursor = page.next_cursor;
        Ok(Some(page.items))
    }
}

fn table(entries: &[JournalEntryView]) -> Table {
    // The values in the columns up to `TOOL` are used as arguments of other commands, so they are never shortened.
    let columns = ["ENTRY", "KIND", "FORK", "CALL", "TOOL", "TIME", "TOOK", "TOKENS", "COST"];
    let mut table = Table::new(columns).with_ids(5);
    for entry in entries {
        let time = entry.at.to_jiff().strftime("%H:%M:%S%.3f").to_string();
        let took = entry.duration_ms.map(format_duration).unwrap_or_default();
        let tokens = entry.usage.map(|usage| usage.total().to_string()).unwrap_or_default();
        let cost = entry.cost_usd.filter(|cost| *cost > 0.0).map(format_usd).unwrap_or_default();
        table.row([
            &entry.n.to_string(),
            &entry.kind,
            if entry.can_fork { "yes" } else { "no" },
            entry.call_id.as_deref().unwrap_or_default(),
            entry.tool_ref.as_deref().unwrap_or_default(),
            &time,
            &took,
            &tokens,
            &cost,
        ]);
    }
    table
}
