//! Puts together the queries whose shape depends on the request.

use std::fmt::Write as _;

/// SQL text with the values for its placeholders.
///
/// INVARIANT: text comes from this crate's source alone; whatever a client sent is a bound value. That is why
/// `push` takes only `'static` text and the database may be told that the whole is safe.
#[derive(Debug, Default)]
pub(crate) struct Sql {
    text: String,
    values: Vec<Bound>,
}

/// A value for a placeholder.
#[derive(Debug, Clone)]
pub(crate) enum Bound {
    Text(String),
    Integer(i64),
    Float(f64),
}

impl Sql {
    pub(crate) fn new(text: &'static str) -> Self {
        Self { text: text.to_owned(), values: Vec::new() }
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

    /// A placeholder, and its value.
    pub(crate) fn bind(&mut self, value: Bound) -> &mut Self {
        self.values.push(value);
        self.text.push('$');
        self.push_number(self.values.len())
    }

    pub(crate) fn text(&mut self, value: impl Into<String>) -> &mut Self {
        self.bind(Bound::Text(value.into()))
    }

    pub(crate) fn into_parts(self) -> (sqlx::AssertSqlSafe<String>, Vec<Bound>) {
        (sqlx::AssertSqlSafe(self.text), self.values)
    }
}

/// Binds the values of an [`Sql`] to a query of either database.
macro_rules! bind_all {
    ($query:expr, $values:expr) => {{
        let mut query = $query;
        for value in $values {
            query = match value {
                $crate::sql::Bound::Text(text) => query.bind(text),
                $crate::sql::Bound::Integer(number) => query.bind(number),
                $crate::sql::Bound::Float(number) => query.bind(number),
            };
        }
        query
    }};
}
