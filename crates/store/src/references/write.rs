//! Replaces the items of a reference set with the result of a sync.

use std::collections::HashMap;

use serde_json::{Value, json};
use toolwright_types::{PrincipalId, Timestamp};

use super::rows::ItemRow;
use super::{NewReferenceItem, RealmReferences, ReferenceSet, SyncCounts};
use crate::db::{StoreError, Tx};

impl RealmReferences<'_> {
    /// Replaces the items of a reference set: adds new items, updates changed items, and marks stored items that are
    /// not in `items` as deleted.
    pub async fn replace(
        &self,
        set: ReferenceSet<'_>,
        items: Vec<NewReferenceItem>,
        by: PrincipalId,
        next_sync_at: Option<Timestamp>,
    ) -> Result<SyncCounts, StoreError> {
        let now = self.store.now();
        let mut tx = self.store.db.begin().await?;
        self.record_sync(&mut tx, set, by, Ok(now), next_sync_at).await?;
        let mut known = self.stored_items(&mut tx, set).await?;
        let mut changed = SyncCounts::default();
        for item in items {
            let id = external_id(&item.id);
            let body = json!({ "id": item.id, "metadata": item.metadata }).to_string();
            match known.remove(&id) {
                Some(row) if row.status == "active" && row.name == item.name && row.body == body => {}
                Some(row) if row.status == "active" => changed.updated += 1,
                _ => changed.created += 1,
            }
            self.upsert(&mut tx, set, &id, &item.name, &body, now).await?;
        }
        for (id, _) in known.into_iter().filter(|(_, row)| row.status == "active") {
            changed.deleted += 1;
            execute!(
                tx,
                sqlx::query(
                    "UPDATE reference_items SET status = 'deleted'
                     WHERE realm_id = $1 AND provider = $2 AND data_type = $3 AND external_id = $4",
                )
                .bind(self.realm.to_string())
                .bind(set.provider.key())
                .bind(set.data_type)
                .bind(&id)
            )?;
        }
        tx.commit_unannounced().await?;
        Ok(changed)
    }

    /// Records a failed sync. The items stay unchanged.
    pub async fn record_failure(
        &self,
        set: ReferenceSet<'_>,
        error: &str,
        by: PrincipalId,
        next_sync_at: Option<Timestamp>,
    ) -> Result<(), StoreError> {
        let mut tx = self.store.db.begin().await?;
        self.record_sync(&mut tx, set, by, Err(error), next_sync_at).await?;
        tx.commit_unannounced().await
    }

    /// Records an attempt to sync.
    ///
    /// INVARIANT: this is the first statement of a replacement. It locks the row of the reference set, so that
    /// concurrent syncs of the set wait for each other.
    async fn record_sync(
        &self,
        tx: &mut Tx,
        set: ReferenceSet<'_>,
        by: PrincipalId,
        outcome: Result<Timestamp, &str>,
        next_sync_at: Option<Timestamp>,
    ) -> Result<(), StoreError> {
        execute!(
            *tx,
            sqlx::query(
                "INSERT INTO reference_syncs (realm_id, provider, data_type, principal_id, attempted_at, synced_at, error, next_sync_at)
                 VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
                 ON CONFLICT (realm_id, provider, data_type) DO UPDATE SET principal_id = excluded.principal_id,
                   attempted_at = excluded.attempted_at, synced_at = COALESCE(excluded.synced_at, reference_syncs.synced_at),
                   error = excluded.error, next_sync_at = excluded.next_sync_at",
            )
            .bind(self.realm.to_string())
            .bind(set.provider.key())
            .bind(set.data_type)
            .bind(by.to_string())
            .bind(self.store.now().as_micros())
            .bind(outcome.ok().map(Timestamp::as_micros))
            .bind(outcome.err())
            .bind(next_sync_at.map(Timestamp::as_micros))
        )
        .map(|_| ())
    }

    async fn stored_items(&self, tx: &mut Tx, set: ReferenceSet<'_>) -> Result<HashMap<String, ItemRow>, StoreError> {
        let rows: Vec<ItemRow> = within!(*tx, |conn| {
            sqlx::query_as(
                "SELECT data_type, external_id, name, body, status, synced_at FROM reference_items
                 WHERE realm_id = $1 AND provider = $2 AND data_type = $3",
            )
            .bind(self.realm.to_string())
            .bind(set.provider.key())
            .bind(set.data_type)
            .fetch_all(conn)
        })?;
        Ok(rows.into_iter().map(|row| (row.external_id.clone(), row)).collect())
    }

    async fn upsert(
        &self,
        tx: &mut Tx,
        set: ReferenceSet<'_>,
        id: &str,
        name: &str,
        body: &str,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        execute!(
            *tx,
            sqlx::query(
                "INSERT INTO reference_items (realm_id, provider, data_type, external_id, name, body, status, synced_at)
                 VALUES ($1, $2, $3, $4, $5, $6, 'active', $7)
                 ON CONFLICT (realm_id, provider, data_type, external_id) DO UPDATE SET name = excluded.name,
                   body = excluded.body, status = 'active', synced_at = excluded.synced_at",
            )
            .bind(self.realm.to_string())
            .bind(set.provider.key())
            .bind(set.data_type)
            .bind(id)
            .bind(name)
            .bind(body)
            .bind(now.as_micros())
        )
        .map(|_| ())
    }
}

/// Formats an id as text.
fn external_id(id: &Value) -> String {
    match id {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
