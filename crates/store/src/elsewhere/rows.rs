//! Rows of somebody else's table, as records.

use serde_json::Value;
use sqlx::{ColumnIndex, Decode, FromRow, Row};
use toolwright_query::sql::{self, Layout, TableName};

use super::write::WritableColumn;
use super::{Elsewhere, in_time};
use crate::db::Unavailable;
use crate::records::{RecordPage, Selection};
use crate::sql::Sql;

/// A table, and how its rows are records.
#[derive(Debug, Clone)]
pub struct Table {
    /// Its name.
    pub name: TableName,
    /// Its columns as fields.
    pub layout: Layout,
    /// The column that tells rows apart.
    pub key: WritableColumn,
    /// The columns that are fields, the key among them if it is one.
    pub columns: Vec<WritableColumn>,
    /// The column that counts writes, where there is one.
    pub version: Option<WritableColumn>,
}

/// A record as a row tells it.
pub(super) struct Told(Vec<u8>);

impl<'r, R: Row> FromRow<'r, R> for Told
where
    usize: ColumnIndex<R>,
    Vec<u8>: Decode<'r, R::Database>,
{
    fn from_row(row: &'r R) -> Result<Self, sqlx::Error> {
        row.try_get_unchecked(0).map(Self)
    }
}

impl Told {
    /// The record. SQLite keeps any bytes as text; those that are none must not hide the rest.
    pub(super) fn record(&self) -> Result<Value, Unavailable> {
        serde_json::from_str(&String::from_utf8_lossy(&self.0)).map_err(Unavailable::unreadable)
    }
}

impl Elsewhere {
    /// The records of a page, whole, in order.
    pub async fn find(
        &self,
        table: &Table,
        selection: &Selection,
        page: &RecordPage,
    ) -> Result<Vec<Value>, Unavailable> {
        let (layout, dialect) = (&table.layout, self.dialect());
        let mut sql = Sql::new("SELECT ");
        sql.fragment(|_| layout.record(dialect));
        self.push_from(&mut sql, table, selection);
        if let Some(cursor) = &page.after {
            sql.push(" AND ").fragment(|first| sql::after(cursor, &page.sort, layout, dialect, first));
        }
        sql.push(" ORDER BY ").fragment(|first| sql::order_by(&page.sort, layout, dialect, first));
        sql.push(" LIMIT ").integer(i64::from(page.limit));
        if page.skip > 0 {
            sql.push(" OFFSET ").integer(i64::try_from(page.skip).unwrap_or(i64::MAX));
        }
        let (text, values) = sql.into_parts();
        let rows: Vec<Told> =
            in_time(async { read!(&self.db, |pool| bind_all!(sqlx::query_as(text), values).fetch_all(pool)) }).await?;
        rows.iter().map(Told::record).collect()
    }

    /// How many records there are.
    pub async fn count(&self, table: &Table, selection: &Selection) -> Result<u64, Unavailable> {
        let mut sql = Sql::new("SELECT COUNT(*)");
        self.push_from(&mut sql, table, selection);
        let (text, values) = sql.into_parts();
        let count: i64 =
            in_time(async { read!(&self.db, |pool| bind_all!(sqlx::query_scalar(text), values).fetch_one(pool)) })
                .await?;
        Ok(u64::try_from(count).unwrap_or(0))
    }

    /// ` FROM … t WHERE …`: the rows of the selection.
    fn push_from(&self, sql: &mut Sql, table: &Table, selection: &Selection) {
        sql.push(" FROM ").fragment(|_| table.name.fragment()).push(" AS t WHERE ");
        self.push_selected(sql, table, selection);
    }

    /// What holds for the rows of the selection.
    pub(super) fn push_selected(&self, sql: &mut Sql, table: &Table, selection: &Selection) {
        let dialect = self.dialect();
        sql.fragment(|first| sql::compile(&selection.stored, &table.layout, dialect, first));
        // What is not seen is no column for the asker's filter.
        let seen = table.layout.without(&selection.unseen);
        sql.push(" AND ").fragment(|first| sql::compile(&selection.seen, &seen, dialect, first));
    }
}
