//! Rows of tables that are no records, asked in the query language all the same: as the JSON that clients see of them.

use toolwright_query::Filter;
use toolwright_query::sql::{Column, Dialect, InvalidName, Layout, compile};

use crate::db::{Db, Unavailable};
use crate::records::dialect;
use crate::sql::Sql;

/// A column, as the field of a JSON object.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Cell {
    /// A text or a number.
    Plain(&'static str),
    /// A boolean.
    Truth(&'static str),
    /// Microseconds, shown as RFC 3339.
    Moment(&'static str),
    /// A text that holds JSON.
    Json(&'static str),
}

/// What a row looks like.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shown {
    /// The column of the id.
    pub id: &'static str,
    /// A text that holds a JSON object, over which the fields are laid.
    pub body: Option<&'static str>,
    /// The fields.
    pub fields: &'static [(&'static str, Cell)],
}

impl Shown {
    /// Whether a row has this field, by its path. Only where no part of it is of somebody's own making.
    pub fn knows(&self, path: &str) -> bool {
        let (first, deeper) = path.split_once('.').map_or((path, false), |(first, _)| (first, true));
        let fits = |(name, cell): &(&str, Cell)| *name == first && (!deeper || matches!(cell, Cell::Json(_)));
        self.fields.iter().any(fits)
    }

    /// Adds ` AND …` to a query about such rows: only those that pass.
    pub fn push(&self, sql: &mut Sql, db: &Db, filter: &Filter) -> Result<(), Unavailable> {
        let dialect = dialect(db);
        let layout = layout().map_err(Unavailable::unreadable)?;
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

fn push_cell(sql: &mut Sql, cell: Cell, dialect: Dialect) {
    match (cell, dialect) {
        (Cell::Plain(column), _) | (Cell::Truth(column), Dialect::Postgres) => sql.push(column),
        (Cell::Truth(column), Dialect::Sqlite) => {
            sql.push("json(CASE WHEN ").push(column).push(" THEN 'true' ELSE 'false' END)")
        }
        (Cell::Json(column), Dialect::Sqlite) => sql.push("json(").push(column).push(")"),
        (Cell::Json(column), Dialect::Postgres) => sql.push(column).push("::jsonb"),
        (Cell::Moment(column), Dialect::Sqlite) => sql
            .push("(strftime('%Y-%m-%dT%H:%M:%S', ")
            .push(column)
            .push(" / 1000000, 'unixepoch') || printf('.%06dZ', ")
            .push(column)
            .push(" % 1000000))"),
        (Cell::Moment(column), Dialect::Postgres) => sql
            .push("to_char(to_timestamp(")
            .push(column)
            .push(" / 1000000) AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS') || to_char(")
            .push(column)
            .push(" % 1000000, 'FM\".\"000000\"Z\"')"),
    };
}

fn layout() -> Result<Layout, InvalidName> {
    Ok(Layout::new(Column::new("m.id")?, Column::new("m.record")?))
}
