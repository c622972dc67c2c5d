//! Fixture systems: small but real HTTP servers that tools can be pointed at.
//!
//! | module | what it is |
//! |---|---|
//! | [`crm`] | a CRM in HubSpot's spirit: deals, companies, search, batch update, rate limit |
//! | [`orders`] | an orders API with another style of authentication, paging and errors |
//! | [`faults`] | a server that misbehaves on request, one path per kind of trouble |
//! | `grpc` | a gRPC server that describes itself, for tests |
//! | `gatehouse` | an authorization server, and the gate before an MCP server that people log in to, for tests |
//! | `tls` | an authority, its certificates, and servers that show or want them, for tests |
//! | [`definitions`] | the demo's providers and tools, written against the first two |
//!
//! Each system is a component: `Crm::builder().start(LOOPBACK).await?` gives a [`Handle`], which knows the
//! address, what was read and written, and how to stop. Data lives in memory and starts the same every time;
//! time stamps are derived from the number of writes, so two equal runs give equal bytes.
//!
//! The crate is part of the binary (`toolwright serve --demo`), so it follows the rules of production code.
//! It knows nothing of the other crates of the workspace.

mod audit;
mod bucket;
pub mod crm;
pub mod definitions;
pub mod entities;
pub mod faults;
#[cfg(feature = "login")]
pub mod gatehouse;
#[cfg(feature = "grpc")]
pub mod grpc;
mod ledger;
pub mod orders;
mod server;
mod submission;
#[cfg(feature = "tls")]
pub mod tls;
mod wire;

pub use audit::{Audit, Audited, Entry};
pub use crm::Crm;
pub use faults::Faults;
pub use orders::Orders;
pub use server::{Handle, LOOPBACK};
