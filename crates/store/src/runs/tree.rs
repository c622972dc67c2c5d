//! Reads the child runs of several runs with one query.

use toolwright_types::RunId;

use super::rows::{RunRow, run_columns};
use super::{Owners, RealmRuns, Run};
use crate::db::StoreError;
use crate::sql::Sql;

impl RealmRuns<'_> {
    /// Returns the child runs of `parents` that belong to `owners`, in the order of their start, at most `limit`.
    pub async fn children(&self, owners: Owners, parents: &[RunId], limit: usize) -> Result<Vec<Run>, StoreError> {
        if parents.is_empty() {
            return Ok(Vec::new());
        }
        // With the parents as the first table of a CROSS JOIN, SQLite searches the index on the parent. It would otherwise
        // read all runs of the realm in the requested order.
        let mut sql = Sql::new(concat!("SELECT ", run_columns!(), " FROM (VALUES "));
        sql.rows(parents, |sql, parent| {
            sql.text(*parent);
        });
        sql.push(") AS v CROSS JOIN runs r WHERE r.parent_id = v.column1 AND r.realm_id = ")
            .text(self.realm.to_string());
        owners.push(&mut sql);
        sql.push(" ORDER BY r.started_at, r.id LIMIT ").integer(i64::try_from(limit).unwrap_or(i64::MAX));
        let (text, values) = sql.into_parts();
        let rows: Vec<RunRow> = read!(&self.store.db, |pool| bind_all!(sqlx::query_as(text), values).fetch_all(pool))?;
        rows.into_iter().map(Run::try_from).collect()
    }
}
