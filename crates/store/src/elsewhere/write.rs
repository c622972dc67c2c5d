//! Rows of somebody else's table, written and removed.
//!
//! What may be written, and as what, was decided before. A value that the database does not take is told with the database's own
//! words: they speak of what the writer sent.

use serde_json::{Map, Value};
use toolwright_query::Filter;
use toolwright_query::sql::{self, Dialect, Holds, TableColumn};

use super::rows::{Table, Told};
use super::{Elsewhere, in_time};
use crate::db::{Tx, Unavailable};
use crate::records::Selection;
use crate::sql::{Bound, Sql};

/// A column that is written.
#[derive(Debug, Clone)]
pub struct WritableColumn {
    /// The field that it is.
    pub field: String,
    /// Its name in the database.
    pub name: String,
    /// The column as statements have it.
    pub column: TableColumn,
    /// What it holds.
    pub holds: Holds,
    /// Whether the database fills it in when nobody does.
    pub filled: bool,
    /// Whether only the database fills it in.
    pub computed: bool,
    /// Whether it holds bytes, which are shown and not written.
    pub bytes: bool,
}

/// A row to be written.
#[derive(Debug, Clone)]
pub struct RowWrite<'t> {
    /// The row that is changed; none for one that is new.
    pub replaces: Option<Replaced>,
    /// The id of a new row, where it has one before it is written.
    pub id: Option<String>,
    /// The columns that are set, each once.
    pub values: Vec<(&'t WritableColumn, Value)>,
}

/// A row that is changed if it is still what it was.
#[derive(Debug, Clone)]
pub struct Replaced {
    /// Its id.
    pub id: String,
    /// The version it must have, where rows have one.
    pub version: Option<i64>,
}

/// What became of a row.
#[derive(Debug, Clone, PartialEq)]
pub enum RowWritten {
    /// It is written, and reads so from now on; none if the writer may not read it.
    Done(Option<Value>),
    /// It is not what it was any more: changed, gone, or there already.
    Overtaken,
    /// The database does not take it, and says why.
    Refused(String),
    /// The database does not take it, and says nothing.
    Ignored,
    /// Its id is that of several rows.
    Ambiguous,
}

/// What became of rows that were to be removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RowsRemoved {
    /// So many are gone.
    Done(u64),
    /// The database keeps them, and says why.
    Refused(String),
    /// There are more than were meant, and all of them stay.
    Ambiguous,
}

