//! Fixture systems: small HTTP servers that tools can call in tests and in the demo.
//!
//! | module | content |
//! |---|---|
//! | [`crm`] | a CRM similar to HubSpot: deals, companies, search, batch update, rate limit |
//! | [`orders`] | an orders API with another style of authentication, paging and errors |
//! | [`web`] | a small web of fictional companies, with a search API, a scraper and a PDF extractor |
//! | [`faults`] | a server whose routes fail in a requested way, one path per kind of fault |
//! | `grpc` | a gRPC server with reflection, for tests |
//! | `oauth_proxy` | an authorization server, and a proxy that protects an MCP server with its tokens, for tests |
//! | `tls` | a certificate authority, its certificates, and TLS acceptors, for tests |
//! | [`definitions`] | the demo's providers, tools and agent for the CRM, the orders API and the web |
//! | [`entities`] | the demo's entity types and their records |
//!
//! `Crm::builder().start(LOOPBACK).await?` returns a [`Handle`] with the address, the audit of reads and writes, and
//! `shutdown`. The data is in memory and is the same after every start. Timestamps are computed from the number of
//! writes, so the same requests always get the same responses.
//!
//! The crate is part of the binary (`toolwright serve --demo`), so the lints for production code apply to it. It does
//! not depend on other crates of the workspace.

mod abortable;
mod audit;
pub mod crm;
pub mod definitions;
pub mod entities;
pub mod faults;
#[cfg(feature = "grpc")]
pub mod grpc;
mod keyed_request;
#[cfg(feature = "login")]
pub mod oauth_proxy;
pub mod orders;
mod record_store;
mod server;
#[cfg(feature = "tls")]
pub mod tls;
mod token_bucket;
pub mod web;

pub use audit::{Audit, AuditEntry, Audited};
pub use crm::Crm;
pub use faults::Faults;
pub use orders::Orders;
pub use server::{Handle, LOOPBACK};
pub use web::Web;
