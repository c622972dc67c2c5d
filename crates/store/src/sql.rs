//! Puts together the queries whose shape depends on the request.

use std::fmt::Write as _;

use toolwright_query::sql::{Fragment, Param};
use toolwright_types::DocumentId;

use crate::db::{Tx, Unavailable};

/// Binds the values of an [`Sql`] to a query of either database.
macro_rules! bind_all {
    ($query:expr, $values:expr) => {{
        let mut query = $query;
        for value in $values {
            query = match value {
                $crate::sql::Bound::Text(text) => query.bind(text),
                $crate::sql::Bound::Integer(number) => query.bind(number),
                $crate::sql::Bound::Float(number) => query.bind(number),
                $crate::sql::Bound::Boolean(truth) => query.bind(truth),
                $crate::sql::Bound::TextOrNull(text) => query.bind(text),
                $crate::sql::Bound::IntegerOrNull(number) => query.bind(number),
                $crate::sql::Bound::Bytes(bytes) => query.bind(bytes),
            };
        }
        query
    }};
}

/// SQL text with the values for its placeholders.
///
/// INVARIANT: text comes from this crate's source, from ids, and from the query crate, which makes the same promise; whatever a
/// client sent is a bound value. That is why `push` takes only `'static` text and the database may be told that the whole is
/// safe.
#[derive(Debug)]
pub(crate) struct Sql {
    text: String,
    values: Vec<Bound>,
    numbered: bool,
}

/// A value for a placeholder.
#[derive(Debug, Clone)]
pub(crate) enum Bound {
    Text(String),
    Integer(i64),
    Float(f64),
    Boolean(bool),
    TextOrNull(Option<String>),
    IntegerOrNull(Option<i64>),
    Bytes(Vec<u8>),
}

/// The most values in a statement of many rows. Both databases take far more, but a row gets no cheaper.
const MOST_VALUES: usize = 1280;

impl Sql {
    pub(crate) fn new(text: &'static str) -> Self {
        Self { text: text.to_owned(), values: Vec::new(), numbered: true }
    }

    /// A statement with many values. SQLite looks a numbered placeholder up by its name, one name after the other;
    /// Postgres has no placeholders without a number.
    pub(crate) fn with_many_values(tx: &Tx, text: &'static str) -> Self {
        Self { numbered: !matches!(tx, Tx::Sqlite(_)), ..Self::new(text) }
    }

    pub(crate) fn push(&mut self, text: &'static str) -> &mut Self {
        self.text.push_str(text);
        self
    }

    /// A number as part of a name, as in `s3`.
    pub(crate) fn push_number(&mut self, number: usize) -> &mut Self {
        // Writing to a String cannot fail.
        let _ = write!(self.text, "{number}");
        self
    }

    /// An id as a literal, for where the database must know it when it plans. Ids are letters, digits and `_`.
    pub(crate) fn id(&mut self, id: impl DocumentId) -> &mut Self {
        let _ = write!(self.text, "'{id}'");
        self
    }

    /// A piece that the query crate makes, given the number of its first placeholder.
    pub(crate) fn fragment(&mut self, make: impl FnOnce(usize) -> Fragment) -> &mut Self {
        let Fragment { sql, params } = make(self.values.len() + 1);
        self.text.push_str(&sql);
        self.values.extend(params.into_iter().map(|param| match param {
            Param::Text(text) => Bound::Text(text),
            Param::Integer(integer) => Bound::Integer(integer),
            Param::Real(real) => Bound::Float(real),
        }));
        self
    }

    /// A placeholder, and its value.
    pub(crate) fn bind(&mut self, value: Bound) -> &mut Self {
        self.values.push(value);
        let number = self.values.len();
        if self.numbered { self.push("$").push_number(number) } else { self.push("?") }
    }

    pub(crate) fn text(&mut self, value: impl Into<String>) -> &mut Self {
        self.bind(Bound::Text(value.into()))
    }

    /// Text that people and models write.
    pub(crate) fn free_text(&mut self, text: &str) -> &mut Self {
        self.text(storable(text))
    }

    pub(crate) fn integer(&mut self, value: i64) -> &mut Self {
        self.bind(Bound::Integer(value))
    }

    /// `(…), (…)`: in the parentheses of each row, what `fill` puts there.
    pub(crate) fn rows<T>(&mut self, rows: &[T], mut fill: impl FnMut(&mut Self, &T)) -> &mut Self {
        for (at, row) in rows.iter().enumerate() {
            self.push(if at == 0 { "(" } else { ", (" });
            fill(self, row);
            self.push(")");
        }
        self
    }

    /// Runs it as a statement of a transaction and gives the number of rows it touched.
    pub(crate) async fn execute(self, tx: &mut Tx) -> Result<u64, Unavailable> {
        let (text, values) = self.into_parts();
        execute!(*tx, bind_all!(sqlx::query(text), values))
    }

    pub(crate) fn into_parts(self) -> (sqlx::AssertSqlSafe<String>, Vec<Bound>) {
        (sqlx::AssertSqlSafe(self.text), self.values)
    }
}

/// Rows of so many values in parts for one statement each. The sizes are powers of two: the database prepares a
/// statement for each size and keeps it, so there must be few.
pub(crate) fn in_statements<T>(mut rows: &[T], values_in_row: usize) -> impl Iterator<Item = &[T]> {
    let most = MOST_VALUES / values_in_row;
    std::iter::from_fn(move || {
        let size = 1 << rows.len().min(most).checked_ilog2()?;
        let (part, rest) = rows.split_at_checked(size)?;
        rows = rest;
        Some(part)
    })
}

/// The text with U+FFFD for U+0000, which Postgres cannot store, nor even compare with.
pub(crate) fn storable(text: &str) -> String {
    text.replace('\0', "\u{FFFD}")
}

/// A count as a column holds it. Pinned to what every JSON reader can tell apart, so that sums stay far from the end.
pub(crate) fn count(value: u64) -> i64 {
    i64::try_from(value.min(1 << 53)).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_divided_among_statements_of_few_sizes() {
        for (rows, values_in_row, sizes) in [
            (0, 5, vec![]),
            (1, 5, vec![1]),
            (23, 5, vec![16, 4, 2, 1]),
            (600, 5, vec![256, 256, 64, 16, 8]),
            (33, 21, vec![32, 1]),
            (2, MOST_VALUES, vec![1, 1]),
        ] {
            let numbers: Vec<usize> = (0..rows).collect();
            let parts: Vec<&[usize]> = in_statements(&numbers, values_in_row).collect();
            assert_eq!(parts.iter().map(|part| part.len()).collect::<Vec<_>>(), sizes, "{rows} rows");
            assert_eq!(parts.concat(), numbers);
        }
    }
}
