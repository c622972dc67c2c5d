//! The errors of triggers.

use toolwright_agents::StartError;
use toolwright_catalog::registry::RegistryError;
use toolwright_catalog::{Denied, Unavailable};
use toolwright_tools::Issues;

/// Why a trigger did not start a run.
#[derive(Debug, thiserror::Error)]
pub enum FireError {
    /// The trigger cannot be read, or the session lacks a permission.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// The stored trigger is not valid in this release.
    #[error("the trigger is not valid: {0}")]
    Invalid(Issues),
    /// The principal of the trigger does not exist.
    #[error("there is no principal `{0}`; correct `principalRef` of the trigger")]
    UnknownPrincipal(String),
    /// The principal of the trigger may not act in the realm.
    #[error("principal `{principal}` may not act in realm `{realm}`")]
    Realm {
        /// The principal.
        principal: String,
        /// The realm.
        realm: String,
    },
    /// The input of the trigger cannot be computed.
    #[error("the input of the trigger cannot be computed: {0}")]
    Input(String),
    /// The run cannot be started.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The database failed.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

impl From<Denied> for FireError {
    fn from(error: Denied) -> Self {
        FireError::Registry(error.into())
    }
}

impl FireError {
    /// Whether a later attempt may succeed without a change of a definition.
    pub fn is_temporary(&self) -> bool {
        matches!(
            self,
            FireError::Unavailable(_)
                | FireError::Registry(RegistryError::Unavailable(_))
                | FireError::Start(StartError::Unavailable(_) | StartError::TooManyRuns(_))
        )
    }
}

/// Why an incoming webhook was refused.
#[derive(Debug, thiserror::Error)]
pub enum ReceiveError {
    /// No webhook trigger has this id.
    #[error("there is no webhook `{0}`")]
    Unknown(String),
    /// The request is not signed, the signature is wrong, or the request is too old.
    #[error("the webhook is not authentic: {0}")]
    NotAuthentic(String),
    /// The trigger is paused.
    #[error("the trigger is paused; resume it, or send the webhook again later")]
    Paused,
    /// The secret of the trigger is missing or is not a webhook secret.
    #[error("the secret of this webhook cannot be used; its owner must set it again")]
    Secret,
    /// The body is not text.
    #[error("the body must be UTF-8 text, because Standard Webhooks signs text")]
    Body,
    /// Another request with the same id has not started the run yet.
    #[error("the same webhook is being processed; send it again later")]
    InProgress,
    /// The run was not started.
    #[error(transparent)]
    Fire(#[from] FireError),
}
