//! The query language of lists, searches and filters: `status:open && price:>#10`.
//!
//! [`Query::parse`] validates a query. [`Query::bind`] binds variables and relations and compiles patterns. The
//! resulting [`Filter`] has the same semantics in memory ([`Filter::matches`]) and as SQL ([`sql::compile`]). The crate
//! also implements sorting, pagination and projection, as far as they need no IO.
//!
//! ```
//! use serde_json::json;
//! use toolwright_query::{BindContext, Query};
//!
//! let query = Query::parse("status:open && price:>#10")?;
//! let filter = query.bind(&BindContext::empty())?;
//! assert!(filter.matches(&json!({"status": "OPEN", "price": 12.5})));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The crate does no IO. The caller resolves relations ([`Query::edges`]), and the store runs the SQL statements.

mod bind;
mod cursor;
mod datetime;
mod dependencies;
mod error;
mod eval;
mod field;
mod filter;
mod output;
mod pattern;
mod position;
mod projection;
mod query;
mod sort;
mod syntax;
mod text;

pub mod sql;

pub use bind::{BindContext, Edge, EdgeFilters, QueryBindError};
pub use cursor::{Cursor, InvalidCursor};
pub use datetime::DateTimeLiteral;
pub use dependencies::Dependencies;
pub use error::ParseError;
pub use field::{Field, InvalidField, MAX_SEGMENTS};
pub use filter::Filter;
pub use output::{Expansion, OutputOptions, QueryMode};
pub use pattern::WildcardPattern;
pub use position::Position;
pub use projection::Projection;
pub use query::{Query, matches};
pub use sort::{Sort, SortKey, SortValue};
pub use syntax::{
    CompareOp, Condition, Direction, ExpandPath, Item, Literal, MAX_CONDITIONS, MAX_ELEMENTS, MAX_LENGTH, MAX_NESTING,
    MAX_PATTERN, NumberLiteral, ObjectId, RecordId, Term,
};
pub use text::Case;
