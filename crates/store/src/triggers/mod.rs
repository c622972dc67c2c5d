//! Stores the schedules and the firings of triggers.
//!
//! Several servers may share a database, and a server may fail at any time. So the next time of a schedule changes in
//! the same transaction that creates the firing, and the id of the run is chosen with the firing: a firing that is
//! repeated cannot start a second run.

mod firings;
mod schedules;

use serde_json::Value;
use toolwright_types::{Document, DocumentKind, RealmId, TriggerId};

use crate::db::StoreError;
use crate::definitions::rows::{DocumentRow, current_columns};
use crate::store::Store;

pub use firings::{Firing, FiringStatus, InvalidFiringStatus, NewFiring, RealmFirings};
pub use schedules::{ScheduledTrigger, Schedules};

impl Store {
    /// Returns a trigger of any realm by its id. The address of an incoming webhook contains only this id.
    pub async fn trigger(&self, id: TriggerId) -> Result<Option<(RealmId, Document<Value>)>, StoreError> {
        let row: Option<RealmDocumentRow> = read!(&self.db, |pool| {
            sqlx::query_as(concat!(
                "SELECT d.realm_id, ",
                current_columns!(),
                " FROM documents d JOIN revisions r ON r.document_id = d.id AND r.revision = d.head_revision
                 WHERE d.id = $1 AND d.kind = $2 AND d.deleted_at IS NULL"
            ))
            .bind(id.to_string())
            .bind(DocumentKind::Trigger.as_str())
            .fetch_optional(pool)
        })?;
        row.map(RealmDocumentRow::into_parts).transpose()
    }
}

/// A document with its realm.
#[derive(sqlx::FromRow)]
pub(crate) struct RealmDocumentRow {
    realm_id: String,
    #[sqlx(flatten)]
    document: DocumentRow,
}

impl RealmDocumentRow {
    pub(crate) fn into_parts(self) -> Result<(RealmId, Document<Value>), StoreError> {
        let realm = self.realm_id.parse().map_err(StoreError::unreadable)?;
        Ok((realm, self.document.try_into()?))
    }
}
