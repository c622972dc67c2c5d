//! What entries of many runs have in common, kept once for each realm.

use std::collections::HashMap;

use toolwright_types::{RealmId, Timestamp};

use super::{Part, PartHash, Runs};
use crate::db::{Tx, Unavailable};
use crate::sql::{Sql, in_statements, storable};

impl Runs<'_> {
    /// What parts say; those that are not there are left out.
    pub async fn parts(&self, hashes: &[PartHash]) -> Result<HashMap<PartHash, String>, Unavailable> {
        let mut found = HashMap::with_capacity(hashes.len());
        for hashes in in_statements(hashes, 1) {
            let mut sql = Sql::new("SELECT p.hash, p.body FROM parts p WHERE p.realm_id = ");
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

/// Keeps parts; those that are there already are kept for longer.
pub(crate) async fn keep(tx: &mut Tx, parts: &[(RealmId, &Part)], now: Timestamp) -> Result<(), Unavailable> {
    for parts in in_statements(parts, 4) {
        let mut sql = Sql::with_many_values(tx, "INSERT INTO parts (realm_id, hash, body, kept_at) VALUES ");
        sql.rows(parts, |sql, (realm, part)| {
            sql.text(*realm).push(", ").text(part.hash.as_str()).push(", ").text(storable(&part.body));
            sql.push(", ").integer(now.as_micros());
        });
        sql.push(" ON CONFLICT (realm_id, hash) DO UPDATE SET kept_at = excluded.kept_at");
        sql.execute(tx).await?;
    }
    Ok(())
}
