//! What a text means: patterns, their subjects and values.
//!
//! Layout, the strokes of arrows and the way a string is quoted are not part of it; two texts with the same model say the
//! same thing. Not here: agents and tools (`view`).

mod check;
mod json;
mod lower;
mod pattern;
mod plain;
mod references;
mod scalars;
mod sites;
mod value;

pub use json::JsonError;
pub use pattern::{Pattern, Properties, Subject};
pub use references::Definitions;
pub use value::{Array, Decimal, Entry, Map, Measurement, Number, Range, Scalar, Symbol, Value};

pub(crate) use check::names;
pub(crate) use lower::{locate_element, lower, lower_signature, parse, value};
pub(crate) use pattern::WALK;
pub(crate) use sites::{Site, sites};
