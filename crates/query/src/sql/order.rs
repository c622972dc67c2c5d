//! The order of a list, and the part of it that comes after a page.

use super::builder::{Builder, joined};
use super::dialect::path;
use super::layout::{Id, Layout};
use super::value::Scalar;
use super::{Dialect, Fragment, Param};
use crate::{Cursor, Sort, SortKey, SortValue};

/// What stands after `ORDER BY`. Placeholders are counted from `first`.
pub fn order_by(sort: &Sort, layout: &Layout, dialect: Dialect, first: usize) -> Fragment {
    let mut builder = Builder::new(layout, dialect, first);
    let mut keys = Vec::new();
    for key in sort.keys() {
        let expressions = Expressions::of(key, &mut builder);
        let direction = if key.descending { " DESC" } else { "" };
        keys.extend(expressions.all().map(|expression| format!("{expression}{direction}")));
    }
    keys.push(id(layout, dialect));
    builder.finish(keys.join(", "))
}

/// The condition that is true for the rows after the cursor. Placeholders are counted from `first`.
pub fn after(cursor: &Cursor, sort: &Sort, layout: &Layout, dialect: Dialect, first: usize) -> Fragment {
    let mut builder = Builder::new(layout, dialect, first);
    let id = match &layout.id {
        Id::Text(_) => format!("{} > {}", id(layout, dialect), builder.text(cursor.id())),
        Id::Key(key) => builder.after_key(key, cursor.id()),
    };
    // From the last key to the first: beyond in this key, or equal in it and beyond in what follows.
    let keys = sort.keys().iter().zip(cursor.values()).rev();
    let sql = keys.fold(id, |beyond_in_rest, (key, value)| {
        let expressions = Expressions::of(key, &mut builder);
        let (beyond, equal) = expressions.against(value, key.descending, &mut builder);
        format!("({beyond} OR ({equal} AND {beyond_in_rest}))")
    });
    builder.finish(format!("({sql})"))
}

fn id(layout: &Layout, dialect: Dialect) -> String {
    match (&layout.id, dialect) {
        (Id::Text(id), Dialect::Sqlite) => id.to_string(),
        (Id::Text(id), Dialect::Postgres) => format!("{id} COLLATE \"C\""),
        // In the order of the table's own index.
        (Id::Key(key), _) => key.ordered(dialect),
    }
}

/// A number to compare with. SQLite reads some numbers a hair off what they are, so it reads this one as it reads those of the
/// records: from its text.
fn limit_of(number: f64, builder: &mut Builder<'_>) -> String {
    match builder.dialect {
        Dialect::Sqlite => format!("CAST({} AS REAL)", builder.text(serde_json::Value::from(number).to_string())),
        Dialect::Postgres => builder.bind(Param::Real(number)),
    }
}

/// What a value is sorted by: its kind, then its number or its text, of which it has one at most.
struct Expressions {
    rank: String,
    number: String,
    text: String,
}

impl Expressions {
    fn of(key: &SortKey, builder: &mut Builder<'_>) -> Self {
        let dialect = builder.dialect;
        let record = builder.layout.holding(&key.field, dialect);
        let strict = if dialect == Dialect::Postgres { "strict " } else { "" };
        let path = builder.text(format!("{strict}{}", path(&key.field)));
        let (scalar, rank) = match dialect {
            Dialect::Sqlite => {
                let kind = format!("json_type({record}, {path})");
                let rank = format!(
                    "CASE coalesce({kind}, 'null') WHEN 'null' THEN 0 WHEN 'false' THEN 1 WHEN 'true' THEN 2 \
                     WHEN 'integer' THEN 3 WHEN 'real' THEN 3 WHEN 'text' THEN 4 ELSE 5 END"
                );
                (Scalar { kind, value: format!("json_extract({record}, {path})") }, rank)
            }
            Dialect::Postgres => {
                // Strict, because an array on the way has no value here; silent, because that is not an error.
                let value = format!("jsonb_path_query_first({record}, {path}::jsonpath, '{{}}', true)");
                let kind = format!("jsonb_typeof({value})");
                let rank = format!(
                    "CASE coalesce({kind}, 'null') WHEN 'null' THEN 0 \
                     WHEN 'boolean' THEN CASE {value}::text WHEN 'true' THEN 2 ELSE 1 END \
                     WHEN 'number' THEN 3 WHEN 'string' THEN 4 ELSE 5 END"
                );
                (Scalar { kind, value: format!("({value} #>> '{{}}')") }, rank)
            }
        };
        Self { rank, number: scalar.number(dialect), text: scalar.text(dialect) }
    }

    fn all(self) -> impl Iterator<Item = String> {
        [self.rank, self.number, self.text].into_iter()
    }

    /// Conditions for what comes after the value, and for what is equal to it.
    fn against(&self, value: &SortValue, descending: bool, builder: &mut Builder<'_>) -> (String, String) {
        let sign = if descending { "<" } else { ">" };
        let rank = builder.bind(Param::Integer(value.rank()));
        let (beyond, equal) = (format!("{} {sign} {rank}", self.rank), format!("{} = {rank}", self.rank));
        let (expression, limit) = match value {
            SortValue::Number(number) => (&self.number, limit_of(*number, builder)),
            SortValue::Text(text) => (&self.text, builder.text(text.as_str())),
            SortValue::Nothing | SortValue::Truth(_) | SortValue::Other => return (beyond, equal),
        };
        let beyond_in_kind = format!("{equal} AND {expression} {sign} {limit}");
        let parts = vec![beyond, beyond_in_kind];
        (joined(parts, "OR").unwrap_or_default(), format!("({equal} AND {expression} = {limit})"))
    }
}
