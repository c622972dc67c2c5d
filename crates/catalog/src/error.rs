//! The error for a service that is not available, such as the database.

use std::io;
use std::sync::Arc;

use toolwright_store::StoreError;

/// An error of any type, used as the cause of another error.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A service that this server needs, such as the database, is not available. Clients see the message. The source is
/// logged.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Unavailable {
    message: &'static str,
    #[source]
    source: BoxError,
}

impl Unavailable {
    /// Creates an error with a message for clients and a cause for the log.
    pub fn new(message: &'static str, source: impl Into<BoxError>) -> Self {
        Self { message, source: source.into() }
    }

    /// Whether the cause is a full disk.
    pub fn is_disk_full(&self) -> bool {
        let causes = std::iter::successors(Some(&*self.source as &dyn std::error::Error), |error| error.source());
        causes.into_iter().any(|error| {
            error.downcast_ref::<StoreError>().is_some_and(StoreError::is_disk_full)
                || error.downcast_ref::<Arc<StoreError>>().is_some_and(|error| error.is_disk_full())
                || error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::StorageFull)
        })
    }
}

impl From<StoreError> for Unavailable {
    fn from(source: StoreError) -> Self {
        Self::new("the database did not answer", source)
    }
}

impl From<toolwright_store::WriteError> for Unavailable {
    fn from(source: toolwright_store::WriteError) -> Self {
        Self::new("the journal could not be written", source)
    }
}
