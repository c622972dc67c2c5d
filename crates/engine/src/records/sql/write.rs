//! Records as rows to be written. Looks nothing up.

use serde_json::{Map, Value};
use toolwright_query::sql::Holds;
use toolwright_store::{Replaced, RowWrite, Table, WritableColumn};
use toolwright_tools::Violation;

use super::super::source::Change;

/// The row that a change comes to, or what is wrong with the record in the light of its table.
pub(super) fn row<'t>(table: &'t Table, change: &Change) -> Result<RowWrite<'t>, Violation> {
    let empty = Map::new();
    let record = change.record.as_object().unwrap_or(&empty);
    let known = |field: &str| {
        field == "id"
            || (field == "version" && table.version.is_some())
            || table.columns.iter().any(|c| c.field == field)
    };
    if let Some(field) = record.keys().find(|field| !known(field)) {
        return Err(wrong(field, "the table has no column for it; leave it out"));
    }
    match &change.replaces {
        Some(current) => changed(table, change, record, current),
        None => new(table, change, record),
    }
}

/// Only what differs is written: what nobody changed stays as it is in the table, however it is shown.
fn changed<'t>(
    table: &'t Table,
    change: &Change,
    record: &Map<String, Value>,
    current: &Value,
) -> Result<RowWrite<'t>, Violation> {
    let mut values = Vec::new();
    for column in &table.columns {
        let (was, is) = (current.get(&column.field).unwrap_or(&Value::Null), record.get(&column.field));
        let is = is.unwrap_or(&Value::Null);
        // Bytes are only shown, so leaving them out says nothing of them.
        if was == is || column.computed || (column.bytes && is.is_null()) {
            continue;
        }
        if column.name == table.key.name {
            // The id says the same.
            if is.is_null() {
                continue;
            }
            return Err(wrong(&column.field, "the key of a record cannot be changed; make a new one"));
        }
        values.push((column, written(column, is)?));
    }
    if let Some(version) = &table.version {
        values.push((version, Value::from(change.version)));
    }
    let version = table.version.as_ref().map(|_| change.version - 1);
    let id = change.id.clone().unwrap_or_default();
    Ok(RowWrite { replaces: Some(Replaced { id, version }), id: None, values })
}

fn new<'t>(table: &'t Table, change: &Change, record: &Map<String, Value>) -> Result<RowWrite<'t>, Violation> {
    let mut values = Vec::new();
    let id = match (&change.id, table.key.holds) {
        (Some(id), Holds::Integer) if !is_whole(id) => {
            return Err(wrong("id", "the key of the table is a whole number; send one, without zeros before it"));
        }
        (Some(id), _) => Some(id.clone()),
        (None, _) if table.key.filled => None,
        (None, Holds::Text) => Some(change.proposed.clone()),
        (None, Holds::Uuid) => Some(uuid()),
        (None, _) => return Err(wrong("id", "the table gives no id by itself; send one")),
    };
    if let Some(id) = &id {
        values.push((&table.key, Value::from(id.as_str())));
    }
    for column in table.columns.iter().filter(|column| column.name != table.key.name && !column.computed) {
        // What is not said is left to the database.
        let left = |value: &&Value| value.is_null() && (column.filled || column.bytes);
        if let Some(value) = record.get(&column.field).filter(|value| !left(value)) {
            values.push((column, written(column, value)?));
        }
    }
    if let Some(version) = &table.version {
        values.push((version, Value::from(change.version)));
    }
    Ok(RowWrite { replaces: None, id, values })
}

/// A value for a column, if the column can hold one of its kind and show it again.
fn written(column: &WritableColumn, value: &Value) -> Result<Value, Violation> {
    let single = !matches!(column.holds, Holds::Json | Holds::Composite);
    match value {
        Value::Null => Ok(Value::Null),
        _ if column.bytes => Err(wrong(&column.field, "bytes are shown here and cannot be written; leave it as it is")),
        Value::Array(_) | Value::Object(_) if single => {
            Err(wrong(&column.field, "the column holds one value, no list and no object"))
        }
        other => Ok(other.clone()),
    }
}

/// SQLite would keep another text in the key, and nobody would find it.
fn is_whole(id: &str) -> bool {
    id.parse::<i64>().is_ok_and(|number| number.to_string() == id)
}

fn wrong(field: &str, message: &str) -> Violation {
    Violation { path: format!("/{}", super::fields::escaped(field)), message: message.to_owned() }
}

/// A random one.
fn uuid() -> String {
    let bits = rand::random::<u128>() & !(0xf << 76) & !(0x3 << 62) | (0x4 << 76) | (0x2 << 62);
    let digits = format!("{bits:032x}");
    let part = |from: usize, to: usize| digits.get(from..to).unwrap_or_default();
    [part(0, 8), part(8, 12), part(12, 16), part(16, 20), part(20, 32)].join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_random_uuid_is_of_version_4() {
        for _ in 0..100 {
            let made = uuid();
            let dashes: Vec<usize> = made.match_indices('-').map(|(at, _)| at).collect();
            assert_eq!((made.len(), dashes), (36, vec![8, 13, 18, 23]), "{made}");
            assert_eq!(&made[14..15], "4");
            assert!(matches!(&made[19..20], "8" | "9" | "a" | "b"), "{made}");
        }
    }
}
