//! Reference data: what the systems of providers call things, as it was when they were asked last.
//!
//! What is gone from a system is marked and kept. How items are found by their names is decided elsewhere.

mod due;
mod rows;

use std::collections::HashMap;

use serde_json::{Map, Value, json};
use toolwright_types::{PrincipalId, RealmId, RealmScope, RefName, Timestamp};

use crate::db::{Tx, Unavailable};
use crate::store::Store;

pub use due::DueSync;
use rows::{ItemRow, SyncRow};

/// The reference data of one realm; that of every other does not exist here.
#[derive(Debug, Clone, Copy)]
pub struct References<'a> {
    store: &'a Store,
    // INVARIANT: every query of this handle is confined to this realm.
    realm: RealmId,
}

/// A thing of a system.
#[derive(Debug, Clone, PartialEq)]
pub struct NewItem {
    /// Its id there, a text or a number.
    pub id: Value,
    /// What it is called.
    pub name: String,
    /// What else is kept of it.
    pub metadata: Map<String, Value>,
}

/// A thing of a system, as it is kept.
#[derive(Debug, Clone, PartialEq)]
pub struct ReferenceItem {
    /// What it is.
    pub data_type: String,
    /// Its id as text.
    pub external_id: String,
    /// Its id as the system writes it.
    pub id: Value,
    /// What it is called.
    pub name: String,
    /// What else is kept of it.
    pub metadata: Map<String, Value>,
    /// Whether the system still has it.
    pub active: bool,
    /// When it was seen last.
    pub synced_at: Timestamp,
}

/// How the last fetch of a type went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SyncState {
    /// The type.
    pub data_type: String,
    /// When it was tried last.
    pub tried_at: Timestamp,
    /// When it went well last.
    pub synced_at: Option<Timestamp>,
    /// Why the last try failed.
    pub error: Option<String>,
    /// When it is tried again.
    pub next_at: Option<Timestamp>,
}

/// What a fetch changed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Changed {
    /// Items that are new, or back.
    pub created: usize,
    /// Items that are called something else, or carry something else.
    pub updated: usize,
    /// Items that are gone.
    pub deleted: usize,
}

/// One type of one provider.
#[derive(Debug, Clone, Copy)]
pub struct Shelf<'a> {
    /// The provider.
    pub provider: &'a RefName,
    /// The type.
    pub data_type: &'a str,
}

impl<'a> References<'a> {
    pub(crate) fn new(store: &'a Store, scope: &RealmScope) -> Self {
        Self { store, realm: scope.realm }
    }

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

    /// The present items of one type of a provider, by name.
    pub async fn of(&self, shelf: Shelf<'_>, limit: i64) -> Result<Vec<ReferenceItem>, Unavailable> {
        let rows: Vec<ItemRow> = read!(&self.store.db, |pool| {
            sqlx::query_as(
                "SELECT data_type, external_id, name, body, status, synced_at FROM reference_items
                 WHERE realm_id = $1 AND provider = $2 AND data_type = $3 AND status = 'active'
                 ORDER BY name, external_id LIMIT $4",
            )
            .bind(self.realm.to_string())
            .bind(shelf.provider.key())
            .bind(shelf.data_type)
            .bind(limit)
            .fetch_all(pool)
        })?;
        rows.into_iter().map(ReferenceItem::try_from).collect()
    }

    /// The present items of one type of all providers, by name.
    pub async fn of_type(&self, data_type: &str, limit: i64) -> Result<Vec<ReferenceItem>, Unavailable> {
        let rows: Vec<ItemRow> = read!(&self.store.db, |pool| {
            sqlx::query_as(
                "SELECT data_type, external_id, name, body, status, synced_at FROM reference_items
                 WHERE realm_id = $1 AND data_type = $2 AND status = 'active'
                 ORDER BY name, external_id LIMIT $3",
            )
            .bind(self.realm.to_string())
            .bind(data_type)
            .bind(limit)
            .fetch_all(pool)
        })?;
        rows.into_iter().map(ReferenceItem::try_from).collect()
    }

    /// How many present items of one type there are.
    pub async fn count_of_type(&self, data_type: &str) -> Result<i64, Unavailable> {
        read!(&self.store.db, |pool| {
            sqlx::query_scalar(
                "SELECT COUNT(*) FROM reference_items WHERE realm_id = $1 AND data_type = $2 AND status = 'active'",
            )
            .bind(self.realm.to_string())
            .bind(data_type)
            .fetch_one(pool)
        })
    }

    /// The types that have items.
    pub async fn types(&self) -> Result<Vec<String>, Unavailable> {
        read!(&self.store.db, |pool| {
            sqlx::query_scalar(
                "SELECT DISTINCT data_type FROM reference_items WHERE realm_id = $1 AND status = 'active' ORDER BY data_type",
            )
            .bind(self.realm.to_string())
            .fetch_all(pool)
        })
    }

    /// A page of the items of a provider, gone ones too, by type and id, from after `after` on.
    pub async fn page(
        &self,
        provider: &RefName,
        data_type: Option<&str>,
        after: Option<(&str, &str)>,
        limit: i64,
    ) -> Result<Vec<ReferenceItem>, Unavailable> {
        let (after_type, after_id) = after.unwrap_or_default();
        let rows: Vec<ItemRow> = read!(&self.store.db, |pool| {
            sqlx::query_as(
                "SELECT data_type, external_id, name, body, status, synced_at FROM reference_items
                 WHERE realm_id = $1 AND provider = $2 AND ($3 = '' OR data_type = $3)
                   AND (data_type > $4 OR (data_type = $4 AND external_id > $5))
                 ORDER BY data_type, external_id LIMIT $6",
            )
            .bind(self.realm.to_string())
            .bind(provider.key())
            .bind(data_type.unwrap_or_default())
            .bind(after_type)
            .bind(after_id)
            .bind(limit)
            .fetch_all(pool)
        })?;
        rows.into_iter().map(ReferenceItem::try_from).collect()
    }

    /// How the last fetches of a provider's types went.
    pub async fn states(&self, provider: &RefName) -> Result<Vec<SyncState>, Unavailable> {
        let rows: Vec<SyncRow> = read!(&self.store.db, |pool| {
            sqlx::query_as(
                "SELECT data_type, tried_at, synced_at, error, next_at FROM reference_syncs
                 WHERE realm_id = $1 AND provider = $2 ORDER BY data_type",
            )
            .bind(self.realm.to_string())
            .bind(provider.key())
            .fetch_all(pool)
        })?;
        Ok(rows.into_iter().map(SyncState::from).collect())
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
