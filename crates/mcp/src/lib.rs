//! The Model Context Protocol: the server that offers a realm's tools to MCP clients.
//!
//! The wire is rmcp's: JSON-RPC, sessions, streams, negotiation of versions. What is here says what is offered to whom
//! and how a call on this surface becomes a call on the one path. HTTP routes and authentication are not here; whoever
//! mounts an [`Endpoint`] says who is asking.

mod fixtures;
mod server;

pub use server::{Answer, Endpoint, Reach, ServerOptions};
