//! Reading single runs and their journals.

use toolwright_types::RunId;

use super::rows::{EntryRow, RunRow, run_columns};
use super::{Entry, Run, Runs, rows, story};
use crate::db::Unavailable;
use crate::{page, sql};

impl Runs<'_> {
    /// The run with that id.
    pub async fn get(&self, run: RunId) -> Result<Option<Run>, Unavailable> {
        let row: Option<RunRow> = read!(&self.store.db, |pool| {
            sqlx::query_as(concat!("SELECT ", run_columns!(), " FROM runs r WHERE r.realm_id = $1 AND r.id = $2"))
                .bind(self.realm.to_string())
                .bind(run.to_string())
                .fetch_optional(pool)
        })?;
        row.map(Run::try_from).transpose()
    }

    /// The entries after number `after`, in their order; at least 1 and at most 1000 whatever the limit says.
    pub async fn entries(&self, run: RunId, after: u64, limit: u32) -> Result<Vec<Entry>, Unavailable> {
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
            return rows.into_iter().map(Entry::try_from).collect();
        }
        let story: Option<(String, Option<Vec<u8>>)> = read!(&self.store.db, |pool| {
            sqlx::query_as(
                "SELECT r.story, r.marked_hash FROM runs r WHERE r.realm_id = $1 AND r.id = $2 AND r.story IS NOT NULL",
            )
            .bind(self.realm.to_string())
            .bind(run.to_string())
            .fetch_optional(pool)
        })?;
        let entries = match story {
            Some((text, marked)) => story::read(&text, &rows::hash(marked)?)?,
            None => Vec::new(),
        };
        let most = usize::try_from(limit).unwrap_or(usize::MAX);
        Ok(entries.into_iter().filter(|entry| entry.n > after).take(most).collect())
    }
}
