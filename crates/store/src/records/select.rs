//! Finds, counts and deletes records.

use serde_json::Value;
use toolwright_query::sql::{self, Dialect, InvalidIdentifier, Layout, SearchableField};
use toolwright_query::{Cursor, Filter, Sort};

use super::{RealmRecords, layout};
use crate::db::StoreError;
use crate::sql::Sql;

/// A condition that selects records by their content. A record must match both filters.
#[derive(Debug, Clone)]
pub struct Selection {
    /// A filter on the complete stored record.
    pub stored: Filter,
    /// A filter on the record without its `hidden` fields.
    pub visible: Filter,
    /// The top-level fields that the caller may not see.
    pub hidden: Vec<String>,
    /// The fields that have an index.
    pub searchable: Vec<SearchableField>,
}

impl Selection {
    /// Selects the records that match a filter. `searchable` are the fields that have an index.
    pub fn of(filter: Filter, searchable: Vec<SearchableField>) -> Self {
        Self { stored: filter, visible: Filter::match_all(), hidden: Vec::new(), searchable }
    }
}

/// The requested page of the selected records.
#[derive(Debug, Clone)]
pub struct RecordPage {
    /// The order.
    pub sort: Sort,
    /// The position after which the page starts.
    pub after: Option<Cursor>,
    /// The number of records to skip after the position.
    pub skip: u64,
    /// The maximum number of records.
    pub limit: u32,
}

impl RealmRecords<'_> {
    /// Returns the complete records of a page, in order.
    pub async fn find(&self, selection: &Selection, page: &RecordPage) -> Result<Vec<Value>, StoreError> {
        let layout = layout(&selection.searchable).map_err(unusable)?;
        let dialect = self.dialect();
        let mut sql = Sql::new("SELECT CAST(r.body AS TEXT)");
        self.push_from(&mut sql, selection, &layout);
        if let Some(cursor) = &page.after {
            sql.push(" AND ").fragment(|first| sql::after_cursor(cursor, &page.sort, &layout, dialect, first));
        }
        sql.push(" ORDER BY ").fragment(|first| sql::order_by(&page.sort, &layout, dialect, first));
        sql.push(" LIMIT ").integer(i64::from(page.limit));
        if page.skip > 0 {
            sql.push(" OFFSET ").integer(i64::try_from(page.skip).unwrap_or(i64::MAX));
        }
        let (text, values) = sql.into_parts();
        let bodies: Vec<String> =
            read!(&self.store.db, |pool| bind_all!(sqlx::query_scalar(text), values).fetch_all(pool))?;
        bodies.iter().map(|body| serde_json::from_str(body).map_err(StoreError::unreadable)).collect()
    }

    /// Counts the selected records.
    pub async fn count(&self, selection: &Selection) -> Result<u64, StoreError> {
        let layout = layout(&selection.searchable).map_err(unusable)?;
        let mut sql = Sql::new("SELECT COUNT(*)");
        self.push_from(&mut sql, selection, &layout);
        let (text, values) = sql.into_parts();
        let count: i64 = read!(&self.store.db, |pool| bind_all!(sqlx::query_scalar(text), values).fetch_one(pool))?;
        u64::try_from(count).map_err(StoreError::unreadable)
    }

    /// Deletes the selected records and returns their number. If `version` is set, deletes only records with that
    /// version.
    pub async fn remove(&self, selection: &Selection, version: Option<i64>) -> Result<u64, StoreError> {
        let layout = layout(&selection.searchable).map_err(unusable)?;
        let mut sql = Sql::new("DELETE FROM records WHERE ");
        self.push_realm_and_type(&mut sql, "");
        if let Some(version) = version {
            sql.push(" AND version = ").integer(version);
        }
        sql.push(" AND id IN (SELECT r.id");
        self.push_from(&mut sql, selection, &layout);
        sql.push(")");
        let mut tx = self.store.db.begin().await?;
        let removed = sql.execute(&mut tx).await?;
        tx.commit_unannounced().await?;
        Ok(removed)
    }

    /// Appends ` FROM … r WHERE …` with the condition of the selection.
    fn push_from(&self, sql: &mut Sql, selection: &Selection, layout: &Layout) {
        let dialect = self.dialect();
        let stored = |first| sql::compile(&selection.stored, layout, dialect, first);
        if selection.hidden.is_empty() {
            sql.push(" FROM records r WHERE ");
            self.push_realm_and_type(sql, "r.");
            sql.push(" AND ").fragment(stored);
        } else {
            // Hidden fields are removed before the caller's filter is evaluated.
            sql.push(" FROM (SELECT r.id, ");
            push_visible_body(sql, &selection.hidden, dialect);
            sql.push(" AS body FROM records r WHERE ");
            self.push_realm_and_type(sql, "r.");
            sql.push(" AND ").fragment(stored).push(") r WHERE 1 = 1");
        }
        sql.push(" AND ").fragment(|first| sql::compile(&selection.visible, layout, dialect, first));
    }

    /// Appends the ids of realm and type as literals. The query planner uses the partial index of a type only if the
    /// ids are literals.
    pub(super) fn push_realm_and_type(&self, sql: &mut Sql, table: &'static str) {
        sql.push(table)
            .push("realm_id = ")
            .id(self.realm)
            .push(" AND ")
            .push(table)
            .push("type_id = ")
            .id(self.entity_type);
    }
}

fn push_visible_body(sql: &mut Sql, hidden: &[String], dialect: Dialect) {
    match dialect {
        Dialect::Sqlite => {
            sql.push("json_remove(r.body");
            for name in hidden {
                sql.push(", ").text(format!("$.\"{name}\""));
            }
            sql.push(")");
        }
        Dialect::Postgres => {
            sql.push("(r.body");
            for name in hidden {
                sql.push(" - ").text(name.as_str()).push("::text");
            }
            sql.push(")");
        }
    }
}

/// Converts the error for an invalid column name. The names are constants of this crate, so the error indicates a bug
/// in this crate.
fn unusable(error: InvalidIdentifier) -> StoreError {
    StoreError::unreadable(error)
}
