//! Finds and claims the reference sets of all realms that are due for a sync.

use toolwright_types::{PrincipalId, RealmId, RefName, Timestamp};

use crate::db::StoreError;
use crate::store::Store;

/// A reference set that is due for a sync.
#[derive(Debug, Clone)]
pub struct DueSync {
    /// The realm.
    pub realm: RealmId,
    /// The provider.
    pub provider: RefName,
    /// The type of the items, such as `users`.
    pub data_type: String,
    /// The principal for which the last sync ran. The next sync uses the permissions of this principal.
    pub principal: PrincipalId,
    next_sync_at: i64,
}

#[derive(sqlx::FromRow)]
struct DueRow {
    realm_id: String,
    provider: String,
    data_type: String,
    principal_id: String,
    next_sync_at: i64,
}

impl Store {
    /// Returns at most `limit` reference sets that are due. The set that has been due for the longest time is first.
    pub async fn due_references(&self, limit: i64) -> Result<Vec<DueSync>, StoreError> {
        let rows: Vec<DueRow> = read!(&self.db, |pool| {
            sqlx::query_as(
                "SELECT realm_id, provider, data_type, principal_id, next_sync_at FROM reference_syncs
                 WHERE next_sync_at <= $1 ORDER BY next_sync_at LIMIT $2",
            )
            .bind(self.now().as_micros())
            .bind(limit)
            .fetch_all(pool)
        })?;
        rows.into_iter().map(DueSync::try_from).collect()
    }

    /// Claims a due sync, so that no other server starts it before `until`. With `None`, the reference set is removed
    /// from the schedule. Returns `false` if another server has already claimed the sync.
    pub async fn claim_reference(&self, due: &DueSync, until: Option<Timestamp>) -> Result<bool, StoreError> {
        let mut tx = self.db.begin().await?;
        let taken = execute!(
            tx,
            sqlx::query(
                "UPDATE reference_syncs SET next_sync_at = $1
                 WHERE realm_id = $2 AND provider = $3 AND data_type = $4 AND next_sync_at = $5",
            )
            .bind(until.map(Timestamp::as_micros))
            .bind(due.realm.to_string())
            .bind(due.provider.key())
            .bind(&due.data_type)
            .bind(due.next_sync_at)
        )?;
        tx.commit_unannounced().await?;
        Ok(taken == 1)
    }
}

impl TryFrom<DueRow> for DueSync {
    type Error = StoreError;

    fn try_from(row: DueRow) -> Result<Self, StoreError> {
        Ok(Self {
            realm: row.realm_id.parse().map_err(StoreError::unreadable)?,
            provider: row.provider.parse().map_err(StoreError::unreadable)?,
            data_type: row.data_type,
            principal: row.principal_id.parse().map_err(StoreError::unreadable)?,
            next_sync_at: row.next_sync_at,
        })
    }
}
