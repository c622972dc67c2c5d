//! Translates equality filters on the content of documents to SQL for both databases.

use serde_json::{Number, Value};

use super::ListError;
use crate::db::Db;
use crate::sql::{Bound, Sql};

/// The maximum number of path segments. The SQLite query joins one table per segment, and SQLite allows at most 64
/// tables in a join.
pub(super) const MAX_PATH_SEGMENTS: usize = 16;

/// Matches documents in which the field at `path` equals `value`, or is an array that contains `value`. A missing field
/// matches no value, not even null.
#[derive(Debug, Clone, PartialEq)]
pub struct FieldEquals {
    /// The field names, from the outermost to the innermost.
    pub path: Vec<String>,
    /// A string, number, boolean or null.
    pub value: Value,
}

/// Appends ` AND …` to a query in which the columns `r.body` and `d.ref_name` contain the body and the name of the
/// document.
pub(super) fn push(sql: &mut Sql, db: &Db, filter: &FieldEquals) -> Result<(), ListError> {
    let path = || filter.path.join(".");
    if filter.path.len() > MAX_PATH_SEGMENTS {
        return Err(ListError::FilterTooDeep(path()));
    }
    if filter.value.is_array() || filter.value.is_object() {
        return Err(ListError::FilterNotScalar(path()));
    }
    // Not every body has the field `refName`. A step registration has the field `name` instead.
    if let ([field], Value::String(name)) = (filter.path.as_slice(), &filter.value)
        && field == "refName"
        && can_match(filter)
    {
        sql.push(" AND d.ref_name = ").text(name.as_str());
        return Ok(());
    }
    match filter.path.split_last() {
        Some((leaf, parents)) if can_match(filter) => match db {
            Db::Sqlite { .. } => push_sqlite(sql, parents, leaf, &filter.value),
            #[cfg(feature = "postgres")]
            Db::Postgres(_) => push_postgres(sql, &filter.path, &filter.value),
        },
        _ => {
            sql.push(" AND 1 = 0");
        }
    }
    Ok(())
}

/// Whether any document can match the filter. A filter with U+0000 matches nothing, because documents cannot contain
/// U+0000 (`InvalidBody::Nul`). Such a filter must not reach Postgres, which rejects U+0000 even in comparisons.
fn can_match(filter: &FieldEquals) -> bool {
    let in_value = filter.value.as_str().is_some_and(|text| text.contains('\0'));
    !in_value && !filter.path.iter().any(|name| name.contains('\0'))
}

/// Uses the operator `@>`. With a scalar on the right, it matches an equal value and an array that contains the scalar.
#[cfg(feature = "postgres")]
fn push_postgres(sql: &mut Sql, path: &[String], value: &Value) {
    sql.push(" AND (r.body::jsonb");
    for name in path {
        sql.push(" -> ").text(name.as_str());
    }
    sql.push(") @> ").text(value.to_string()).push("::jsonb");
}

/// Passes field names as bound parameters. A JSON path in the SQL text would need quoted names, and SQLite cannot quote
/// every name.
fn push_sqlite(sql: &mut Sql, parents: &[String], leaf: &str, value: &Value) {
    sql.push(" AND EXISTS (SELECT 1 FROM ");
    for index in 0..parents.len() {
        push_fields(sql, index);
        sql.push(" s").push_number(index).push(", ");
    }
    push_fields(sql, parents.len());
    sql.push(" leaf WHERE leaf.key = ").text(leaf);
    for (index, name) in parents.iter().enumerate() {
        sql.push(" AND s").push_number(index).push(".key = ").text(name.as_str());
    }
    sql.push(" AND (");
    push_equals(sql, "leaf", value);
    sql.push(" OR EXISTS (SELECT 1 FROM json_each(CASE leaf.type WHEN 'array' THEN leaf.value ELSE '[]' END) item");
    sql.push(" WHERE ");
    push_equals(sql, "item", value);
    sql.push(")))");
}

/// Appends a table function that lists the fields of an object. The object is the document body for the first path
/// segment, otherwise the value at the previous segment.
fn push_fields(sql: &mut Sql, index: usize) {
    let Some(before) = index.checked_sub(1) else {
        sql.push("json_each(r.body)");
        return;
    };
    sql.push("json_each(CASE s").push_number(before).push(".type WHEN 'object' THEN s");
    sql.push_number(before).push(".value ELSE '{}' END)");
}

/// Compares the JSON type first, because SQLite returns the value 1 for both `true` and 1.
fn push_equals(sql: &mut Sql, row: &'static str, value: &Value) {
    let (types, bound) = match value {
        Value::Null => ("'null'", None),
        Value::Bool(true) => ("'true'", None),
        Value::Bool(false) => ("'false'", None),
        Value::Number(number) => ("'integer', 'real'", Some(bound(number))),
        Value::String(text) => ("'text'", Some(Bound::Text(text.clone()))),
        // `push` has already rejected arrays and objects.
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
