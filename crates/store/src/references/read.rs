//! Reading items, and how the last fetches went.

use toolwright_types::RefName;

use super::rows::{ItemRow, SyncRow};
use super::{ReferenceItem, References, Shelf, SyncState};
use crate::db::Unavailable;

impl References<'_> {
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
}
