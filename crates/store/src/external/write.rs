//! Writes and deletes rows of an external table.
//!
//! The caller has validated the values. If the database still rejects a value, the caller receives the database's
//! message, because only the database knows the reason.

use serde_json::{Map, Value};
use toolwright_query::Filter;
use toolwright_query::sql::{self, ColumnType, Dialect, TableColumn};

use super::records::{ExternalTable, RecordRow};
use super::{ExternalDatabase, with_timeout};
use crate::db::{StoreError, Tx};
use crate::records::Selection;
use crate::sql::{Bound, Sql};

/// A column of an external table that is mapped to a field of a record.
#[derive(Debug, Clone)]
pub struct WritableColumn {
    /// The name of the field in the record.
    pub field: String,
    /// The name of the column in the database.
    pub name: String,
    /// The column with its quoted name, for use in statements.
    pub column: TableColumn,
    /// The type of the values.
    pub holds: ColumnType,
    /// Whether the database supplies a value if an insert does not set the column.
    pub has_default: bool,
    /// Whether the database computes the value, so that a write must not set it.
    pub computed: bool,
    /// Whether the column contains bytes. Such columns are read-only.
    pub bytes: bool,
}

/// A row to write.
#[derive(Debug, Clone)]
pub struct RowWrite<'t> {
    /// The row to update. `None` to insert a row.
    pub replaces: Option<ExpectedRow>,
    /// The id of a new row, if it is known before the write.
    pub id: Option<String>,
    /// The columns to set, with their values. Each column occurs at most once.
    pub values: Vec<(&'t WritableColumn, Value)>,
}

/// The row to update, with the version that it must still have.
#[derive(Debug, Clone)]
pub struct ExpectedRow {
    /// The id.
    pub id: String,
    /// The expected version, if the table has a version column.
    pub version: Option<i64>,
}

/// The outcome of writing a row.
#[derive(Debug, Clone, PartialEq)]
pub enum RowWriteOutcome {
    /// The row was written. Contains the new content, or `None` if the row cannot be read back.
    Written(Option<Value>),
    /// The row was changed or deleted after the caller read it, or the row to insert exists already.
    Conflict,
    /// The database rejected the row. Contains the database's message.
    Rejected(String),
    /// The database did not write the row and reported no error, for example because of a trigger.
    Ignored,
    /// Several rows have the same id, so none was updated.
    Ambiguous,
}

/// The outcome of deleting rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RowRemoveOutcome {
    /// The number of deleted rows.
    Removed(u64),
    /// The database rejected the deletion. Contains the database's message.
    Rejected(String),
    /// More rows matched than the caller allowed. No row was deleted.
    Ambiguous,
}

