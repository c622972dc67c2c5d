//! Reads and writes the shared parts of journal entries. A shared part is stored once per realm.

use std::collections::HashMap;

use toolwright_types::{RealmId, Timestamp};

use super::{PartHash, RealmRuns, StoredPart};
use crate::db::{StoreError, Tx};
use crate::sql::{Sql, statement_chunks, storable};

impl RealmRuns<'_> {
    /// Returns the contents of shared parts, by hash. Parts that are not stored are omitted.
    pub async fn shared_parts(&self, hashes: &[PartHash]) -> Result<HashMap<PartHash, String>, StoreError> {
        let mut found = HashMap::with_capacity(hashes.len());
        for hashes in statement_chunks(hashes, 1) {
            let mut sql = Sql::new("SELECT p.hash, p.body FROM shared_parts p WHERE p.realm_id = ");
            sql.text(self.realm.to_string()).push(" AND p.hash IN (VALUES ");
            sql.rows(hashes, |sql, hash| {
                sql.text(hash.as_str());
            });
            sql.push(")");
            let (text, values) = sql.into_parts();
            let rows: Vec<(String, String)> =
                read!(&self.store.db, |pool| bind_all!(sqlx::query_as(text), values).fetch_all(pool))?;
            found.extend(rows);
        }
        Ok(found)
    }
}

/// Inserts shared parts. If a part exists already, only updates the time of its last use.
pub(crate) async fn upsert(tx: &mut Tx, parts: &[(RealmId, &StoredPart)], now: Timestamp) -> Result<(), StoreError> {
    for parts in statement_chunks(parts, 4) {
        let mut sql =
            Sql::with_many_values(tx, "INSERT INTO shared_parts (realm_id, hash, body, last_used_at) VALUES ");
        sql.rows(parts, |sql, (realm, part)| {
            sql.text(*realm).push(", ").text(part.hash.as_str()).push(", ").text(storable(&part.body));
            sql.push(", ").integer(now.as_micros());
        });
        sql.push(" ON CONFLICT (realm_id, hash) DO UPDATE SET last_used_at = excluded.last_used_at");
        sql.execute(tx).await?;
    }
    Ok(())
}
