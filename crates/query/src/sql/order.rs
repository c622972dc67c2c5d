//! Compiles sort orders and cursors to SQL.

use super::builder::{Builder, join_conditions};
use super::dialect::path;
use super::layout::{IdColumn, Layout};
use super::value::Scalar;
use super::{Dialect, Fragment, Param};
use crate::{Cursor, Sort, SortKey, SortValue};

/// Compiles a sort order to the expressions of `ORDER BY`. Placeholders are numbered from `first`.
pub fn order_by(sort: &Sort, layout: &Layout, dialect: Dialect, first: usize) -> Fragment {
    let mut builder = Builder::new(layout, dialect, first);
    let mut keys = Vec::new();
    for key in sort.keys() {
        let expressions = Expressions::new(key, &mut builder);
        let direction = if key.descending { " DESC" } else { "" };
        keys.extend(expressions.all().map(|expression| format!("{expression}{direction}")));
    }
    keys.push(id(layout, dialect));
    builder.finish(keys.join(", "))
}

/// Compiles a cursor to a condition that is true for the rows after the cursor's position. Placeholders are numbered
/// from `first`.
pub fn after_cursor(cursor: &Cursor, sort: &Sort, layout: &Layout, dialect: Dialect, first: usize) -> Fragment {
    let mut builder = Builder::new(layout, dialect, first);
    let id = match &layout.id {
        IdColumn::Text(_) => format!("{} > {}", id(layout, dialect), builder.bind_text(cursor.id())),
        IdColumn::Key(key) => builder.after_key(key, cursor.id()),
    };
    // The condition is built from the last sort key to the first. For each key, a row comes after the cursor if the
    // value of the row comes after the value of the cursor, or if both values are equal and the row comes after the
    // cursor by the following keys.
    let keys = sort.keys().iter().zip(cursor.values()).rev();
    let sql = keys.fold(id, |beyond_in_rest, (key, value)| {
        let expressions = Expressions::new(key, &mut builder);
        let (beyond, equal) = expressions.compare_with(value, key.descending, &mut builder);
        format!("({beyond} OR ({equal} AND {beyond_in_rest}))")
    });
    builder.finish(format!("({sql})"))
}

fn id(layout: &Layout, dialect: Dialect) -> String {
    match (&layout.id, dialect) {
        (IdColumn::Text(id), Dialect::Sqlite) => id.to_string(),
        (IdColumn::Text(id), Dialect::Postgres) => format!("{id} COLLATE \"C\""),
        // The index on the key column has the same order, so the database can use it.
        (IdColumn::Key(key), _) => key.order_expression(dialect),
    }
}

/// Binds a number for a comparison. SQLite parses some numbers in JSON with a small rounding error. The number is
/// therefore bound as text, so that SQLite parses it with the same error.
fn bind_number(number: f64, builder: &mut Builder<'_>) -> String {
    match builder.dialect {
        Dialect::Sqlite => format!("CAST({} AS REAL)", builder.bind_text(serde_json::Value::from(number).to_string())),
        Dialect::Postgres => builder.bind(Param::Real(number)),
    }
}

/// The expressions that a value is sorted by: the rank of its type, then its number or its text.
struct Expressions {
    rank: String,
    number: String,
    text: String,
}

impl Expressions {
    fn new(key: &SortKey, builder: &mut Builder<'_>) -> Self {
        let dialect = builder.dialect;
        let record = builder.layout.json_containing(&key.field, dialect);
        let strict = if dialect == Dialect::Postgres { "strict " } else { "" };
        let path = builder.bind_text(format!("{strict}{}", path(&key.field)));
        let (scalar, rank) = match dialect {
            Dialect::Sqlite => {
                let json_type = format!("json_type({record}, {path})");
                let rank = format!(
                    "CASE coalesce({json_type}, 'null') WHEN 'null' THEN 0 WHEN 'false' THEN 1 WHEN 'true' THEN 2 \
                     WHEN 'integer' THEN 3 WHEN 'real' THEN 3 WHEN 'text' THEN 4 ELSE 5 END"
                );
                (Scalar { json_type, value: format!("json_extract({record}, {path})") }, rank)
            }
            Dialect::Postgres => {
                // In strict mode, a path that leads through an array is an error. The last argument (`silent`) turns
                // this error into NULL, so the field has no value.
                let value = format!("jsonb_path_query_first({record}, {path}::jsonpath, '{{}}', true)");
                let json_type = format!("jsonb_typeof({value})");
                let rank = format!(
                    "CASE coalesce({json_type}, 'null') WHEN 'null' THEN 0 \
                     WHEN 'boolean' THEN CASE {value}::text WHEN 'true' THEN 2 ELSE 1 END \
                     WHEN 'number' THEN 3 WHEN 'string' THEN 4 ELSE 5 END"
                );
                (Scalar { json_type, value: format!("({value} #>> '{{}}')") }, rank)
            }
        };
        Self { rank, number: scalar.number(dialect), text: scalar.text(dialect) }
    }

    fn all(self) -> impl Iterator<Item = String> {
        [self.rank, self.number, self.text].into_iter()
    }

    /// Returns two conditions: one for the rows that come after `value` in the sort order, and one for the rows whose
    /// value equals `value`.
    fn compare_with(&self, value: &SortValue, descending: bool, builder: &mut Builder<'_>) -> (String, String) {
        let operator = if descending { "<" } else { ">" };
        let rank = builder.bind(Param::Integer(value.rank()));
        let (beyond, equal) = (format!("{} {operator} {rank}", self.rank), format!("{} = {rank}", self.rank));
        let (expression, bound) = match value {
            SortValue::Number(number) => (&self.number, bind_number(*number, builder)),
            SortValue::Text(text) => (&self.text, builder.bind_text(text.as_str())),
            SortValue::Missing | SortValue::Bool(_) | SortValue::Composite => return (beyond, equal),
        };
        let beyond_in_kind = format!("{equal} AND {expression} {operator} {bound}");
        let parts = vec![beyond, beyond_in_kind];
        (join_conditions(parts, "OR").unwrap_or_default(), format!("({equal} AND {expression} = {bound})"))
    }
}
