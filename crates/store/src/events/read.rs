//! Reads the events of a realm in order.

use toolwright_types::{Owner, Timestamp};

use super::{Event, EventKind, EventPosition, EventType, RealmEvents};
use crate::db::{Db, StoreError};

/// A page of events.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EventPage {
    /// The events, oldest first.
    pub events: Vec<Event>,
    /// Whether events after the requested position were deleted, so that the page does not contain them.
    pub lost: bool,
    /// Whether there are events that cannot be read yet, because an older transaction is still active.
    pub delayed: bool,
}

/// The positions from which a reader can continue.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EventBounds {
    /// The position of the last event that was deleted.
    pub deleted: EventPosition,
    /// The position of the last readable event. If no event is readable, the position of the last deleted event.
    pub newest: EventPosition,
}

#[derive(sqlx::FromRow)]
struct Row {
    transaction_id: i64,
    seq: i64,
    at: i64,
    event_type: String,
    kind: String,
    subject_id: String,
    run_id: Option<String>,
    ref_name: Option<String>,
    status: Option<String>,
    revision: Option<i64>,
    owner_id: Option<String>,
    category: Option<String>,
    readable: bool,
}

/// Returns the text of a statement that contains the condition for readable events. The documentation of the module
/// `events` explains which events are readable.
macro_rules! with_readable {
    ($db:expr, $before:literal, $after:literal) => {
        match $db {
            Db::Sqlite { .. } => concat!($before, "transaction_id = 0", $after),
            #[cfg(feature = "postgres")]
            Db::Postgres(_) => {
                concat!($before, "transaction_id < pg_snapshot_xmin(pg_current_snapshot())::TEXT::BIGINT", $after)
            }
        }
    };
}
pub(super) use with_readable;

impl RealmEvents<'_> {
    /// Returns up to `limit` events after a position.
    pub async fn read_after(&self, after: EventPosition, limit: u32) -> Result<EventPage, StoreError> {
        let sql = with_readable!(
            &self.store.db,
            "SELECT transaction_id, seq, at, event_type, kind, subject_id, run_id, ref_name, status, revision, owner_id,
                    category, (",
            ") AS readable FROM events
             WHERE realm_id = $1 AND (transaction_id, seq) > ($2, $3) ORDER BY transaction_id, seq LIMIT $4"
        );
        let rows: Vec<Row> = read!(&self.store.db, |pool| {
            sqlx::query_as(sql)
                .bind(self.realm.to_string())
                .bind(after.transaction)
                .bind(after.seq)
                .bind(i64::from(limit))
                .fetch_all(pool)
        })?;
        // INVARIANT: this query runs after the query for events. The transaction that deletes events also stores the
        // position of the last deleted event. So if events after `after` were deleted before the query for events, this
        // query returns a position after `after`.
        let lost = self.last_deleted().await? > after;
        let delayed = rows.iter().any(|row| !row.readable);
        let events = rows.into_iter().take_while(|row| row.readable).map(Event::try_from).collect::<Result<_, _>>()?;
        Ok(EventPage { events, lost, delayed })
    }

    /// Returns the positions from which a reader can continue.
    pub async fn bounds(&self) -> Result<EventBounds, StoreError> {
        let sql = with_readable!(
            &self.store.db,
            "SELECT transaction_id, seq FROM events WHERE realm_id = $1 AND ",
            " ORDER BY transaction_id DESC, seq DESC LIMIT 1"
        );
        let newest: Option<(i64, i64)> =
            read!(&self.store.db, |pool| { sqlx::query_as(sql).bind(self.realm.to_string()).fetch_optional(pool) })?;
        let deleted = self.last_deleted().await?;
        let newest = newest.map(|(transaction, seq)| EventPosition { transaction, seq });
        Ok(EventBounds { deleted, newest: newest.unwrap_or(deleted).max(deleted) })
    }

    async fn last_deleted(&self) -> Result<EventPosition, StoreError> {
        let deleted: Option<(i64, i64)> = read!(&self.store.db, |pool| {
            sqlx::query_as("SELECT transaction_id, seq FROM deleted_events WHERE realm_id = $1")
                .bind(self.realm.to_string())
                .fetch_optional(pool)
        })?;
        Ok(deleted.map(|(transaction, seq)| EventPosition { transaction, seq }).unwrap_or_default())
    }
}

/// The error for a row with an unknown type or kind.
#[derive(Debug, thiserror::Error)]
#[error("event `{0}` has an unknown type or kind")]
struct UnknownEvent(EventPosition);

impl TryFrom<Row> for Event {
    type Error = StoreError;

    fn try_from(row: Row) -> Result<Self, StoreError> {
        let position = EventPosition { transaction: row.transaction_id, seq: row.seq };
        let unknown = || StoreError::unreadable(UnknownEvent(position));
        let event_type = EventType::ALL.into_iter().find(|known| known.as_str() == row.event_type);
        let kind = EventKind::ALL.into_iter().find(|known| known.as_str() == row.kind);
        let owner = row.owner_id.map(|id| id.parse().map(Owner::new).map_err(StoreError::unreadable)).transpose()?;
        Ok(Self {
            position,
            at: Timestamp::from_micros(row.at),
            event_type: event_type.ok_or_else(unknown)?,
            kind: kind.ok_or_else(unknown)?,
            id: row.subject_id,
            run: row.run_id,
            ref_name: row.ref_name,
            status: row.status,
            revision: row.revision,
            owner,
            category: row.category,
        })
    }
}
