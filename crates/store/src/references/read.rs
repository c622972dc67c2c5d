//! Reads items and the state of syncs. Active items are items that are not marked as deleted.

use toolwright_types::RefName;

use super::rows::{ItemRow, SyncRow};
use super::{RealmReferences, ReferenceItem, ReferenceSet, SyncState};
use crate::db::StoreError;

impl RealmReferences<'_> {
    /// Returns the active items of a reference set, sorted by name.
    pub async fn items(&self, set: ReferenceSet<'_>, limit: i64) -> Result<Vec<ReferenceItem>, StoreError> {
        let rows: Vec<ItemRow> = read!(&self.store.db, |pool| {
            sqlx::query_as(
                "SELECT data_type, external_id, name, body, status, synced_at FROM reference_items
                 WHERE realm_id = $1 AND provider = $2 AND data_type = $3 AND status = 'active'
                 ORDER BY name, external_id LIMIT $4",
            )
            .bind(self.realm.to_string())
            .bind(set.provider.key())
            .bind(set.data_type)
            .bind(limit)
            .fetch_all(pool)
        })?;
        rows.into_iter().map(ReferenceItem::try_from).collect()
    }

    /// Returns the active items of a data type, across all providers, sorted by name.
    pub async fn items_of_type(&self, data_type: &str, limit: i64) -> Result<Vec<ReferenceItem>, StoreError> {
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

    /// Counts the active items of a data type.
    pub async fn count_of_type(&self, data_type: &str) -> Result<i64, StoreError> {
        read!(&self.store.db, |pool| {
            sqlx::query_scalar(
                "SELECT COUNT(*) FROM reference_items WHERE realm_id = $1 AND data_type = $2 AND status = 'active'",
            )
            .bind(self.realm.to_string())
            .bind(data_type)
            .fetch_one(pool)
        })
    }

    /// Returns the data types that have active items.
    pub async fn types(&self) -> Result<Vec<String>, StoreError> {
        read!(&self.store.db, |pool| {
            sqlx::query_scalar(
                "SELECT DISTINCT data_type FROM reference_items WHERE realm_id = $1 AND status = 'active' ORDER BY data_type",
            )
            .bind(self.realm.to_string())
            .fetch_all(pool)
        })
    }

    /// Returns the page of a provider's items after the position `after`. Items are sorted by type and id; deleted
    /// items are included.
    pub async fn page(
        &self,
        provider: &RefName,
        data_type: Option<&str>,
        after: Option<(&str, &str)>,
        limit: i64,
    ) -> Result<Vec<ReferenceItem>, StoreError> {
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

    /// Returns the sync state of each data type of a provider.
    pub async fn sync_states(&self, provider: &RefName) -> Result<Vec<SyncState>, StoreError> {
        let rows: Vec<SyncRow> = read!(&self.store.db, |pool| {
            sqlx::query_as(
                "SELECT data_type, attempted_at, synced_at, error, next_sync_at FROM reference_syncs
                 WHERE realm_id = $1 AND provider = $2 ORDER BY data_type",
            )
            .bind(self.realm.to_string())
            .bind(provider.key())
            .fetch_all(pool)
        })?;
        Ok(rows.into_iter().map(SyncState::from).collect())
    }
}
