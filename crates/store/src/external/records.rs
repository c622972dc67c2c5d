//! Reads rows of an external table as records.

use serde_json::Value;
use sqlx::{ColumnIndex, Decode, FromRow, Row};
use toolwright_query::sql::{self, Layout, TableName};

use super::write::WritableColumn;
use super::{ExternalDatabase, with_timeout};
use crate::db::StoreError;
use crate::records::{RecordPage, Selection};
use crate::sql::Sql;

/// An external table and its mapping to records.
#[derive(Debug, Clone)]
pub struct ExternalTable {
    /// The name.
    pub name: TableName,
    /// The mapping of columns to fields.
    pub layout: Layout,
    /// The key column.
    pub key: WritableColumn,
    /// The columns that are visible as fields of a record. Contains the key column only if the key is also a field.
    pub columns: Vec<WritableColumn>,
    /// The column with the row's version number, if the table has one.
    pub version: Option<WritableColumn>,
}

/// A query result row that contains a record as JSON text.
pub(super) struct RecordRow(Vec<u8>);

impl<'r, R: Row> FromRow<'r, R> for RecordRow
where
    usize: ColumnIndex<R>,
    Vec<u8>: Decode<'r, R::Database>,
{
    fn from_row(row: &'r R) -> Result<Self, sqlx::Error> {
        row.try_get_unchecked(0).map(Self)
    }
}

impl RecordRow {
    /// Parses the record. SQLite may return text that is not valid UTF-8. Invalid bytes are replaced, so that the
    /// record stays readable.
    pub(super) fn record(&self) -> Result<Value, StoreError> {
        serde_json::from_str(&String::from_utf8_lossy(&self.0)).map_err(StoreError::unreadable)
    }
}

impl ExternalDatabase {
    /// Returns the complete records of a page, in order.
    pub async fn find(
        &self,
        table: &ExternalTable,
        selection: &Selection,
        page: &RecordPage,
    ) -> Result<Vec<Value>, StoreError> {
        let (layout, dialect) = (&table.layout, self.dialect());
        let mut sql = Sql::new("SELECT ");
        sql.fragment(|_| layout.record(dialect));
        self.push_from(&mut sql, table, selection);
        if let Some(cursor) = &page.after {
            sql.push(" AND ").fragment(|first| sql::after_cursor(cursor, &page.sort, layout, dialect, first));
        }
        sql.push(" ORDER BY ").fragment(|first| sql::order_by(&page.sort, layout, dialect, first));
        sql.push(" LIMIT ").integer(i64::from(page.limit));
        if page.skip > 0 {
            sql.push(" OFFSET ").integer(i64::try_from(page.skip).unwrap_or(i64::MAX));
        }
        let (text, values) = sql.into_parts();
        let rows: Vec<RecordRow> =
            with_timeout(async { read!(&self.db, |pool| bind_all!(sqlx::query_as(text), values).fetch_all(pool)) })
                .await?;
        rows.iter().map(RecordRow::record).collect()
    }

    /// Counts the selected records.
    pub async fn count(&self, table: &ExternalTable, selection: &Selection) -> Result<u64, StoreError> {
        let mut sql = Sql::new("SELECT COUNT(*)");
        self.push_from(&mut sql, table, selection);
        let (text, values) = sql.into_parts();
        let count: i64 =
            with_timeout(async { read!(&self.db, |pool| bind_all!(sqlx::query_scalar(text), values).fetch_one(pool)) })
                .await?;
        u64::try_from(count).map_err(StoreError::unreadable)
    }

    /// Appends ` FROM … t WHERE …` with the condition of the selection.
    fn push_from(&self, sql: &mut Sql, table: &ExternalTable, selection: &Selection) {
        sql.push(" FROM ").fragment(|_| table.name.fragment()).push(" AS t WHERE ");
        self.push_condition(sql, table, selection);
    }

    /// Appends the condition of the selection.
    pub(super) fn push_condition(&self, sql: &mut Sql, table: &ExternalTable, selection: &Selection) {
        let dialect = self.dialect();
        sql.fragment(|first| sql::compile(&selection.stored, &table.layout, dialect, first));
        // Hidden fields are removed from the layout, so that the caller's filter cannot match them.
        let seen = table.layout.without_fields(&selection.hidden);
        sql.push(" AND ").fragment(|first| sql::compile(&selection.visible, &seen, dialect, first));
    }
}
