//! Many documents at once: all of them, or none.

use serde_json::Value;
use toolwright_types::{Document, DocumentKind, RefName};

use super::{CreateError, Definitions, InvalidBody, NewRevision, Ref, ReplaceError};
use crate::db::Unavailable;

/// One write of several.
#[derive(Debug)]
pub struct BatchWrite {
    /// The kind of the document.
    pub kind: DocumentKind,
    /// The id and the revision of the document that is replaced; none when it is new.
    pub onto: Option<(String, i64)>,
    /// What it says.
    pub new: NewRevision,
}

/// Why nothing was written.
#[derive(Debug, thiserror::Error)]
pub enum BatchError {
    /// One of the documents cannot be created.
    #[error("create `{name}`")]
    Create {
        /// Which.
        name: RefName,
        /// Why not.
        #[source]
        source: CreateError,
    },
    /// One of them cannot be replaced.
    #[error("replace `{name}`")]
    Replace {
        /// Which.
        name: RefName,
        /// Why not.
        #[source]
        source: ReplaceError,
    },
    /// One of them cannot be stored.
    #[error("store `{name}`")]
    Body {
        /// Which.
        name: RefName,
        /// Why not.
        #[source]
        source: InvalidBody,
    },
    /// The database failed.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

impl Definitions<'_> {
    /// Writes documents in one transaction, which other servers notice once.
    pub async fn write_all(&self, writes: Vec<BatchWrite>, by: &str) -> Result<Vec<Document<Value>>, BatchError> {
        for BatchWrite { new, .. } in &writes {
            new.check().map_err(|source| BatchError::Body { name: new.ref_name.clone(), source })?;
        }
        let mut tx = self.store.db.begin().await?;
        let mut written = Vec::with_capacity(writes.len());
        for BatchWrite { kind, onto, new } in writes {
            let name = new.ref_name.clone();
            written.push(match onto {
                None => {
                    let created = self.create_within(&mut tx, kind, new, by).await;
                    created.map_err(|source| BatchError::Create { name, source })?
                }
                Some((id, expected)) => {
                    let replaced = self.replace_within(&mut tx, kind, &Ref::Id(id), Some(expected), new, by).await;
                    replaced.map_err(|source| BatchError::Replace { name, source })?
                }
            });
        }
        tx.commit().await?;
        Ok(written)
    }
}
