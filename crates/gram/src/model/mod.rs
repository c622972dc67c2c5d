//! The data model of a document: patterns, subjects and values.
//!
//! The model does not contain layout, arrow styles or quoting. Two texts with the same model have the same meaning.
//! Agents and tools are in module `view`.

mod definitions;
mod lower;
mod names;
mod pattern;
mod plain_json;
mod scalars;
mod subject_sites;
mod value;

pub use definitions::DefinitionIndex;
pub use pattern::{Pattern, Properties, Subject};
pub use value::{Array, Decimal, Map, MapValue, Measurement, Number, Range, Scalar, Symbol, Value};

pub(crate) use lower::{locate_element, lower, lower_signature, parse, value};
pub(crate) use names::check_names;
pub(crate) use pattern::WALK;
pub(crate) use subject_sites::{SubjectSite, subject_sites};
