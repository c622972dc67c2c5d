//! The error of registry operations.

use toolwright_tools::Issues;

use crate::Unavailable;
use crate::access::Denied;

/// Why a definition could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum RegistryError {
    /// The session lacks the permission.
    #[error(transparent)]
    Denied(#[from] Denied),
    /// The definition does not exist.
    #[error("there is no {kind} `{reference}` in realm `{realm}`")]
    NotFound {
        /// The kind of definition, such as `tool`.
        kind: &'static str,
        /// The requested name or id.
        reference: String,
        /// The realm that was searched.
        realm: String,
    },
    /// The definition does not have this version.
    #[error("{kind} `{reference}` has no version that matches `{version}`{}", listed(.available))]
    NoVersion {
        /// The kind of definition, such as `tool`.
        kind: &'static str,
        /// The requested name or id.
        reference: String,
        /// The requested version, requirement or revision.
        version: String,
        /// The versions that exist, highest first; empty for kinds without versions.
        available: Vec<String>,
    },
    /// The definition does not have this revision.
    #[error("{kind} `{reference}` has no revision {revision}; its revisions are 1 to {newest}")]
    NoRevision {
        /// The kind of definition, such as `tool`.
        kind: &'static str,
        /// The requested name or id.
        reference: String,
        /// The requested revision.
        revision: i64,
        /// The newest revision.
        newest: i64,
    },
    /// Another definition has this name.
    #[error("{kind} `{reference}` already exists; change it with PUT or PATCH, or choose another refName")]
    Duplicate {
        /// The kind of definition, such as `tool`.
        kind: &'static str,
        /// The name.
        reference: String,
    },
    /// Another writer has changed the definition after the caller read it.
    #[error("the definition is at revision {current}, not at the one you read; read it again and repeat your change")]
    Stale {
        /// The current revision.
        current: i64,
    },
    /// Another apply set created the definition.
    #[error("`{reference}` belongs to the apply set `{set}`; apply it with that set, or delete it first")]
    OtherSet {
        /// The name of the definition.
        reference: String,
        /// The apply set that created the definition.
        set: String,
    },
    /// The definition is not valid.
    #[error("the definition is not valid{}", summary(.0))]
    Invalid(Issues),
    /// The type cannot be deleted, because it has records.
    #[error("type `{0}` has records; delete them first, with `deleteMany` and `\"all\": true` at /api/query")]
    HasRecords(String),
    /// The filters, the order or the cursor of a list are not valid.
    #[error("{0}")]
    List(String),
    /// The database failed.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

impl From<toolwright_store::StoreError> for RegistryError {
    fn from(error: toolwright_store::StoreError) -> Self {
        RegistryError::Unavailable(error.into())
    }
}

fn listed(available: &[String]) -> String {
    if available.is_empty() { String::new() } else { format!("; it has {}", available.join(", ")) }
}

/// Returns the first issue and the number of issues. The error response of the API lists all issues.
fn summary(issues: &Issues) -> String {
    match issues.0.as_slice() {
        [] => String::new(),
        [one] => format!(": {}: {}", one.path, one.message),
        [first, ..] => format!(" in {} places, the first: {}: {}", issues.0.len(), first.path, first.message),
    }
}
