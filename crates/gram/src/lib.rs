//! Parses, prints, checks and queries gram, a text notation for agents, tools and graphs.
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
//! The comments of this crate use these terms:
//!
//! | term | meaning |
//! |---|---|
//! | pattern | a subject and a list of elements, which are patterns as well |
//! | subject | an identity, labels and properties, as in `a:Label {key: 1}` |
//! | record | the properties of a subject, `{key: 1}` |
//! | node | a pattern without elements, `(a)` |
//! | bracket | a pattern with elements, `[a \| b, c]` |
//! | reference | a bare name as an element of a bracket, such as `b` in `[a \| b]` |
//! | arrow, path | nodes joined by arrows, `(a)-->(b)-->(c)`; an arrow may have a subject, `-[r:Label]->` |
//! | relation | the pattern of one arrow: a bracket with two nodes, `[r \| a, b]` |
//! | walk | the pattern of a path with several arrows |
//! | annotation | `@key(value)` or `@@name` before a pattern; it stands for a bracket around the pattern |
//! | fenced string | text between three backticks, on several lines |
//!
//! The functions of this crate convert between these forms:
//!
//! | from → to | |
//! |---|---|
//! | bytes → text | [`decode`] |
//! | text → lossless syntax tree | [`Tree`], [`syntax`] |
//! | text → pattern | [`parse`] |
//! | pattern ↔ JSON | `serde` on [`Pattern`] |
//! | pattern → text | [`print()`], [`print_line`] |
//! | text → text | [`format()`]; [`Rewrite`], which preserves everything it does not change |
//! | text → diagnostics | [`check`], [`Diagnostic`] |
//! | pattern → agent, tool | [`AgentSpecView`], [`ToolSpecView`]; [`validate_agent`], [`validate_tool`] |
//! | signature ↔ JSON Schema | [`Signature`] |
//! | patterns → matches | [`Query`] over a [`Graph`] |
//! | patterns → differences | [`diff`] |
//! | text → highlighted tokens | [`highlight`] |
//!
//! This crate does no IO, keeps no state and does not run agents. Parsing takes time proportional to the length of the
//! text. Brackets nest at most [`MAX_NESTING`] levels deep, so recursion over a pattern cannot overflow the stack.
//!
//! The grammar is that of `tree-sitter-gram` 0.6.1. Tests use it as the reference parser.
//! `tests/grammar/differences.rs` lists the intended differences and their reasons. The reference parser does not
//! define the meaning of three constructs. This crate gives them the following meanings. A document with several
//! patterns is a pattern with the label `Gram.Root`. A path with several arrows is a pattern with the label
//! `Gram.Walk`. An arrow that points left is a relation from its right node to its left node.
//!
//! # Queries
//!
#![doc = include_str!("query/notation.md")]

mod check;
mod diagnostic;
mod diff;
mod highlight;
mod json;
mod labels;
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
pub use diagnostic::{Diagnostic, DiagnosticCode, Diagnostics};
pub use diff::{PatternChange, PatternDifference, diff};
pub use highlight::{TokenClass, highlight};
pub use json::JsonError;
pub use labels::{is_agent, is_tool};
pub use layout::format;
pub use model::{
    Array, Decimal, DefinitionIndex, Map, MapValue, Measurement, Number, Pattern, Properties, Range, Scalar, Subject,
    Symbol, Value,
};
pub use position::{Position, Span};
pub use print::{print, print_line};
pub use query::{Graph, Match, Query, QueryLimitExceeded};
pub use rewrite::{Rewrite, RewriteError, RewrittenText};
pub use signature::{Parameter, SchemaError, Signature, SignatureError, SignatureParseError, Type};
pub use source::{decode, parse};
pub use syntax::{MAX_NESTING, Tree};
pub use view::{
    AgentBuilder, AgentResponse, AgentSpecView, ConversationContext, FromPatternError, Message, MessageRole,
    ToolInvocation, ToolSpecBuilder, ToolSpecView, ValidationError, ValidationErrorKind, validate_agent, validate_tool,
};
