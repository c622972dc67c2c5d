//! The query language of lists, searches and filters: `status:open && price:>#10`.
//!
//! A [`Query`] is parsed once and cannot be wrong. [`Query::bind`] puts in variables and relations and compiles patterns;
//! the [`Filter`] that comes out has one meaning, in memory ([`Filter::matches`]) and as SQL ([`sql::compile`]). Sorting,
//! pages and projections, which go with every list, are here as far as they are pure.
//!
//! ```
//! use serde_json::json;
//! use toolwright_query::{Query, Scope};
//!
//! let query = Query::parse("status:open && price:>#10")?;
//! let filter = query.bind(&Scope::empty())?;
//! assert!(filter.matches(&json!({"status": "OPEN", "price": 12.5})));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Nothing here does IO: relations are looked up by the caller ([`Query::edges`]), statements run in the store.

mod asked;
mod bind;
mod cursor;
mod error;
mod eval;
mod field;
mod filter;
mod moment;
mod pattern;
mod plan;
mod position;
mod projection;
mod query;
mod sort;
mod syntax;

pub mod sql;

pub use asked::Asked;
pub use bind::{Edge, Edges, Scope};
pub use cursor::{Cursor, InvalidCursor};
pub use error::{BindError, ParseError};
pub use field::{Field, InvalidField, MAX_SEGMENTS};
pub use filter::Filter;
pub use moment::Moment;
pub use pattern::Pattern;
pub use plan::{Expansion, Mode, Plan};
pub use position::Position;
pub use projection::Projection;
pub use query::{Query, matches};
pub use sort::{Sort, SortKey, SortValue};
pub use syntax::{
    Case, Condition, Direction, ExpandPath, Item, Literal, MAX_CONDITIONS, MAX_ELEMENTS, MAX_LENGTH, MAX_NESTING,
    MAX_PATTERN, Number, ObjectId, Order, RecordId, Term,
};
