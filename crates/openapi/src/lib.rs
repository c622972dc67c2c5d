//! Converts OpenAPI 3.0, 3.1 and 3.2 documents into tool definitions and object schemas.
//!
//! [`OpenApiDocument::parse`] reads JSON or YAML within limits. [`propose_tools`] proposes one provider and one
//! EXTERNAL_REST tool per operation, and reports the operations that it skips with a reason. [`component_schemas`]
//! returns the schemas under `components.schemas`.
//!
//! This crate performs no I/O: it fetches nothing, writes nothing and resolves only references within the document. The
//! caller validates the proposed definitions before it saves them.

mod auth;
mod body;
mod components;
mod document;
mod error;
mod examples;
mod expression;
mod filter;
mod names;
mod operation;
mod parameters;
mod parse;
mod proposal;
mod reference;
mod schema;
mod servers;
mod text;

pub use components::{ComponentSchema, NotAnObject, ObjectSchema, component_schemas};
pub use document::OpenApiDocument;
pub use error::DocumentError;
pub use filter::{InvalidOperationFilter, OperationFilter, matches_any};
pub use proposal::{OpenApiImportOptions, OpenApiProposal, ProposedTool, SkippedOperation, propose_tools};
