//! Stores which events were passed to webhooks, and the deliveries of events.
//!
//! Several servers may share a database. The position in the event stream of a realm changes in the transaction that
//! creates the deliveries, so each event gets one delivery per webhook.

mod deliveries;

use serde_json::Value;
use toolwright_types::{Document, DocumentKind, RealmId};

use crate::db::StoreError;
use crate::definitions::rows::current_columns;
use crate::events::EventPosition;
use crate::store::Store;
use crate::triggers::RealmDocumentRow;

pub use deliveries::{Delivery, DeliveryOutcome, DeliveryStatus, InvalidDeliveryStatus, NewDelivery, RealmDeliveries};

impl Store {
    /// Returns the webhooks of all realms, ordered by realm.
    pub async fn webhooks(&self) -> Result<Vec<(RealmId, Document<Value>)>, StoreError> {
        let rows: Vec<RealmDocumentRow> = read!(&self.db, |pool| {
            sqlx::query_as(concat!(
                "SELECT d.realm_id, ",
                current_columns!(),
                " FROM documents d JOIN revisions r ON r.document_id = d.id AND r.revision = d.head_revision
                 WHERE d.kind = $1 AND d.deleted_at IS NULL ORDER BY d.realm_id, d.id"
            ))
            .bind(DocumentKind::Webhook.as_str())
            .fetch_all(pool)
        })?;
        rows.into_iter().map(RealmDocumentRow::into_parts).collect()
    }
}

impl RealmDeliveries<'_> {
    /// Returns the position of the last event that was passed to the webhooks of the realm.
    pub async fn position(&self) -> Result<Option<EventPosition>, StoreError> {
        let row: Option<(i64, i64)> = read!(&self.store.db, |pool| {
            sqlx::query_as("SELECT transaction_id, seq FROM webhook_positions WHERE realm_id = $1")
                .bind(self.realm.to_string())
                .fetch_optional(pool)
        })?;
        Ok(row.map(|(transaction, seq)| EventPosition::new(transaction, seq)))
    }

    /// Stores the first position of a realm. Does nothing if the realm has one.
    pub async fn start(&self, position: EventPosition) -> Result<(), StoreError> {
        let (transaction, seq) = position.parts();
        let mut tx = self.store.db.begin().await?;
        execute!(
            tx,
            sqlx::query(
                "INSERT INTO webhook_positions (realm_id, transaction_id, seq) VALUES ($1, $2, $3)
                 ON CONFLICT (realm_id) DO NOTHING",
            )
            .bind(self.realm.to_string())
            .bind(transaction)
            .bind(seq)
        )?;
        tx.commit_unannounced().await
    }

    /// Replaces the position and creates the deliveries of the events in between, in one transaction. Returns `false`
    /// and creates nothing if another server has done so.
    pub async fn advance(
        &self,
        from: EventPosition,
        to: EventPosition,
        deliveries: &[NewDelivery],
    ) -> Result<bool, StoreError> {
        let ((old_transaction, old_seq), (transaction, seq)) = (from.parts(), to.parts());
        let mut tx = self.store.db.begin().await?;
        let claimed = execute!(
            tx,
            sqlx::query(
                "UPDATE webhook_positions SET transaction_id = $1, seq = $2
                 WHERE realm_id = $3 AND transaction_id = $4 AND seq = $5",
            )
            .bind(transaction)
            .bind(seq)
            .bind(self.realm.to_string())
            .bind(old_transaction)
            .bind(old_seq)
        )?;
        if claimed != 1 {
            return Ok(false);
        }
        for delivery in deliveries {
            self.insert(&mut tx, delivery).await?;
        }
        tx.commit_unannounced().await?;
        Ok(true)
    }
}
