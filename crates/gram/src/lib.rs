//! Gram notation: agents and tools as readable source.
mod check;
mod diagnostic;
mod layout;
mod model;
mod position;
mod print;
mod signature;
mod source;
mod view;

pub mod syntax;

pub use check::check;
pub use diagnostic::{Code, Diagnostic, Diagnostics};
pub use layout::format;
pub use model::{
    Array, Decimal, Definitions, Entry, JsonError, Map, Measurement, Number, Pattern, Properties, Range, Scalar,
    Subject, Symbol, Value,
};
pub use position::{Position, Span};
pub use print::{print, print_line};
pub use signature::{Parameter, ParseError as SignatureParseError, SchemaError, Signature, SignatureError, Type};
pub use source::{decode, parse};
pub use syntax::{MAX_NESTING, Tree};
pub use view::{
    AgentParts, AgentResponse, AgentView, Flaw, Problem, RecordError, ToolInvocation, ToolSpecParts, ToolSpecView,
    is_agent, is_tool,
};
