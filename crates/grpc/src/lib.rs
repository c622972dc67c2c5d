//! GRPC tools: JSON in, JSON out, and protocol buffers in between.
//!
//! A method is described by its server (reflection) or by a descriptor set that its provider holds. The connection is that of
//! every other tool: the same egress rules, credentials and certificates (`toolwright_tools::http`); gRPC itself is
//! spoken by `tonic`, messages are made by `prost-reflect`.

mod backend;
mod channel;
mod codec;
mod import;
mod methods;
mod reflection;
mod schema;
mod status;

pub use backend::{DESCRIBE, GrpcBackend};
pub use import::{ImportOptions, Imported, tools};
pub use methods::{InvalidDescriptors, pool};
pub use schema::schema;
