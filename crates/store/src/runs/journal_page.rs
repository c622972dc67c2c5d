//! Reads pages of a journal. Some facts about an entry come from the entries before and after it.

use toolwright_types::{RunId, Timestamp};

use super::rows::{EntryRow, call_id};
use super::{EntryNotes, JournalEntry, RealmRuns};
use crate::db::StoreError;
use crate::page;
use crate::sql::{Sql, count};

/// A query for entries of a journal.
#[derive(Debug, Clone)]
pub struct JournalPageQuery {
    /// The number of the first entry, counted from 1.
    pub from: u64,
    /// The kind of the entries; `None` for all kinds.
    pub kind: Option<String>,
    /// The number of entries. Values outside 1–1000 are set to the nearest limit.
    pub limit: u32,
}

/// An entry of a page, with facts from the entries before and after it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JournalRow {
    /// The entry. In an inline journal it has no notes.
    pub entry: JournalEntry,
    /// The start time of the operation that ends with this entry. `None` if the entry ends no operation.
    pub started_at: Option<Timestamp>,
    /// The fork state of the run after this entry, as text. The machine defines the format. `None` for the last entry,
    /// for inline journals, and if the next entry was written by an earlier build.
    pub fork_state: Option<String>,
}

#[derive(sqlx::FromRow)]
struct PageRow {
    #[sqlx(flatten)]
    entry: EntryRow,
    call_id: Option<String>,
    tool: Option<String>,
    fork_state_before: Option<String>,
    started_at: Option<i64>,
    fork_state: Option<String>,
}

impl TryFrom<PageRow> for JournalRow {
    type Error = StoreError;

    fn try_from(row: PageRow) -> Result<Self, StoreError> {
        let notes = EntryNotes {
            call_id: row.call_id.map(call_id).transpose()?,
            tool: row.tool,
            fork_state: row.fork_state_before,
        };
        Ok(Self {
            entry: JournalEntry { notes, ..row.entry.try_into()? },
            started_at: row.started_at.map(Timestamp::from_micros),
            fork_state: row.fork_state,
        })
    }
}

/// The kinds of entries that complete a model call or the preparation of a call. The previous entry requested this
/// operation, so its time is the start time of the operation.
const FOLLOWS_PREVIOUS: &str = "'model_replied', 'model_failed', 'prepared'";

impl RealmRuns<'_> {
    /// Returns one page of the journal of a run. The query reads the entries of the page and their neighbours. For an
    /// entry that ends a wait, it also reads at most 200 earlier entries.
    pub async fn journal_page(&self, run: RunId, query: &JournalPageQuery) -> Result<Vec<JournalRow>, StoreError> {
        let mut sql = Sql::new(
            "SELECT j.n, j.written_at, j.kind, j.body, j.hash, j.call_id, j.tool, j.fork_state AS fork_state_before,
                    following.fork_state,
                    CASE WHEN j.kind IN (",
        );
        sql.push(FOLLOWS_PREVIOUS).push(
            ") THEN previous.written_at
                         WHEN j.kind IN ('prepared_again', 'approval_decided', 'client_returned', 'child_ended', 'expired')
                         THEN (SELECT p.written_at FROM journal p
                               WHERE p.run_id = j.run_id AND p.n < j.n AND p.n >= j.n - 200
                                 AND (p.kind = 'prepared' OR p.call_id = j.call_id)
                               ORDER BY p.n DESC LIMIT 1) END AS started_at
             FROM journal j JOIN runs r ON r.id = j.run_id
             LEFT JOIN journal previous ON previous.run_id = j.run_id AND previous.n = j.n - 1
             LEFT JOIN journal following ON following.run_id = j.run_id AND following.n = j.n + 1
             WHERE r.realm_id = ",
        );
        sql.text(self.realm.to_string()).push(" AND j.run_id = ").text(run);
        sql.push(" AND j.n >= ").integer(count(query.from));
        if let Some(kind) = &query.kind {
            sql.push(" AND j.kind = ").free_text(kind);
        }
        sql.push(" ORDER BY j.n LIMIT ").integer(i64::from(page::clamp(query.limit)));
        let (text, values) = sql.into_parts();
        let rows: Vec<PageRow> = read!(&self.store.db, |pool| bind_all!(sqlx::query_as(text), values).fetch_all(pool))?;
        if !rows.is_empty() {
            return rows.into_iter().map(JournalRow::try_from).collect();
        }
        self.inline_page(run, query).await
    }

    /// Returns one page of an inline journal. Such a journal is one text with few entries.
    async fn inline_page(&self, run: RunId, query: &JournalPageQuery) -> Result<Vec<JournalRow>, StoreError> {
        let entries = self.inline_entries(run).await?;
        let mut previous_at = None;
        let rows = entries.into_iter().map(|entry| {
            let follows = FOLLOWS_PREVIOUS.contains(&format!("'{}'", entry.kind));
            let started_at = previous_at.filter(|_| follows);
            previous_at = Some(entry.at);
            JournalRow { entry, started_at, fork_state: None }
        });
        let wanted = |row: &JournalRow| {
            row.entry.n >= query.from && query.kind.as_ref().is_none_or(|kind| *kind == row.entry.kind)
        };
        Ok(rows.filter(wanted).take(usize::try_from(page::clamp(query.limit)).unwrap_or(usize::MAX)).collect())
    }
}
