//! Writes many documents in one transaction.

use serde_json::Value;
use toolwright_types::{Document, DocumentKind, RefName};

use super::{CreateError, DocumentRef, InvalidBody, NewRevision, RealmDefinitions, ReplaceError};
use crate::db::StoreError;

/// One write of a batch.
#[derive(Debug)]
pub struct BatchWrite {
    /// The kind of the document.
    pub kind: DocumentKind,
    /// The id and the expected revision of the document to replace. `None` creates a document.
    pub replaces: Option<(String, i64)>,
    /// The content.
    pub new: NewRevision,
}

/// The reason why nothing was written.
#[derive(Debug, thiserror::Error)]
pub enum BatchError {
    /// A document cannot be created.
    #[error("create `{name}`")]
    Create {
        /// The name of the document.
        name: RefName,
        /// The cause.
        #[source]
        source: CreateError,
    },
    /// A document cannot be replaced.
    #[error("replace `{name}`")]
    Replace {
        /// The name of the document.
        name: RefName,
        /// The cause.
        #[source]
        source: ReplaceError,
    },
    /// A body cannot be stored.
    #[error("store `{name}`")]
    Body {
        /// The name of the document.
        name: RefName,
        /// The cause.
        #[source]
        source: InvalidBody,
    },
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl RealmDefinitions<'_> {
    /// Writes documents in one transaction. The generation is incremented once, so other servers reload once.
    pub async fn write_all(&self, writes: Vec<BatchWrite>, by: &str) -> Result<Vec<Document<Value>>, BatchError> {
        for BatchWrite { new, .. } in &writes {
            new.check().map_err(|source| BatchError::Body { name: new.ref_name.clone(), source })?;
        }
        let mut tx = self.store.db.begin().await?;
        let mut written = Vec::with_capacity(writes.len());
        for BatchWrite { kind, replaces, new } in writes {
            let name = new.ref_name.clone();
            written.push(match replaces {
                None => {
                    let created = self.create_in_tx(&mut tx, kind, new, by).await;
                    created.map_err(|source| BatchError::Create { name, source })?
                }
                Some((id, expected)) => {
                    let replaced =
                        self.replace_in_tx(&mut tx, kind, &DocumentRef::Id(id), Some(expected), new, by).await;
                    replaced.map_err(|source| BatchError::Replace { name, source })?
                }
            });
        }
        tx.commit().await?;
        self.store.announce_events();
        Ok(written)
    }
}
