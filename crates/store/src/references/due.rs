//! What has to be fetched again. Spans the realms, because the clock does.

use toolwright_types::{PrincipalId, RealmId, RefName, Timestamp};

use crate::db::Unavailable;
use crate::store::Store;

/// A type whose time has come.
#[derive(Debug, Clone)]
pub struct DueSync {
    /// Its realm.
    pub realm: RealmId,
    /// Its provider.
    pub provider: RefName,
    /// The type.
    pub data_type: String,
    /// Who fetched it last, and on whose authority it is fetched again.
    pub principal: PrincipalId,
    next_at: i64,
}

#[derive(sqlx::FromRow)]
struct DueRow {
    realm_id: String,
    provider: String,
    data_type: String,
    principal_id: String,
    next_at: i64,
}

impl Store {
    /// Some of the types whose time has come.
    pub async fn due_references(&self, limit: i64) -> Result<Vec<DueSync>, Unavailable> {
        let rows: Vec<DueRow> = read!(&self.db, |pool| {
            sqlx::query_as(
                "SELECT realm_id, provider, data_type, principal_id, next_at FROM reference_syncs
                 WHERE next_at <= $1 ORDER BY next_at LIMIT $2",
            )
            .bind(self.now().as_micros())
            .bind(limit)
            .fetch_all(pool)
        })?;
        rows.into_iter().map(DueSync::try_from).collect()
    }

    /// Takes a type that is due, so that no other server fetches it before `until`. False when another was first.
    pub async fn claim_reference(&self, due: &DueSync, until: Option<Timestamp>) -> Result<bool, Unavailable> {
        let mut tx = self.db.begin().await?;
        let taken = execute!(
            tx,
            sqlx::query(
                "UPDATE reference_syncs SET next_at = $1
                 WHERE realm_id = $2 AND provider = $3 AND data_type = $4 AND next_at = $5",
            )
            .bind(until.map(Timestamp::as_micros))
            .bind(due.realm.to_string())
            .bind(due.provider.key())
            .bind(&due.data_type)
            .bind(due.next_at)
        )?;
        tx.commit_unannounced().await?;
        Ok(taken == 1)
    }
}

impl TryFrom<DueRow> for DueSync {
    type Error = Unavailable;

    fn try_from(row: DueRow) -> Result<Self, Unavailable> {
        Ok(Self {
            realm: row.realm_id.parse().map_err(Unavailable::unreadable)?,
            provider: row.provider.parse().map_err(Unavailable::unreadable)?,
            data_type: row.data_type,
            principal: row.principal_id.parse().map_err(Unavailable::unreadable)?,
            next_at: row.next_at,
        })
    }
}
