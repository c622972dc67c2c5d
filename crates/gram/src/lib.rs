//! Gram.
mod diagnostic;
mod position;
pub mod syntax;
pub use diagnostic::{Code, Diagnostic, Diagnostics};
pub use position::{Position, Span};
pub use syntax::{MAX_NESTING, Tree};
