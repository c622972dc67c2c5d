//! Gram notation: agents and tools as source that people read, version and query.
//!
//! ```gram
//! [hello_world_agent:Agent {
//!   instruction: "Have friendly conversations. Use `sayHello` to greet.",
//!   model: "OpenAI/gpt-4o-mini"
//! } |
//!   [sayHello:ToolSpecification {description: "Returns a friendly greeting"} |
//!     (personName::Text {default: "world"})==>(::String)
//!   ]
//! ]
//! ```
//!
//! | from → to | |
//! |---|---|
//! | bytes → text | [`decode`] |
//! | text → tree, nothing lost | [`Tree`], [`syntax`] |
//! | text → pattern | [`parse`]; JSON both ways by `serde` |
//! | pattern → text | [`print()`], [`print_line`] |
//! | text → text | [`format()`]; [`Rewrite`] keeps what it does not change |
//! | text → mistakes | [`check`]; each is a [`Diagnostic`] |
//! | pattern → agent, tool | [`AgentView`], [`ToolSpecView`]; [`validate_agent`] and [`validate_tool`] say why not |
//! | signature ↔ JSON Schema | [`Signature`] |
//! | patterns → answers | [`Query`] over a [`Graph`]; [`diff`] |
//! | text → colours | [`tokens`] |
//!
//! Nothing here does IO, keeps state or knows how agents run. Every text is answered in time proportional to its length;
//! brackets nest at most [`MAX_NESTING`] deep, so that recursion over a pattern is safe.
//!
//! The grammar is that of `tree-sitter-gram` 0.6.1, which serves as the reference in tests;
//! `tests/grammar/differences.rs` lists where we differ and why. Readings that the reference leaves open are decided so:
//! a document of several patterns is a `Gram.Root`, a path of several arrows a `Gram.Walk`, and an arrow to the left is
//! the relation from its right to its left node.
//!
//! # Queries
//!
#![doc = include_str!("query/notation.md")]

mod check;
mod diagnostic;
mod diff;
mod highlight;
mod layout;
mod model;
mod position;
mod print;
mod query;
mod rewrite;
mod signature;
mod source;
mod view;

pub mod syntax;

pub use check::check;
pub use diagnostic::{Code, Diagnostic, Diagnostics};
pub use diff::{Change, Difference, diff};
pub use highlight::{Class, tokens};
pub use layout::format;
pub use model::{
    Array, Decimal, Definitions, Entry, JsonError, Map, Measurement, Number, Pattern, Properties, Range, Scalar,
    Subject, Symbol, Value,
};
pub use position::{Position, Span};
pub use print::{print, print_line};
pub use query::{Graph, Match, Query, TooMuch};
pub use rewrite::{Rewrite, RewriteError, Rewritten};
pub use signature::{Parameter, ParseError as SignatureParseError, SchemaError, Signature, SignatureError, Type};
pub use source::{decode, parse};
pub use syntax::{MAX_NESTING, Tree};
pub use view::{
    AgentParts, AgentResponse, AgentView, ConversationContext, Flaw, Message, Problem, RecordError, Role,
    ToolInvocation, ToolSpecParts, ToolSpecView, is_agent, is_tool, validate_agent, validate_tool,
};
