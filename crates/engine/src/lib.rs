//! The product without its surfaces: definitions, identity, secrets, blobs and calls, each a small service.
//!
//! Nothing here knows HTTP routes. [`Engine::open`] puts the services together; a surface takes the ones it needs.

pub mod access;
pub mod agents;
mod blobs;
mod calls;
mod catalog;
pub mod conversations;
pub mod drift;
mod engine;
mod execute;
mod generated;
mod helix;
pub mod identity;
pub mod imports;
mod llm;
mod logins;
mod patterns;
pub mod records;
#[cfg(feature = "redis")]
mod redis_ports;
pub mod references;
pub mod registry;
pub mod runs;
mod sandboxed;
mod vault;

pub use access::{Access, Denied, Session};
pub use agents::{AgentSettings, Agents};
pub use blobs::{Blob, BlobStore};
pub use calls::{Calls, Direct};
pub use catalog::{Catalog, Viewer};
pub use conversations::Conversations;
pub use drift::Findings;
pub use engine::{Engine, OpenError, Options};
pub use execute::{ExecuteError, execute_agent_with_library, gram_response};
pub use generated::{Generated, Skipped};
pub use identity::Identity;
pub use imports::Imports;
pub use llm::ModelDefaults;
pub use records::Records;
pub use references::References;
pub use registry::Registry;
pub use runs::Runs;
pub use toolwright_store::SecretScope;
pub use vault::{SecretView, Vault, VaultError};

/// A part of the server that could not answer. The cause is for the log.
#[derive(Debug, thiserror::Error)]
#[error("{what}")]
pub struct Unavailable {
    what: &'static str,
    #[source]
    source: Box<dyn std::error::Error + Send + Sync>,
}

impl Unavailable {
    pub(crate) fn new(what: &'static str) -> impl FnOnce(Box<dyn std::error::Error + Send + Sync>) -> Self {
        move |source| Self { what, source }
    }
}

impl From<toolwright_store::Unavailable> for Unavailable {
    fn from(source: toolwright_store::Unavailable) -> Self {
        Self { what: "the database did not answer", source: Box::new(source) }
    }
}
