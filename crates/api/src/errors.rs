//! What each failure of the engine is to a client. The cause goes to the log, never into the body.

use toolwright_engine::access::Denied;
use toolwright_engine::identity::{LoginError, ManageError};
use toolwright_engine::registry::RegistryError;
use toolwright_engine::{Unavailable, VaultError};

use crate::problem::{Code, Problem};

impl From<Denied> for Problem {
    fn from(error: Denied) -> Self {
        Problem::new(Code::Forbidden, error.to_string())
    }
}

impl From<Unavailable> for Problem {
    fn from(error: Unavailable) -> Self {
        tracing::error!(%error, cause = ?std::error::Error::source(&error), "a request failed");
        Problem::new(Code::Unavailable, format!("{error}; the server's log has the cause"))
    }
}

impl From<LoginError> for Problem {
    fn from(error: LoginError) -> Self {
        match error {
            LoginError::UnknownKey => Problem::new(Code::Unauthenticated, error.to_string()),
            LoginError::Realm(_) => Problem::new(Code::Forbidden, error.to_string()),
            LoginError::Unavailable(inner) => inner.into(),
        }
    }
}

impl From<ManageError> for Problem {
    fn from(error: ManageError) -> Self {
        let text = error.to_string();
        match error {
            ManageError::Denied(inner) => inner.into(),
            ManageError::Unavailable(inner) => inner.into(),
            ManageError::UnknownKey(_) | ManageError::UnknownRealm(_) => Problem::new(Code::NotFound, text),
            ManageError::DuplicateRealm(_) | ManageError::OtherPrincipal(_) => Problem::new(Code::Duplicate, text),
            ManageError::Label(_) => Problem::invalid("/label", text),
        }
    }
}

impl From<VaultError> for Problem {
    fn from(error: VaultError) -> Self {
        let text = error.to_string();
        match error {
            VaultError::Denied(inner) => inner.into(),
            VaultError::Unavailable(inner) => inner.into(),
            VaultError::NotFound { .. } => Problem::new(Code::NotFound, text),
            VaultError::Size => Problem::invalid("/value", text),
            VaultError::Owner(_) => Problem::invalid("/scope", text),
        }
    }
}

impl From<RegistryError> for Problem {
    fn from(error: RegistryError) -> Self {
        let text = error.to_string();
        match error {
            RegistryError::Denied(inner) => inner.into(),
            RegistryError::Unavailable(inner) => inner.into(),
            RegistryError::NotFound { .. } | RegistryError::NoVersion { .. } => Problem::new(Code::NotFound, text),
            RegistryError::Duplicate { .. } => Problem::new(Code::Duplicate, text),
            RegistryError::Stale { .. } => Problem::new(Code::StaleRevision, text),
            RegistryError::Invalid(issues) => Problem::new(Code::InvalidDefinition, text).at(issues.0),
            RegistryError::List(_) => Problem::new(Code::InvalidRequest, text),
        }
    }
}
