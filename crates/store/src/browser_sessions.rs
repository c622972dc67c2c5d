//! Stores the hashes of browser sessions. The caller generates and hashes the cookies; the cookies themselves are not
//! stored.

use toolwright_types::{KeyId, Principal, Timestamp};

use crate::db::StoreError;
use crate::tenancy::{PrincipalRow, Tenancy};

/// The maximum number of sessions of one key. A further login deletes the oldest session.
const MAX_SESSIONS_PER_KEY: i64 = 100;

/// A browser session to store.
#[derive(Debug, Clone, Copy)]
pub struct NewBrowserSession {
    /// A hash of the cookie.
    pub hash: [u8; 32],
    /// The key of the login. `None` for a key that is not in the database.
    pub key: Option<KeyId>,
    /// The time at which the session ends.
    pub expires_at: Timestamp,
}

impl Tenancy<'_> {
    /// Stores a session. Deletes expired sessions, and the oldest sessions of a key that has too many.
    pub async fn create_browser_session(&self, new: NewBrowserSession) -> Result<(), StoreError> {
        let now = self.store.now().as_micros();
        let key = new.key.map(|key| key.to_string());
        let mut tx = self.store.db.begin().await?;
        execute!(tx, sqlx::query("DELETE FROM browser_sessions WHERE expires_at <= $1").bind(now))?;
        execute!(
            tx,
            sqlx::query(
                "DELETE FROM browser_sessions WHERE hash IN (
                     SELECT hash FROM browser_sessions
                     WHERE key_id = $1 OR (key_id IS NULL AND CAST($1 AS TEXT) IS NULL)
                     ORDER BY created_at DESC LIMIT 1000000 OFFSET $2)",
            )
            .bind(key.as_deref())
            .bind(MAX_SESSIONS_PER_KEY - 1)
        )?;
        execute!(
            tx,
            sqlx::query("INSERT INTO browser_sessions (hash, key_id, created_at, expires_at) VALUES ($1, $2, $3, $4)")
                .bind(new.hash.as_slice())
                .bind(key.as_deref())
                .bind(now)
                .bind(new.expires_at.as_micros())
        )?;
        tx.commit().await
    }

    /// Returns the end of the session with this hash and the principal of its key, unless the session has ended or the
    /// key is revoked or expired.
    pub async fn find_browser_session(&self, hash: &[u8; 32]) -> Result<Option<(Timestamp, Principal)>, StoreError> {
        let row: Option<FoundSessionRow> = read!(&self.store.db, |pool| {
            sqlx::query_as(
                "SELECT s.expires_at AS session_expires_at, p.id, p.org_id, p.name, p.home_realm_id, p.roles
                 FROM browser_sessions s
                 JOIN api_keys k ON k.id = s.key_id
                 JOIN principals p ON p.id = k.principal_id
                 WHERE s.hash = $1 AND s.expires_at > $2
                   AND k.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > $2)",
            )
            .bind(hash.as_slice())
            .bind(self.store.now().as_micros())
            .fetch_optional(pool)
        })?;
        row.map(|row| Ok((Timestamp::from_micros(row.session_expires_at), row.principal.try_into()?))).transpose()
    }

    /// Returns the end of the session with this hash whose key is not in the database, unless the session has ended.
    pub async fn find_keyless_browser_session(&self, hash: &[u8; 32]) -> Result<Option<Timestamp>, StoreError> {
        let expires_at: Option<i64> = read!(&self.store.db, |pool| {
            sqlx::query_scalar(
                "SELECT expires_at FROM browser_sessions WHERE hash = $1 AND key_id IS NULL AND expires_at > $2",
            )
            .bind(hash.as_slice())
            .bind(self.store.now().as_micros())
            .fetch_optional(pool)
        })?;
        Ok(expires_at.map(Timestamp::from_micros))
    }

    /// Deletes a session. Does nothing if it does not exist.
    pub async fn delete_browser_session(&self, hash: &[u8; 32]) -> Result<(), StoreError> {
        let mut tx = self.store.db.begin().await?;
        execute!(tx, sqlx::query("DELETE FROM browser_sessions WHERE hash = $1").bind(hash.as_slice()))?;
        tx.commit().await
    }
}

#[derive(sqlx::FromRow)]
struct FoundSessionRow {
    session_expires_at: i64,
    #[sqlx(flatten)]
    principal: PrincipalRow,
}
