//! Reads single runs and their journals.

use toolwright_types::RunId;

use super::rows::{EntryRow, RunRow, run_columns};
use super::{JournalEntry, RealmRuns, Run, inline_journal, rows};
use crate::db::StoreError;
use crate::{page, sql};

impl RealmRuns<'_> {
    /// Returns the run with this id.
    pub async fn get(&self, run: RunId) -> Result<Option<Run>, StoreError> {
        let row: Option<RunRow> = read!(&self.store.db, |pool| {
            sqlx::query_as(concat!("SELECT ", run_columns!(), " FROM runs r WHERE r.realm_id = $1 AND r.id = $2"))
                .bind(self.realm.to_string())
                .bind(run.to_string())
                .fetch_optional(pool)
        })?;
        row.map(Run::try_from).transpose()
    }

    /// Returns the entries after number `after`, in order. A limit outside 1–1000 is set to the nearest bound.
    pub async fn entries(&self, run: RunId, after: u64, limit: u32) -> Result<Vec<JournalEntry>, StoreError> {
        let limit = page::clamp(limit);
        let rows: Vec<EntryRow> = read!(&self.store.db, |pool| {
            sqlx::query_as(
                "SELECT j.n, j.written_at, j.kind, j.body, j.hash FROM journal j JOIN runs r ON r.id = j.run_id
                 WHERE r.realm_id = $1 AND j.run_id = $2 AND j.n > $3 ORDER BY j.n LIMIT $4",
            )
            .bind(self.realm.to_string())
            .bind(run.to_string())
            .bind(sql::count(after))
            .bind(i64::from(limit))
            .fetch_all(pool)
        })?;
        if !rows.is_empty() {
            return rows.into_iter().map(JournalEntry::try_from).collect();
        }
        let entries = self.inline_entries(run).await?;
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        Ok(entries.into_iter().filter(|entry| entry.n > after).take(limit).collect())
    }
    /// Returns all entries of an inline journal; none if the run has no inline journal.
    pub(super) async fn inline_entries(&self, run: RunId) -> Result<Vec<JournalEntry>, StoreError> {
        let stored: Option<(String, Vec<u8>)> = read!(&self.store.db, |pool| {
            sqlx::query_as(
                "SELECT r.inline_journal, r.last_entry_hash FROM runs r
                 WHERE r.realm_id = $1 AND r.id = $2 AND r.inline_journal IS NOT NULL",
            )
            .bind(self.realm.to_string())
            .bind(run.to_string())
            .fetch_optional(pool)
        })?;
        match stored {
            Some((text, last_hash)) => inline_journal::read(&text, &rows::hash(&last_hash)?),
            None => Ok(Vec::new()),
        }
    }
}
