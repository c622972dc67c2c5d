//! The schedules of triggers: which are due, and when they are due next.

use serde_json::Value;
use toolwright_types::{Document, DocumentKind, RealmId, Timestamp};

use super::{NewFiring, RealmDocumentRow};
use crate::db::StoreError;
use crate::definitions::rows::{DocumentRow, current_columns};
use crate::store::Store;

/// The schedules of all realms.
#[derive(Debug, Clone, Copy)]
pub struct Schedules<'a> {
    store: &'a Store,
}

/// A trigger whose schedule must be computed or is due.
#[derive(Debug, Clone)]
pub struct ScheduledTrigger {
    /// The realm of the trigger.
    pub realm: RealmId,
    /// The definition.
    pub document: Document<Value>,
    /// The time at which the trigger is due. `None` if the schedule was not computed for this revision.
    pub next_at: Option<Timestamp>,
}

impl Store {
    /// Returns the schedules of all realms.
    pub fn schedules(&self) -> Schedules<'_> {
        Schedules { store: self }
    }
}

impl Schedules<'_> {
    /// Returns at most `limit` triggers whose schedule was not computed for the current revision.
    pub async fn changed(&self, limit: i64) -> Result<Vec<ScheduledTrigger>, StoreError> {
        let rows: Vec<RealmDocumentRow> = read!(&self.store.db, |pool| {
            sqlx::query_as(concat!(
                "SELECT d.realm_id, ",
                current_columns!(),
                " FROM documents d JOIN revisions r ON r.document_id = d.id AND r.revision = d.head_revision
                 LEFT JOIN trigger_schedules s ON s.trigger_id = d.id
                 WHERE d.kind = $1 AND d.deleted_at IS NULL AND (s.revision IS NULL OR s.revision <> d.revision)
                 ORDER BY d.id LIMIT $2"
            ))
            .bind(DocumentKind::Trigger.as_str())
            .bind(limit)
            .fetch_all(pool)
        })?;
        rows.into_iter()
            .map(|row| row.into_parts().map(|(realm, document)| ScheduledTrigger { realm, document, next_at: None }))
            .collect()
    }

    /// Stores the next time of a trigger for the revision of `document`. Does nothing if the schedule of this revision
    /// or of a later one is already stored.
    pub async fn set(&self, document: &Document<Value>, next_at: Option<Timestamp>) -> Result<(), StoreError> {
        let mut tx = self.store.db.begin().await?;
        execute!(
            tx,
            sqlx::query(
                "INSERT INTO trigger_schedules (trigger_id, revision, next_at) VALUES ($1, $2, $3)
                 ON CONFLICT (trigger_id) DO UPDATE SET revision = excluded.revision, next_at = excluded.next_at
                 WHERE trigger_schedules.revision < excluded.revision",
            )
            .bind(&document.meta.id)
            .bind(document.meta.revision)
            .bind(next_at.map(Timestamp::as_micros))
        )?;
        tx.commit_unannounced().await
    }

    /// Returns at most `limit` triggers that are due at `now`. The trigger that has been due for the longest time is
    /// first.
    pub async fn due(&self, now: Timestamp, limit: i64) -> Result<Vec<ScheduledTrigger>, StoreError> {
        let rows: Vec<DueRow> = read!(&self.store.db, |pool| {
            sqlx::query_as(concat!(
                "SELECT s.next_at, d.realm_id, ",
                current_columns!(),
                " FROM trigger_schedules s
                 JOIN documents d ON d.id = s.trigger_id AND d.revision = s.revision AND d.deleted_at IS NULL
                 JOIN revisions r ON r.document_id = d.id AND r.revision = d.head_revision
                 WHERE s.next_at <= $1 ORDER BY s.next_at LIMIT $2"
            ))
            .bind(now.as_micros())
            .bind(limit)
            .fetch_all(pool)
        })?;
        rows.into_iter().map(DueRow::into_trigger).collect()
    }

    /// Replaces the next time of a due trigger and creates its firings, in one transaction. Returns `false` and creates
    /// nothing if another server has done so, or if the definition has changed.
    pub async fn advance(
        &self,
        due: &ScheduledTrigger,
        next_at: Option<Timestamp>,
        firings: &[NewFiring],
    ) -> Result<bool, StoreError> {
        let mut tx = self.store.db.begin().await?;
        let claimed = execute!(
            tx,
            sqlx::query(
                "UPDATE trigger_schedules SET next_at = $1 WHERE trigger_id = $2 AND revision = $3 AND next_at = $4",
            )
            .bind(next_at.map(Timestamp::as_micros))
            .bind(&due.document.meta.id)
            .bind(due.document.meta.revision)
            .bind(due.next_at.map(Timestamp::as_micros))
        )?;
        if claimed != 1 {
            return Ok(false);
        }
        for firing in firings {
            firing.insert(&mut tx).await?;
        }
        tx.commit_unannounced().await?;
        Ok(true)
    }

    /// Returns the next time of a trigger.
    pub async fn next_at<T: Sync>(&self, document: &Document<T>) -> Result<Option<Timestamp>, StoreError> {
        let next_at: Option<Option<i64>> = read!(&self.store.db, |pool| {
            sqlx::query_scalar("SELECT next_at FROM trigger_schedules WHERE trigger_id = $1 AND revision = $2")
                .bind(&document.meta.id)
                .bind(document.meta.revision)
                .fetch_optional(pool)
        })?;
        Ok(next_at.flatten().map(Timestamp::from_micros))
    }
}

#[derive(sqlx::FromRow)]
struct DueRow {
    next_at: i64,
    realm_id: String,
    #[sqlx(flatten)]
    document: DocumentRow,
}

impl DueRow {
    fn into_trigger(self) -> Result<ScheduledTrigger, StoreError> {
        Ok(ScheduledTrigger {
            realm: self.realm_id.parse().map_err(StoreError::unreadable)?,
            document: self.document.try_into()?,
            next_at: Some(Timestamp::from_micros(self.next_at)),
        })
    }
}
