//! One module per resource.

pub mod agents;
pub mod blobs;
pub mod conversations;
pub mod drift;
pub mod expressions;
pub mod generated;
pub mod gram;
pub mod health;
pub mod imports;
pub mod journals;
pub mod keys;
pub mod mcp;
pub mod mcp_imports;
pub mod providers;
pub mod query;
pub mod realms;
pub mod runs;
pub mod secrets;
pub mod tables;
pub mod tools;
pub mod trials;
pub mod type_imports;
pub mod types;
pub mod undo;
