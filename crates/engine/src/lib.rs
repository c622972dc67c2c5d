//! Assembles the services of a server: definitions, identity, secrets, blobs, calls, agents and records.
//!
//! [`Engine::open`] opens and connects the services. This crate does not contain HTTP routes.

mod base;
mod calls;
mod disk_reserve;
pub mod drift;
mod engine;
pub mod events;
mod execution;
mod exported_tools;
mod gram_agent;
mod helix;
pub mod imports;
mod logins;
mod provider_test;
mod readiness;
#[cfg(feature = "redis")]
mod redis_ports;
pub mod references;
mod sandbox_backend;
mod status;
mod vault;
mod workflow_tools;

pub use base::OpenError;
pub use calls::{Calls, MCP_LIST_METHOD};
pub use drift::DriftReports;
pub use engine::{Engine, EnvironmentLookup, Options};
pub use events::Events;
pub use exported_tools::{ExportSelection, ExportedNameError, ExportedTools};
pub use gram_agent::{ExecuteError, execute_agent_with_library, gram_response};
pub use imports::Imports;
pub use provider_test::ProviderTest;
pub use readiness::{CheckStatus, Readiness, ReadinessCheck};
pub use references::ReferenceData;
pub use status::{DiskSpace, LanguageStatus, PartHealth, ServerStatus};
pub use toolwright_store::{SecretInfo, SecretScope};
pub use vault::{Vault, VaultError};
