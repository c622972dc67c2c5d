//! Expressions, templates and selectors in definitions: `${…}`, JSON that contains `${…}`, JSONPath, and prompts
//! that contain `{{…}}`.
//!
//! Every text is parsed once, when a definition is saved. After that, only the data can cause an error. The crate does
//! no IO and has no state. A result depends only on the text and the [`Scope`].
//!
//! Not here: the query language (`toolwright-query`) and JSON Schema.

mod error;
mod eval;
mod evaluate;
mod expression;
mod jsonpath;
mod limits;
mod mapping;
mod pattern;
mod position;
mod references;
mod scope;
mod syntax;
mod template;

pub mod escape;
pub mod prompt;

pub use error::{Error, EvalError, EvalErrorKind, ParseError};
pub use evaluate::evaluate;
pub use expression::{Evaluation, Expression};
pub use jsonpath::{JsonPath, JsonPathError};
pub use limits::EvalLimits;
pub use mapping::Mapping;
pub use position::Position;
pub use references::Reference;
pub use scope::Scope;
pub use template::{JsonTextTemplate, RenderedText, Template, ValueTemplate};
