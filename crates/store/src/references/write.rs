//! Replacing items by what a system says now.

use std::collections::HashMap;

use serde_json::{Value, json};
use toolwright_types::{PrincipalId, Timestamp};

use super::rows::ItemRow;
use super::{Changed, NewItem, References, Shelf};
use crate::db::{Tx, Unavailable};

impl References<'_> {
    /// Makes a type what its system says now: what is new is added, what is gone is marked.
    pub async fn replace(
        &self,
        shelf: Shelf<'_>,
        items: Vec<NewItem>,
        by: PrincipalId,
        next_at: Option<Timestamp>,
    ) -> Result<Changed, Unavailable> {
        let now = self.store.now();
        let mut tx = self.store.db.begin().await?;
        self.note(&mut tx, shelf, by, Ok(now), next_at).await?;
        let mut known = self.known(&mut tx, shelf).await?;
        let mut changed = Changed::default();
        for item in items {
            let id = external_id(&item.id);
            let body = json!({ "id": item.id, "metadata": item.metadata }).to_string();
            match known.remove(&id) {
                Some(row) if row.status == "active" && row.name == item.name && row.body == body => {}
                Some(row) if row.status == "active" => changed.updated += 1,
                _ => changed.created += 1,
            }
            self.put(&mut tx, shelf, &id, &item.name, &body, now).await?;
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
                .bind(shelf.provider.key())
                .bind(shelf.data_type)
                .bind(&id)
            )?;
        }
        tx.commit_unannounced().await?;
        Ok(changed)
    }

    /// Notes that a fetch failed. What was there stays.
    pub async fn failed(
        &self,
        shelf: Shelf<'_>,
        error: &str,
        by: PrincipalId,
        next_at: Option<Timestamp>,
    ) -> Result<(), Unavailable> {
        let mut tx = self.store.db.begin().await?;
        self.note(&mut tx, shelf, by, Err(error), next_at).await?;
        tx.commit_unannounced().await
    }

    /// INVARIANT: this comes first in a replacement. It locks the type's row, so that two fetches go one after the other.
    async fn note(
        &self,
        tx: &mut Tx,
        shelf: Shelf<'_>,
        by: PrincipalId,
        outcome: Result<Timestamp, &str>,
        next_at: Option<Timestamp>,
    ) -> Result<(), Unavailable> {
        execute!(
            *tx,
            sqlx::query(
                "INSERT INTO reference_syncs (realm_id, provider, data_type, principal_id, tried_at, synced_at, error, next_at)
                 VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
                 ON CONFLICT (realm_id, provider, data_type) DO UPDATE SET principal_id = excluded.principal_id,
                   tried_at = excluded.tried_at, synced_at = COALESCE(excluded.synced_at, reference_syncs.synced_at),
                   error = excluded.error, next_at = excluded.next_at",
            )
            .bind(self.realm.to_string())
            .bind(shelf.provider.key())
            .bind(shelf.data_type)
            .bind(by.to_string())
            .bind(self.store.now().as_micros())
            .bind(outcome.ok().map(Timestamp::as_micros))
            .bind(outcome.err())
            .bind(next_at.map(Timestamp::as_micros))
        )
        .map(|_| ())
    }

    async fn known(&self, tx: &mut Tx, shelf: Shelf<'_>) -> Result<HashMap<String, ItemRow>, Unavailable> {
        let rows: Vec<ItemRow> = within!(*tx, |conn| {
            sqlx::query_as(
                "SELECT data_type, external_id, name, body, status, synced_at FROM reference_items
                 WHERE realm_id = $1 AND provider = $2 AND data_type = $3",
            )
            .bind(self.realm.to_string())
            .bind(shelf.provider.key())
            .bind(shelf.data_type)
            .fetch_all(conn)
        })?;
        Ok(rows.into_iter().map(|row| (row.external_id.clone(), row)).collect())
    }

    async fn put(
        &self,
        tx: &mut Tx,
        shelf: Shelf<'_>,
        id: &str,
        name: &str,
        body: &str,
        now: Timestamp,
    ) -> Result<(), Unavailable> {
        execute!(
            *tx,
            sqlx::query(
                "INSERT INTO reference_items (realm_id, provider, data_type, external_id, name, body, status, synced_at)
                 VALUES ($1, $2, $3, $4, $5, $6, 'active', $7)
                 ON CONFLICT (realm_id, provider, data_type, external_id) DO UPDATE SET name = excluded.name,
                   body = excluded.body, status = 'active', synced_at = excluded.synced_at",
            )
            .bind(self.realm.to_string())
            .bind(shelf.provider.key())
            .bind(shelf.data_type)
            .bind(id)
            .bind(name)
            .bind(body)
            .bind(now.as_micros())
        )
        .map(|_| ())
    }
}

/// An id as text.
fn external_id(id: &Value) -> String {
    match id {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
