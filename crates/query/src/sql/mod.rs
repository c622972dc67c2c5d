//! Filters, orders and pages as SQL, for a table whose records are JSON in one column, and for tables that were not made for
//! this: there a record is made of columns, and the filter is asked of that ([`Layout::of_columns`]).
//!
//! What comes out is text and values. The text is made of names that were declared in code ([`Layout`]) and of placeholders;
//! nothing that a query says is in it, not even the path of a field. Statements are put together and run elsewhere.
//!
//! | database | column of the record |
//! |---|---|
//! | SQLite | text that is JSON |
//! | Postgres | `jsonb`: its functions take no text, and a conversion per row and condition would cost more than the search |
//!
//! Connections to Postgres that run these statements should have `jit` off: it compiles every expression of a statement that
//! looks expensive, and takes seconds to minutes for one with hundreds of conditions that runs in milliseconds.
//!
//! Each record is an object. Strings and keys are without U+0000, which Postgres cannot store.

mod builder;
mod columns;
mod dialect;
mod layout;
mod narrow;
mod order;
mod value;

pub use columns::{Holds, TABLE, TableColumn, TableName};
pub use dialect::Dialect;
pub use layout::{Column, InvalidName, Kind, Layout, Searchable};
pub use order::{after, order_by};

use crate::Filter;

/// A piece of SQL with placeholders `$1`, `$2`, …, and what belongs in them.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Fragment {
    /// To be put after `WHERE` or `ORDER BY`, or joined to others.
    pub sql: String,
    /// In the order of the placeholders.
    pub params: Vec<Param>,
}

/// A value for a placeholder.
#[derive(Debug, Clone, PartialEq)]
pub enum Param {
    /// To be bound as text.
    Text(String),
    /// To be bound as a 64-bit integer.
    Integer(i64),
    /// To be bound as a double.
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

/// The condition that is true for the rows whose record passes the filter. Placeholders are counted from `first`.
pub fn compile(filter: &Filter, layout: &Layout, dialect: Dialect, first: usize) -> Fragment {
    let mut builder = builder::Builder::new(layout, dialect, first);
    let sql = builder.test(&filter.root, &builder::Place::Record);
    builder.finish(sql)
}
