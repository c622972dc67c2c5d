//! Tools that operate on records. Some are generated for each entity type, others are built in and operate on all
//! types.
//!
//! A generated tool is an ordinary definition that names its entity type as the origin. The generator overwrites
//! neither a tool that a person has edited nor a tool of another origin with the same name.

mod backend;
mod definitions;
mod description;
mod generator;
mod query_tools;

pub use backend::RecordBackend;
pub use definitions::tool_definitions;
pub use generator::{GenerationReport, SkippedTool, ToolGenerator};
pub use query_tools::{RecordsSlot, with_query_tools};
