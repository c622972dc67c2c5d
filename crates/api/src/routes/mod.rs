//! The routes, one module per resource.

pub(crate) mod agents;
pub(crate) mod blobs;
pub(crate) mod conversations;
pub(crate) mod drift;
pub(crate) mod expressions;
pub(crate) mod generated;
pub(crate) mod gram;
pub(crate) mod health;
pub(crate) mod imports;
pub(crate) mod inspection;
pub(crate) mod journals;
pub(crate) mod keys;
pub(crate) mod mcp;
pub(crate) mod mcp_imports;
pub(crate) mod providers;
pub(crate) mod query;
pub(crate) mod realms;
pub(crate) mod runs;
pub(crate) mod secrets;
pub(crate) mod tables;
pub(crate) mod tools;
pub(crate) mod trials;
pub(crate) mod type_imports;
pub(crate) mod types;
pub(crate) mod undo;
