//! Filters on the content of documents, as SQL for either database.

use serde_json::{Number, Value};

use super::ListError;
use crate::db::Db;
use crate::sql::{Bound, Sql};

/// SQLite joins once per step, and joins at most 64 tables.
const MAX_PATH: usize = 16;

/// Passes documents in which the field at `path` equals `value`, or is an array with an element that does.
/// A field that is absent equals nothing, not even null.
#[derive(Debug, Clone, PartialEq)]
pub struct Equals {
    /// The names that lead to the field, from the outside in.
    pub path: Vec<String>,
    /// A text, number, boolean or null.
    pub value: Value,
}

/// Adds ` AND …` to a query in which `r.body` is the body.
pub(super) fn push(sql: &mut Sql, db: &Db, filter: &Equals) -> Result<(), ListError> {
    let path = || filter.path.join(".");
    if filter.path.len() > MAX_PATH {
        return Err(ListError::FilterTooDeep(path()));
    }
    if filter.value.is_array() || filter.value.is_object() {
        return Err(ListError::FilterNotScalar(path()));
    }
    match filter.path.split_last() {
        Some((leaf, steps)) if can_match(filter) => match db {
            Db::Sqlite { .. } => push_sqlite(sql, steps, leaf, &filter.value),
            #[cfg(feature = "postgres")]
            Db::Postgres(_) => push_postgres(sql, &filter.path, &filter.value),
        },
        _ => {
            sql.push(" AND 1 = 0");
        }
    }
    Ok(())
}

/// No document has this character in it (`InvalidBody::Nul`), and Postgres refuses it even in a comparison.
fn can_match(filter: &Equals) -> bool {
    let in_value = filter.value.as_str().is_some_and(|text| text.contains('\0'));
    !in_value && !filter.path.iter().any(|name| name.contains('\0'))
}

/// `@>` with a plain value on the right is what we want: equal to it, or an array that has it.
#[cfg(feature = "postgres")]
fn push_postgres(sql: &mut Sql, path: &[String], value: &Value) {
    sql.push(" AND (r.body::jsonb");
    for name in path {
        sql.push(" -> ").text(name.as_str());
    }
    sql.push(") @> ").text(value.to_string()).push("::jsonb");
}

/// Names are compared as values: in a JSON path they would have to be quoted, which SQLite does not do for
/// every name.
fn push_sqlite(sql: &mut Sql, steps: &[String], leaf: &str, value: &Value) {
    sql.push(" AND EXISTS (SELECT 1 FROM ");
    for at in 0..steps.len() {
        push_fields(sql, at);
        sql.push(" s").push_number(at).push(", ");
    }
    push_fields(sql, steps.len());
    sql.push(" leaf WHERE leaf.key = ").text(leaf);
    for (at, name) in steps.iter().enumerate() {
        sql.push(" AND s").push_number(at).push(".key = ").text(name.as_str());
    }
    sql.push(" AND (");
    push_equals(sql, "leaf", value);
    sql.push(" OR EXISTS (SELECT 1 FROM json_each(CASE leaf.type WHEN 'array' THEN leaf.value ELSE '[]' END) item");
    sql.push(" WHERE ");
    push_equals(sql, "item", value);
    sql.push(")))");
}

/// The fields of what the step before `at` has found, if that is an object.
fn push_fields(sql: &mut Sql, at: usize) {
    let Some(before) = at.checked_sub(1) else {
        sql.push("json_each(r.body)");
        return;
    };
    sql.push("json_each(CASE s").push_number(before).push(".type WHEN 'object' THEN s");
    sql.push_number(before).push(".value ELSE '{}' END)");
}

/// The type decides first: SQLite has `true` and 1 as the same value.
fn push_equals(sql: &mut Sql, row: &'static str, value: &Value) {
    let (types, bound) = match value {
        Value::Null => ("'null'", None),
        Value::Bool(true) => ("'true'", None),
        Value::Bool(false) => ("'false'", None),
        Value::Number(number) => ("'integer', 'real'", Some(bound(number))),
        Value::String(text) => ("'text'", Some(Bound::Text(text.clone()))),
        // Refused before we came here.
        Value::Array(_) | Value::Object(_) => ("", None),
    };
    sql.push(row).push(".type IN (").push(types).push(")");
    if let Some(bound) = bound {
        sql.push(" AND ").push(row).push(".value = ").bind(bound);
    }
}

fn bound(number: &Number) -> Bound {
    match (number.as_i64(), number.as_f64()) {
        (Some(integer), _) => Bound::Integer(integer),
        (None, float) => Bound::Float(float.unwrap_or(f64::NAN)),
    }
}
