//! Expressions, templates and selectors of definitions: `${…}`, JSON with `${…}` in it, JSONPath, and prompts with
//! `{{…}}` in them.
//!
//! Everything is parsed once, when a definition is saved, into a value that cannot be wrong; what
//! remains for run time is data that does not fit. Nothing here does IO, keeps state, knows tools,
//! stores or runs, or waits: a result is a function of the text and the [`Scope`].
//!
//! Not here: the query language of filters, and JSON Schema.

mod error;
mod eval;
mod expression;
mod jsonpath;
mod limits;
mod mapping;
mod once;
mod pattern;
mod position;
mod scope;
mod syntax;
mod template;

pub mod escape;
pub mod prompt;

pub use error::{Error, EvalError, EvalErrorKind, ParseError};
pub use expression::{Evaluated, Expression};
pub use jsonpath::{JsonPath, QueryError};
pub use limits::Limits;
pub use mapping::Mapping;
pub use once::evaluate;
pub use position::Position;
pub use scope::Scope;
pub use template::{JsonTextTemplate, Rendered, Template, ValueTemplate};
