//! Applies filters of the query language to rows of ordinary tables. A filter is evaluated on the JSON object that
//! clients receive for a row.

use toolwright_query::Filter;
use toolwright_query::sql::{Column, Dialect, InvalidIdentifier, Layout, compile};

use crate::db::{Db, StoreError};
use crate::sql::Sql;

/// A table column that becomes a field of the JSON object.
#[derive(Debug, Clone, Copy)]
pub(crate) enum FieldColumn {
    /// Text or a number.
    Scalar(&'static str),
    /// A boolean.
    Boolean(&'static str),
    /// Microseconds since the Unix epoch, converted to RFC 3339 text in the JSON object.
    Timestamp(&'static str),
    /// Text that contains JSON.
    Json(&'static str),
}

/// The mapping from a table row to a JSON object.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RowView {
    /// The id column.
    pub id: &'static str,
    /// A text column that contains a JSON object. `fields` are added to the object and override members with the same
    /// name.
    pub body: Option<&'static str>,
    /// The fields and their columns.
    pub fields: &'static [(&'static str, FieldColumn)],
}

impl RowView {
    /// Whether the JSON object has a field with this path. Not meaningful for views with a `body`, because the members
    /// of a body are not known in advance.
    pub(crate) fn is_filterable(&self, path: &str) -> bool {
        let (first, is_nested) = path.split_once('.').map_or((path, false), |(first, _)| (first, true));
        let matches =
            |(name, cell): &(&str, FieldColumn)| *name == first && (!is_nested || matches!(cell, FieldColumn::Json(_)));
        self.fields.iter().any(matches)
    }

    /// Appends ` AND …` to a query, so that it selects only the rows that match the filter.
    pub(crate) fn push(&self, sql: &mut Sql, db: &Db, filter: &Filter) -> Result<(), StoreError> {
        let dialect = db.dialect();
        let layout = layout().map_err(StoreError::unreadable)?;
        sql.push(" AND EXISTS (SELECT 1 FROM (SELECT ").push(self.id).push(" AS id, ");
        self.push_record(sql, dialect);
        sql.push(" AS record) m WHERE ").fragment(|first| compile(filter, &layout, dialect, first)).push(")");
        Ok(())
    }

    fn push_record(&self, sql: &mut Sql, dialect: Dialect) {
        let (open, between, close) = match (dialect, self.body) {
            (Dialect::Sqlite, Some(_)) => ("json_patch(", ", json_object(", "))"),
            (Dialect::Sqlite, None) => ("", "json_object(", ")"),
            (Dialect::Postgres, Some(_)) => ("(", "::jsonb || jsonb_build_object(", "))"),
            (Dialect::Postgres, None) => ("", "jsonb_build_object(", ")"),
        };
        sql.push(open).push(self.body.unwrap_or_default()).push(between);
        for (at, (name, cell)) in self.fields.iter().enumerate() {
            sql.push(if at == 0 { "'" } else { ", '" }).push(name).push("', ");
            push_cell(sql, *cell, dialect);
        }
        sql.push(close);
    }
}

fn push_cell(sql: &mut Sql, cell: FieldColumn, dialect: Dialect) {
    match (cell, dialect) {
        (FieldColumn::Scalar(column), _) | (FieldColumn::Boolean(column), Dialect::Postgres) => sql.push(column),
        (FieldColumn::Boolean(column), Dialect::Sqlite) => {
            sql.push("json(CASE WHEN ").push(column).push(" THEN 'true' ELSE 'false' END)")
        }
        (FieldColumn::Json(column), Dialect::Sqlite) => sql.push("json(").push(column).push(")"),
        (FieldColumn::Json(column), Dialect::Postgres) => sql.push(column).push("::jsonb"),
        (FieldColumn::Timestamp(column), Dialect::Sqlite) => sql
            .push("(strftime('%Y-%m-%dT%H:%M:%S', ")
            .push(column)
            .push(" / 1000000, 'unixepoch') || printf('.%06dZ', ")
            .push(column)
            .push(" % 1000000))"),
        (FieldColumn::Timestamp(column), Dialect::Postgres) => sql
            .push("to_char(to_timestamp(")
            .push(column)
            .push(" / 1000000) AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS') || to_char(")
            .push(column)
            .push(" % 1000000, 'FM\".\"000000\"Z\"')"),
    };
}

fn layout() -> Result<Layout, InvalidIdentifier> {
    Ok(Layout::new(Column::new("m.id")?, Column::new("m.record")?))
}
