//! Compiles filters, sort orders and cursors to SQL. Two kinds of tables are supported: tables with the record in one
//! JSON column, and existing tables whose columns are the fields of a record ([`Layout::from_columns`]).
//!
//! The output is SQL text and parameters. The text contains only names from the [`Layout`] and placeholders. All data
//! from a query, including field paths, is passed as parameters, which prevents SQL injection. The store builds and
//! runs the complete statements.
//!
//! | database | record column |
//! |---|---|
//! | SQLite | JSON text |
//! | Postgres | `jsonb`: its functions do not accept text, and a conversion per row and condition would cost more than the search |
//!
//! Postgres connections that run these statements should set `jit = off`. If the estimated cost of a statement is high,
//! Postgres compiles every expression with JIT. For a statement with hundreds of conditions, this takes seconds to
//! minutes instead of milliseconds.
//!
//! Each record must be a JSON object. Strings and keys must not contain U+0000, because Postgres cannot store it.

mod builder;
mod columns;
mod dialect;
mod layout;
mod order;
mod prefilter;
mod value;

pub use columns::{ColumnType, TABLE_ALIAS, TableColumn, TableName};
pub use dialect::Dialect;
pub use layout::{Column, IndexKind, InvalidIdentifier, Layout, SearchableField};
pub use order::{after_cursor, order_by};

use crate::Filter;

/// A part of an SQL statement with placeholders `$1`, `$2`, … and their parameters.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Fragment {
    /// The SQL text, for example for a `WHERE` or `ORDER BY` clause.
    pub sql: String,
    /// The parameters in the order of the placeholders.
    pub params: Vec<Param>,
}

/// A value for a placeholder.
#[derive(Debug, Clone, PartialEq)]
pub enum Param {
    /// Bound as text.
    Text(String),
    /// Bound as a 64-bit integer.
    Integer(i64),
    /// Bound as a double.
    Real(f64),
}

impl From<String> for Param {
    fn from(text: String) -> Self {
        Param::Text(text)
    }
}

impl From<i64> for Param {
    fn from(integer: i64) -> Self {
        Param::Integer(integer)
    }
}

impl From<f64> for Param {
    fn from(real: f64) -> Self {
        Param::Real(real)
    }
}

/// Compiles a filter to a condition that is true for the rows with matching records. Placeholders are numbered from
/// `first`.
pub fn compile(filter: &Filter, layout: &Layout, dialect: Dialect, first: usize) -> Fragment {
    let mut builder = builder::Builder::new(layout, dialect, first);
    let sql = builder.predicate(&filter.root, &builder::Container::Record);
    builder.finish(sql)
}