impl Elsewhere {
    /// Writes rows in one transaction. One that is refused keeps no other out.
    pub async fn write(&self, table: &Table, rows: &[RowWrite<'_>]) -> Result<Vec<RowWritten>, Unavailable> {
        let mut tx = in_time(self.db.begin()).await?;
        let mut written = Vec::with_capacity(rows.len());
        for row in rows {
            written.push(in_time(self.write_row(&mut tx, table, row)).await?);
        }
        match in_time(tx.commit_unannounced()).await {
            Ok(()) => Ok(written),
            // What the database looks at in the end concerns all of them.
            Err(error) => match error.refusal() {
                Some(why) => Ok(vec![RowWritten::Refused(why); rows.len()]),
                None => Err(error),
            },
        }
    }

    /// Removes the rows of a selection, with `version` only those at that version, and `most` of them at most: all, or none.
    pub async fn remove(
        &self,
        table: &Table,
        selection: &Selection,
        version: Option<i64>,
        most: u64,
    ) -> Result<RowsRemoved, Unavailable> {
        let mut sql = Sql::new("DELETE FROM ");
        sql.fragment(|_| table.name.fragment()).push(" AS t WHERE ");
        self.push_selected(&mut sql, table, selection);
        push_version(&mut sql, table, version);
        let removed = in_time(async {
            let mut tx = self.db.begin().await?;
            let removed = sql.execute(&mut tx).await?;
            // What is not committed is undone, also what a trigger did in place of it.
            if removed > most {
                return Ok(RowsRemoved::Ambiguous);
            }
            if removed > 0 {
                tx.commit_unannounced().await?;
            }
            Ok(RowsRemoved::Done(removed))
        });
        match removed.await {
            Ok(removed) => Ok(removed),
            Err(error) => error.refusal().map(RowsRemoved::Refused).ok_or(error),
        }
    }

    async fn write_row(&self, tx: &mut Tx, table: &Table, row: &RowWrite<'_>) -> Result<RowWritten, Unavailable> {
        tx.savepoint().await?;
        let statement = match &row.replaces {
            Some(replaced) => self.update(table, replaced, &row.values),
            None => self.insert(table, &row.values),
        };
        let (text, values) = statement.into_parts();
        let ids: Result<Vec<Option<String>>, Unavailable> =
            within!(*tx, |conn| bind_all!(sqlx::query_scalar(text), values).fetch_all(conn));
        match ids {
            Ok(mut ids) if ids.len() == 1 => {
                let record = match ids.pop().flatten() {
                    Some(id) => self.read_back(tx, table, id).await?,
                    None => None,
                };
                tx.keep_since_savepoint().await?;
                Ok(RowWritten::Done(record))
            }
            Ok(ids) => {
                // A trigger may have done something else instead.
                tx.back_to_savepoint().await?;
                match &row.replaces {
                    Some(_) if !ids.is_empty() => Ok(RowWritten::Ambiguous),
                    Some(replaced) if !self.is_still(tx, table, replaced).await? => Ok(RowWritten::Overtaken),
                    _ => Ok(RowWritten::Ignored),
                }
            }
            Err(error) => {
                let Some(why) = error.refusal() else { return Err(error) };
                tx.back_to_savepoint().await?;
                // Somebody else may have made the row; another rule of the table may be against it.
                match (&row.replaces, &row.id) {
                    (None, Some(id)) if error.is_duplicate() => {
                        let there = self.read_back(tx, table, id.clone()).await?.is_some();
                        Ok(if there { RowWritten::Overtaken } else { RowWritten::Refused(why) })
                    }
                    _ => Ok(RowWritten::Refused(why)),
                }
            }
        }
    }

    /// Whether the row is what it was.
    async fn is_still(&self, tx: &mut Tx, table: &Table, replaced: &Replaced) -> Result<bool, Unavailable> {
        let found = self.read_back(tx, table, replaced.id.clone()).await?;
        let version = |found: &Value| found.get("version").and_then(Value::as_i64).unwrap_or_default();
        Ok(found.is_some_and(|found| replaced.version.is_none_or(|expected| version(&found) == expected)))
    }

    async fn read_back(&self, tx: &mut Tx, table: &Table, id: String) -> Result<Option<Value>, Unavailable> {
        let dialect = self.dialect();
        let mut sql = Sql::new("SELECT ");
        sql.fragment(|_| table.layout.record(dialect)).push(" FROM ").fragment(|_| table.name.fragment());
        sql.push(" AS t WHERE ");
        sql.fragment(|first| sql::compile(&Filter::ids([id]), &table.layout, dialect, first));
        let (text, values) = sql.into_parts();
        let found: Option<Told> = within!(*tx, |conn| bind_all!(sqlx::query_as(text), values).fetch_optional(conn))?;
        found.as_ref().map(Told::record).transpose()
    }

    /// Gives the id of the new row.
    fn insert(&self, table: &Table, values: &[(&WritableColumn, Value)]) -> Sql {
        let mut sql = Sql::new("INSERT INTO ");
        sql.fragment(|_| table.name.fragment());
        if values.is_empty() {
            sql.push(" DEFAULT VALUES");
        } else {
            sql.push(" (");
            for (at, (column, _)) in values.iter().enumerate() {
                sql.push(if at == 0 { "" } else { ", " }).fragment(|_| column.column.name());
            }
            sql.push(") SELECT ");
            for (at, (column, value)) in values.iter().enumerate() {
                sql.push(if at == 0 { "" } else { ", " });
                self.push_value(&mut sql, column, value);
            }
            self.push_row(&mut sql, " FROM ", table, values);
        }
        sql.push(" RETURNING CAST(").fragment(|_| table.key.column.name()).push(" AS TEXT)");
        sql
    }

    /// Gives the id of the row, if it is still what it was.
    fn update(&self, table: &Table, replaced: &Replaced, values: &[(&WritableColumn, Value)]) -> Sql {
        let dialect = self.dialect();
        let mut sql = Sql::new("UPDATE ");
        sql.fragment(|_| table.name.fragment()).push(" AS t SET ");
        for (at, (column, value)) in values.iter().enumerate() {
            sql.push(if at == 0 { "" } else { ", " }).fragment(|_| column.column.name()).push(" = ");
            self.push_value(&mut sql, column, value);
        }
        self.push_row(&mut sql, " FROM ", table, values);
        sql.push(" WHERE ");
        let this = Filter::ids([replaced.id.clone()]);
        sql.fragment(|first| sql::compile(&this, &table.layout, dialect, first));
        push_version(&mut sql, table, replaced.version);
        sql.push(" RETURNING CAST(").fragment(|_| self.key_of_updated(table)).push(" AS TEXT)");
        sql
    }

    /// Of two tables in a statement Postgres must be told whose column is meant; SQLite knows no other name here than its own.
    fn key_of_updated(&self, table: &Table) -> sql::Fragment {
        match self.dialect() {
            Dialect::Sqlite => table.key.column.name(),
            Dialect::Postgres => table.key.column.qualified(),
        }
    }

    /// Postgres reads the values of a row from JSON by itself, each as its column wants it.
    fn push_row(&self, sql: &mut Sql, before: &'static str, table: &Table, values: &[(&WritableColumn, Value)]) {
        if self.dialect() == Dialect::Postgres {
            let row: Map<String, Value> =
                values.iter().map(|(column, value)| (column.name.clone(), value.clone())).collect();
            sql.push(before).push("jsonb_populate_record(NULL::").fragment(|_| table.name.fragment()).push(", ");
            sql.text(Value::Object(row).to_string()).push("::jsonb) AS r");
        }
    }

    fn push_value(&self, sql: &mut Sql, column: &WritableColumn, value: &Value) {
        match (self.dialect(), column.holds, value) {
            (Dialect::Sqlite, ..) => drop(sql.bind(sqlite_value(column, value))),
            // By itself Postgres would leave the offset out.
            (Dialect::Postgres, Holds::LocalMoment, Value::String(text)) => {
                sql.push("(").text(text.as_str()).push("::timestamptz AT TIME ZONE 'UTC')");
            }
            (Dialect::Postgres, ..) => drop(sql.push("r.").fragment(|_| column.column.name())),
        }
    }
}

fn push_version(sql: &mut Sql, table: &Table, version: Option<i64>) {
    if let (Some(column), Some(version)) = (&table.version, version) {
        sql.push(" AND coalesce(").fragment(|_| column.column.qualified()).push(", 0) = ").integer(version);
    }
}

/// The value as SQLite is given it; what it becomes is up to the affinity of the column.
fn sqlite_value(column: &WritableColumn, value: &Value) -> Bound {
    match value {
        Value::Null => Bound::TextOrNull(None),
        value if column.holds == Holds::Json => Bound::Text(value.to_string()),
        Value::Bool(truth) => Bound::Integer(i64::from(*truth)),
        Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(whole), _) => Bound::Integer(whole),
            (None, Some(real)) => Bound::Float(real),
            (None, None) => Bound::Text(number.to_string()),
        },
        Value::String(text) => Bound::Text(match column.holds {
            Holds::Moment | Holds::LocalMoment => as_sqlite_writes(text),
            _ => text.clone(),
        }),
        other => Bound::Text(other.to_string()),
    }
}

/// A time in UTC as SQLite writes it itself, which is how it was read.
fn as_sqlite_writes(text: &str) -> String {
    let parts = text.strip_suffix('Z').and_then(|text| text.split_once('T'));
    match parts {
        Some((day, time)) if day.len() == 10 && time.len() >= 8 => format!("{day} {time}"),
        _ => text.to_owned(),
    }
}