impl ExternalDatabase {
    /// Writes rows in one transaction. If the database rejects one row, the other rows are still written.
    pub async fn write(
        &self,
        table: &ExternalTable,
        rows: &[RowWrite<'_>],
    ) -> Result<Vec<RowWriteOutcome>, StoreError> {
        let mut tx = with_timeout(self.db.begin()).await?;
        let mut written = Vec::with_capacity(rows.len());
        for row in rows {
            written.push(with_timeout(self.write_row(&mut tx, table, row)).await?);
        }
        match with_timeout(tx.commit_unannounced()).await {
            Ok(()) => Ok(written),
            // Deferred constraints are checked at the commit. If one fails, no row is written, so all rows are reported
            // as rejected.
            Err(error) => match error.rejection() {
                Some(why) => Ok(vec![RowWriteOutcome::Rejected(why); rows.len()]),
                None => Err(error),
            },
        }
    }

    /// Deletes the rows of a selection. If `version` is set, deletes only rows with that version. Deletes nothing if
    /// more than `max_rows` rows match.
    pub async fn remove(
        &self,
        table: &ExternalTable,
        selection: &Selection,
        version: Option<i64>,
        max_rows: u64,
    ) -> Result<RowRemoveOutcome, StoreError> {
        let mut sql = Sql::new("DELETE FROM ");
        sql.fragment(|_| table.name.fragment()).push(" AS t WHERE ");
        self.push_condition(&mut sql, table, selection);
        push_version(&mut sql, table, version);
        let removed = with_timeout(async {
            let mut tx = self.db.begin().await?;
            let removed = sql.execute(&mut tx).await?;
            // Returning without a commit rolls the transaction back, which also undoes the effects of triggers.
            if removed > max_rows {
                return Ok(RowRemoveOutcome::Ambiguous);
            }
            if removed > 0 {
                tx.commit_unannounced().await?;
            }
            Ok(RowRemoveOutcome::Removed(removed))
        });
        match removed.await {
            Ok(removed) => Ok(removed),
            Err(error) => error.rejection().map(RowRemoveOutcome::Rejected).ok_or(error),
        }
    }

    async fn write_row(
        &self,
        tx: &mut Tx,
        table: &ExternalTable,
        row: &RowWrite<'_>,
    ) -> Result<RowWriteOutcome, StoreError> {
        tx.savepoint().await?;
        let statement = match &row.replaces {
            Some(replaced) => self.update(table, replaced, &row.values),
            None => self.insert(table, &row.values),
        };
        let (text, values) = statement.into_parts();
        let ids: Result<Vec<Option<String>>, StoreError> =
            within!(*tx, |conn| bind_all!(sqlx::query_scalar(text), values).fetch_all(conn));
        match ids {
            Ok(mut ids) if ids.len() == 1 => {
                let record = match ids.pop().flatten() {
                    Some(id) => self.read_back(tx, table, id).await?,
                    None => None,
                };
                tx.release_savepoint().await?;
                Ok(RowWriteOutcome::Written(record))
            }
            Ok(ids) => {
                // The statement wrote no row or several rows. A trigger may have written other data, so undo the
                // statement.
                tx.rollback_to_savepoint().await?;
                match &row.replaces {
                    Some(_) if !ids.is_empty() => Ok(RowWriteOutcome::Ambiguous),
                    Some(replaced) if !self.is_unchanged(tx, table, replaced).await? => Ok(RowWriteOutcome::Conflict),
                    _ => Ok(RowWriteOutcome::Ignored),
                }
            }
            Err(error) => {
                let Some(why) = error.rejection() else { return Err(error) };
                tx.rollback_to_savepoint().await?;
                // If a row with this id exists, another client has inserted it. Otherwise the row violates another
                // unique constraint.
                match (&row.replaces, &row.id) {
                    (None, Some(id)) if error.is_unique_violation() => {
                        let there = self.read_back(tx, table, id.clone()).await?.is_some();
                        Ok(if there { RowWriteOutcome::Conflict } else { RowWriteOutcome::Rejected(why) })
                    }
                    _ => Ok(RowWriteOutcome::Rejected(why)),
                }
            }
        }
    }

    /// Whether the row exists and has the expected version. A null version counts as 0, as in `push_version`.
    async fn is_unchanged(
        &self,
        tx: &mut Tx,
        table: &ExternalTable,
        replaced: &ExpectedRow,
    ) -> Result<bool, StoreError> {
        let found = self.read_back(tx, table, replaced.id.clone()).await?;
        let version = |found: &Value| found.get("version").and_then(Value::as_i64).unwrap_or_default();
        Ok(found.is_some_and(|found| replaced.version.is_none_or(|expected| version(&found) == expected)))
    }

    async fn read_back(&self, tx: &mut Tx, table: &ExternalTable, id: String) -> Result<Option<Value>, StoreError> {
        let dialect = self.dialect();
        let mut sql = Sql::new("SELECT ");
        sql.fragment(|_| table.layout.record(dialect)).push(" FROM ").fragment(|_| table.name.fragment());
        sql.push(" AS t WHERE ");
        sql.fragment(|first| sql::compile(&Filter::ids([id]), &table.layout, dialect, first));
        let (text, values) = sql.into_parts();
        let found: Option<RecordRow> =
            within!(*tx, |conn| bind_all!(sqlx::query_as(text), values).fetch_optional(conn))?;
        found.as_ref().map(RecordRow::record).transpose()
    }

    /// Builds an `INSERT` that returns the id of the new row.
    fn insert(&self, table: &ExternalTable, values: &[(&WritableColumn, Value)]) -> Sql {
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
            self.push_json_row(&mut sql, " FROM ", table, values);
        }
        sql.push(" RETURNING CAST(").fragment(|_| table.key.column.name()).push(" AS TEXT)");
        sql
    }

