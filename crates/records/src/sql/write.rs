//! Converts record changes to row writes. Does no IO.

use serde_json::{Map, Value};
use toolwright_query::sql::ColumnType;
use toolwright_store::{ExpectedRow, ExternalTable, RowWrite, WritableColumn};
use toolwright_tools::Violation;

use super::super::source::RecordChange;

/// Returns the row to write for a change, or the violation if the table cannot store the record.
pub(super) fn row_write<'t>(table: &'t ExternalTable, change: &RecordChange) -> Result<RowWrite<'t>, Violation> {
    let empty = Map::new();
    let record = change.record.as_object().unwrap_or(&empty);
    let known = |field: &str| {
        field == "id"
            || (field == "version" && table.version.is_some())
            || table.columns.iter().any(|c| c.field == field)
    };
    if let Some(field) = record.keys().find(|field| !known(field)) {
        return Err(violation(field, "the table has no column for this field; omit it"));
    }
    match &change.replaces {
        Some(current) => updated_row(table, change, record, current),
        None => new_row(table, change, record),
    }
}

/// Returns an update of the changed columns. Unchanged columns are not written, because the conversion of a value to
/// JSON and back could alter it.
fn updated_row<'t>(
    table: &'t ExternalTable,
    change: &RecordChange,
    record: &Map<String, Value>,
    current: &Value,
) -> Result<RowWrite<'t>, Violation> {
    let mut values = Vec::new();
    for column in &table.columns {
        let (was, is) = (current.get(&column.field).unwrap_or(&Value::Null), record.get(&column.field));
        let is = is.unwrap_or(&Value::Null);
        // Binary columns cannot be written. A missing value therefore means unchanged, not null.
        if was == is || column.computed || (column.bytes && is.is_null()) {
            continue;
        }
        if column.name == table.key.name {
            // The key column may be missing in the record, because the id identifies the row.
            if is.is_null() {
                continue;
            }
            return Err(violation(&column.field, "the key of a record cannot be changed; create a new record"));
        }
        values.push((column, column_value(column, is)?));
    }
    if let Some(version) = &table.version {
        values.push((version, Value::from(change.version)));
    }
    let version = table.version.as_ref().map(|_| change.version - 1);
    let id = change.id.clone().unwrap_or_default();
    Ok(RowWrite { replaces: Some(ExpectedRow { id, version }), id: None, values })
}

fn new_row<'t>(
    table: &'t ExternalTable,
    change: &RecordChange,
    record: &Map<String, Value>,
) -> Result<RowWrite<'t>, Violation> {
    let mut values = Vec::new();
    let id = match (&change.id, table.key.holds) {
        (Some(id), ColumnType::Integer) if !is_canonical_integer(id) => {
            return Err(violation("id", "must be an integer without leading zeros, like the key of the table"));
        }
        (Some(id), _) => Some(id.clone()),
        (None, _) if table.key.has_default => None,
        (None, ColumnType::Text) => Some(change.proposed_id.clone()),
        (None, ColumnType::Uuid) => Some(random_uuid()),
        (None, _) => return Err(violation("id", "is required, because the table assigns no ids")),
    };
    if let Some(id) = &id {
        values.push((&table.key, Value::from(id.as_str())));
    }
    for column in table.columns.iter().filter(|column| column.name != table.key.name && !column.computed) {
        // A null is omitted if the column has a default, so that the database sets the default. Columns with bytes are
        // read-only, so their nulls are omitted too.
        let omitted = |value: &&Value| value.is_null() && (column.has_default || column.bytes);
        if let Some(value) = record.get(&column.field).filter(|value| !omitted(value)) {
            values.push((column, column_value(column, value)?));
        }
    }
    if let Some(version) = &table.version {
        values.push((version, Value::from(change.version)));
    }
    Ok(RowWrite { replaces: None, id, values })
}

/// Returns the value for a column, or a violation if the column cannot store the value unchanged.
fn column_value(column: &WritableColumn, value: &Value) -> Result<Value, Violation> {
    let single = !matches!(column.holds, ColumnType::Json | ColumnType::Composite);
    match value {
        Value::Null => Ok(Value::Null),
        _ if column.bytes => Err(violation(&column.field, "bytes are read-only; leave the value unchanged")),
        Value::Array(_) | Value::Object(_) if single => {
            Err(violation(&column.field, "must be a single value, not a list or an object"))
        }
        other => Ok(other.clone()),
    }
}

/// Returns whether an id is an integer without leading zeros or a plus sign. SQLite would convert `007` to 7 in an
/// integer key, and then no query for `007` would find the row.
fn is_canonical_integer(id: &str) -> bool {
    id.parse::<i64>().is_ok_and(|number| number.to_string() == id)
}

fn violation(field: &str, message: &str) -> Violation {
    Violation { path: format!("/{}", super::mapping::escape_pointer(field)), message: message.to_owned() }
}

/// Returns a random UUID of version 4.
fn random_uuid() -> String {
    let bits = rand::random::<u128>() & !(0xf << 76) & !(0x3 << 62) | (0x4 << 76) | (0x2 << 62);
    let digits = format!("{bits:032x}");
    let part = |from: usize, to: usize| digits.get(from..to).unwrap_or_default();
    [part(0, 8), part(8, 12), part(12, 16), part(16, 20), part(20, 32)].join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_uuid_has_version_4() {
        for _ in 0..100 {
            let uuid = random_uuid();
            let dashes: Vec<usize> = uuid.match_indices('-').map(|(at, _)| at).collect();
            assert_eq!((uuid.len(), dashes), (36, vec![8, 13, 18, 23]), "{uuid}");
            assert_eq!(&uuid[14..15], "4");
            assert!(matches!(&uuid[19..20], "8" | "9" | "a" | "b"), "{uuid}");
        }
    }
}
