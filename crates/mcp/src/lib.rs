//! Server and client of the Model Context Protocol (MCP).
//!
//! The server offers the tools of a realm to MCP clients. The client is the backend of EXTERNAL_MCP tools. rmcp
//! implements the wire format: JSON-RPC, sessions, streams and version negotiation. This crate decides which tools a
//! principal sees. It executes MCP calls as direct calls. As a client, it checks that the tools of other servers still
//! have the definitions that a user accepted. HTTP routes and authentication are not part of this crate: the caller of
//! [`Endpoint`] authenticates each request.

mod bridge;
mod client;
mod correlation;
mod fixtures;
mod hops;
mod login;
mod probe;
mod server;

pub use bridge::{BridgeError, HttpTarget, bridge};
pub use client::{
    AcceptedTools, Client, ClientOptions, CommandUser, Discovery, McpImportError, McpImportReport, McpImportSource,
    McpImports, ProcessLimits, SkippedMcpTool,
};
pub use login::{OAuthClient, OAuthLogin, OAuthLoginError, OAuthLoginRequest};
pub use probe::{Probe, ProbeCall, ProbeCallReport, ProbeCalls, ProbeError, ProbeReport};

pub use server::{Endpoint, HostPolicy, McpResponse, ServerOptions};