    /// Builds an `UPDATE` that is applied only if the row has the expected version. It returns the id of the updated
    /// row.
    fn update(&self, table: &ExternalTable, replaced: &ExpectedRow, values: &[(&WritableColumn, Value)]) -> Sql {
        let dialect = self.dialect();
        let mut sql = Sql::new("UPDATE ");
        sql.fragment(|_| table.name.fragment()).push(" AS t SET ");
        for (at, (column, value)) in values.iter().enumerate() {
            sql.push(if at == 0 { "" } else { ", " }).fragment(|_| column.column.name()).push(" = ");
            self.push_value(&mut sql, column, value);
        }
        self.push_json_row(&mut sql, " FROM ", table, values);
        sql.push(" WHERE ");
        let this = Filter::ids([replaced.id.clone()]);
        sql.fragment(|first| sql::compile(&this, &table.layout, dialect, first));
        push_version(&mut sql, table, replaced.version);
        sql.push(" RETURNING CAST(").fragment(|_| self.updated_key(table)).push(" AS TEXT)");
        sql
    }

    /// Returns the key column for the `RETURNING` clause of an update. Postgres requires the name with the table alias,
    /// because the statement has two tables. SQLite accepts only the plain column name.
    fn updated_key(&self, table: &ExternalTable) -> sql::Fragment {
        match self.dialect() {
            Dialect::Sqlite => table.key.column.name(),
            Dialect::Postgres => table.key.column.qualified(),
        }
    }

    /// On Postgres, appends the values as one JSON object, and Postgres converts each value to the type of its column.
    /// Does nothing on SQLite.
    fn push_json_row(
        &self,
        sql: &mut Sql,
        before: &'static str,
        table: &ExternalTable,
        values: &[(&WritableColumn, Value)],
    ) {
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
            // Postgres ignores the time zone offset when it converts JSON to `timestamp`, so convert the text
            // explicitly.
            (Dialect::Postgres, ColumnType::LocalTimestamp, Value::String(text)) => {
                sql.push("(").text(text.as_str()).push("::timestamptz AT TIME ZONE 'UTC')");
            }
            (Dialect::Postgres, ..) => drop(sql.push("r.").fragment(|_| column.column.name())),
        }
    }
}

fn push_version(sql: &mut Sql, table: &ExternalTable, version: Option<i64>) {
    if let (Some(column), Some(version)) = (&table.version, version) {
        sql.push(" AND coalesce(").fragment(|_| column.column.qualified()).push(", 0) = ").integer(version);
    }
}

/// Converts a value for SQLite. SQLite then converts it according to the type affinity of the column.
fn sqlite_value(column: &WritableColumn, value: &Value) -> Bound {
    match value {
        Value::Null => Bound::TextOrNull(None),
        value if column.holds == ColumnType::Json => Bound::Text(value.to_string()),
        Value::Bool(truth) => Bound::Integer(i64::from(*truth)),
        Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(whole), _) => Bound::Integer(whole),
            (None, Some(real)) => Bound::Float(real),
            (None, None) => Bound::Text(number.to_string()),
        },
        Value::String(text) => Bound::Text(match column.holds {
            ColumnType::Timestamp | ColumnType::LocalTimestamp => sqlite_timestamp(text),
            _ => text.clone(),
        }),
        other => Bound::Text(other.to_string()),
    }
}

/// Formats a UTC time like the date functions of SQLite.
fn sqlite_timestamp(text: &str) -> String {
    let parts = text.strip_suffix('Z').and_then(|text| text.split_once('T'));
    match parts {
        Some((day, time)) if day.len() == 10 && time.len() >= 8 => format!("{day} {time}"),
        _ => text.to_owned(),
    }
}
