//! The backend of GRPC tools: converts JSON inputs to protocol buffers and replies back to JSON.
//!
//! Method descriptors come from the server (reflection) or from the provider's descriptor set. Connections use the HTTP
//! client that all tools share, with its egress rules, credentials and certificates (`toolwright_tools::http`). `tonic`
//! implements the gRPC protocol, and `prost-reflect` implements the messages.

mod backend;
mod channel;
mod codec;
mod descriptors;
mod proposal;
mod reflection;
mod schema;
mod status;

pub use backend::{GrpcBackend, REFLECTION_METHOD};
pub use descriptors::{InvalidDescriptorSet, parse_descriptor_set};
pub use proposal::{GrpcImportOptions, GrpcProposal, SkippedMethod, propose_tools};
pub use schema::message_schema;
