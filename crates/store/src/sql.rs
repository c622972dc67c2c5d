//! Builds SQL statements whose text depends on the request, for example on the number of rows or filters.

use std::fmt::Write as _;

use toolwright_query::sql::{Fragment, Param};
use toolwright_types::DocumentId;

use crate::db::{StoreError, Tx};

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
/// INVARIANT: the text consists of string literals of this crate, of ids, and of fragments from the query crate. The
/// query crate guarantees that its fragments contain no client input. Client input is always a bound value. Therefore
/// `push` accepts only `'static` text, and the use of `AssertSqlSafe` is sound.
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

/// The maximum number of values in a multi-row statement. Both databases accept far more values, but larger statements
/// are not faster per row.
const MAX_VALUES: usize = 1280;

impl Sql {
    pub(crate) fn new(text: &'static str) -> Self {
        Self { text: text.to_owned(), values: Vec::new(), numbered: true }
    }

    /// Creates a statement with many values. On SQLite the placeholders have no numbers, because SQLite finds a
    /// numbered placeholder by a linear search over names. Postgres requires numbers.
    pub(crate) fn with_many_values(tx: &Tx, text: &'static str) -> Self {
        Self { numbered: !matches!(tx, Tx::Sqlite(_)), ..Self::new(text) }
    }

    pub(crate) fn push(&mut self, text: &'static str) -> &mut Self {
        self.text.push_str(text);
        self
    }

    /// Appends a number that is part of a name in the statement, for example the 3 in `s3`.
    pub(crate) fn push_number(&mut self, number: usize) -> &mut Self {
        // Writing to a String cannot fail.
        let _ = write!(self.text, "{number}");
        self
    }

    /// Appends an id as a literal instead of a placeholder, where the query planner must know the value. A literal is
    /// safe because ids consist of letters, digits and `_`.
    pub(crate) fn id(&mut self, id: impl DocumentId) -> &mut Self {
        let _ = write!(self.text, "'{id}'");
        self
    }

    /// Appends an SQL fragment of the query crate. `make` creates the fragment; its argument is the number of the first
    /// placeholder.
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

    /// Appends a placeholder and binds its value.
    pub(crate) fn bind(&mut self, value: Bound) -> &mut Self {
        self.values.push(value);
        let number = self.values.len();
        if self.numbered { self.push("$").push_number(number) } else { self.push("?") }
    }

    pub(crate) fn text(&mut self, value: impl Into<String>) -> &mut Self {
        self.bind(Bound::Text(value.into()))
    }

    /// Binds text from users or models. Such text may contain U+0000, which is replaced.
    pub(crate) fn free_text(&mut self, text: &str) -> &mut Self {
        self.text(storable(text))
    }

    pub(crate) fn integer(&mut self, value: i64) -> &mut Self {
        self.bind(Bound::Integer(value))
    }

    /// Appends `(…), (…)` with one pair of parentheses per row. `fill` appends the values of a row.
    pub(crate) fn rows<T>(&mut self, rows: &[T], mut fill: impl FnMut(&mut Self, &T)) -> &mut Self {
        for (index, row) in rows.iter().enumerate() {
            self.push(if index == 0 { "(" } else { ", (" });
            fill(self, row);
            self.push(")");
        }
        self
    }

    /// Executes the statement in a transaction and returns the number of affected rows.
    pub(crate) async fn execute(self, tx: &mut Tx) -> Result<u64, StoreError> {
        let (text, values) = self.into_parts();
        execute!(*tx, bind_all!(sqlx::query(text), values))
    }

    pub(crate) fn into_parts(self) -> (sqlx::AssertSqlSafe<String>, Vec<Bound>) {
        (sqlx::AssertSqlSafe(self.text), self.values)
    }
}

/// Splits rows into chunks, one per statement. Chunk sizes are powers of two. The database prepares and caches one
/// statement per size, so there must be few different sizes.
pub(crate) fn statement_chunks<T>(mut rows: &[T], values_in_row: usize) -> impl Iterator<Item = &[T]> {
    let max_rows = MAX_VALUES / values_in_row;
    std::iter::from_fn(move || {
        let size = 1 << rows.len().min(max_rows).checked_ilog2()?;
        let (chunk, rest) = rows.split_at_checked(size)?;
        rows = rest;
        Some(chunk)
    })
}

/// Replaces U+0000 with U+FFFD. Postgres rejects U+0000 in stored values and in comparisons.
pub(crate) fn storable(text: &str) -> String {
    text.replace('\0', "\u{FFFD}")
}

/// Converts a count to a column value of at most 2^53. Every JSON parser can represent integers up to this limit
/// exactly, and sums of such values do not overflow.
pub(crate) fn count(value: u64) -> i64 {
    i64::try_from(value.min(1 << 53)).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statement_chunks_have_power_of_two_sizes() {
        for (rows, values_in_row, sizes) in [
            (0, 5, vec![]),
            (1, 5, vec![1]),
            (23, 5, vec![16, 4, 2, 1]),
            (600, 5, vec![256, 256, 64, 16, 8]),
            (33, 21, vec![32, 1]),
            (2, MAX_VALUES, vec![1, 1]),
        ] {
            let numbers: Vec<usize> = (0..rows).collect();
            let chunks: Vec<&[usize]> = statement_chunks(&numbers, values_in_row).collect();
            assert_eq!(chunks.iter().map(|chunk| chunk.len()).collect::<Vec<_>>(), sizes, "{rows} rows");
            assert_eq!(chunks.concat(), numbers);
        }
    }
}
