//! Gram patterns as definitions, and definitions as gram patterns.
//!
//! | from → to | |
//! |---|---|
//! | agent pattern → definitions | [`Agent::compile`], [`Agent::interpret`] |
//! | tool pattern → definition | [`read_tool`] |
//! | texts → everything they define | [`read_all`] |
//! | definition → pattern | [`write_agent`], [`write_tool`] |
//! | patterns → how they refer to each other | [`links`] |
//!
//! Identifier, `description`, `instruction`, `model`, tools and type signatures are what gram has words for. Every other
//! field of a definition is a property of the same name; those of a group have a dot, as in `policy.maxToolCalls`. What
//! gram cannot hold in a value is JSON in a tagged string. Where all of this would still say something else than the
//! definition, the property `exact` carries the fields as they are: writing a definition and reading it again gives the
//! same one, and the writer makes sure of it each time.
//!
//! Nothing here runs agents, and nothing knows which tools and models exist.

mod agent;
mod all;
mod field;
mod links;
mod model;
mod problem;
mod record;
mod schema;
mod tool;
mod value;

pub use agent::{Agent, write_agent};
pub use all::{Defined, Definition, read_all};
pub use links::links;
pub use problem::Problem;
pub use tool::{read_tool, write_tool};
