//! The Model Context Protocol on both sides: a server that offers a realm's tools to MCP clients, and a client whose calls
//! are the backend of EXTERNAL_MCP tools.
//!
//! The wire is rmcp's: JSON-RPC, sessions, streams, negotiation of versions. What is here says what is offered to whom,
//! how a call on this surface becomes a call on the one path, and what is believed of other servers. HTTP routes and
//! authentication are not here; whoever mounts an [`Endpoint`] says who is asking.

mod bridge;
mod client;
mod fixtures;
mod login;
mod probe;
mod server;

pub use bridge::{BridgeError, HttpTarget, bridge};
pub use client::{Accepted, Client, ClientOptions, Discovered, ImportError, Imported, Imports, Skipped, Source};
pub use login::{Authorize, Login, LoginError, LoginRequest};
pub use probe::{Called, Findings, Probe, ProbeError, ToolCall};

pub use server::{Answer, Endpoint, Reach, ServerOptions};
