//! Converts gram patterns to definitions and definitions to gram patterns.
//!
//! | from → to | |
//! |---|---|
//! | agent pattern → definitions | [`AgentBundle::compile`], [`AgentBundle::interpret`] |
//! | tool pattern → definition | [`read_tool`] |
//! | documents → all their definitions | [`read_all`] |
//! | definition → pattern | [`write_agent`], [`write_tool`] |
//! | signature → schemas of a tool | [`signature_schemas`] |
//! | patterns → relations between definitions | [`reference_relations`] |
//!
//! Gram has its own notation for the identifier, `description`, `instruction`, `model`, tools and type signatures.
//! Every other field of a definition is a property with the same name. The fields of a group have a dotted name, such
//! as `policy.maxToolCalls`. Values that gram cannot express are written as JSON in a tagged string. The writer reads
//! each pattern that it has written, and compares the result with the definition. It adds the fields that differ as
//! JSON in the property `exact`. So reading a written definition returns the same definition.
//!
//! This crate does not run agents and does not know which tools and models exist.

mod agent;
mod definitions;
mod error;
mod model_name;
mod properties;
mod relations;
mod schema;
mod tool;
mod value;

pub use agent::{AgentBundle, write_agent};
pub use definitions::{LocatedDefinition, ParsedDefinition, read_all};
pub use error::DefinitionError;
pub use relations::reference_relations;
pub use schema::signature_schemas;
pub use tool::{read_tool, write_tool};
