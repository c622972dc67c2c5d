//! Stores the hashes of API keys. The caller generates and hashes the keys; the keys themselves are not stored.

use toolwright_types::{DocumentId, KeyId, OrgId, Principal, PrincipalId, PrincipalName, Timestamp};

use crate::db::StoreError;
use crate::tenancy::{PrincipalRow, Tenancy};

/// A key to store.
#[derive(Debug, Clone)]
pub struct NewApiKey {
    /// The owner.
    pub principal: PrincipalId,
    /// The purpose, as described by the owner.
    pub label: String,
    /// SHA-256 of the key.
    pub hash: [u8; 32],
    /// The time at which the key expires. `None` for a key that does not expire.
    pub expires_at: Option<Timestamp>,
}

/// The stored data about a key. It does not contain the key itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiKey {
    /// The id.
    pub id: KeyId,
    /// The owner.
    pub principal: PrincipalId,
    /// The purpose, as described by the owner.
    pub label: String,
    /// The principal that created the key.
    pub created_by: String,
    /// The time at which the key was created.
    pub created_at: Timestamp,
    /// The time at which the key expires.
    pub expires_at: Option<Timestamp>,
    /// The time at which the key was revoked.
    pub revoked_at: Option<Timestamp>,
}

/// The reason why a key cannot be stored.
#[derive(Debug, thiserror::Error)]
pub enum CreateKeyError {
    /// The principal does not exist.
    #[error("principal `{0}` does not exist")]
    UnknownPrincipal(PrincipalId),
    /// The same key is stored already.
    #[error("the key is already stored")]
    Duplicate,
    /// The label contains U+0000, which Postgres cannot store.
    #[error("label must not contain the character U+0000")]
    Label,
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Tenancy<'_> {
    /// Stores a key.
    pub async fn create_key(&self, new: NewApiKey, by: &str) -> Result<ApiKey, CreateKeyError> {
        if new.label.contains('\0') {
            return Err(CreateKeyError::Label);
        }
        let key = ApiKey {
            id: KeyId::generate(),
            principal: new.principal,
            label: new.label,
            created_by: by.to_owned(),
            created_at: self.store.now(),
            expires_at: new.expires_at,
            revoked_at: None,
        };
        let mut tx = self.store.db.begin().await?;
        execute!(
            tx,
            sqlx::query(
                "INSERT INTO api_keys (id, principal_id, label, hash, created_by, created_at, expires_at)
                 VALUES ($1, $2, $3, $4, $5, $6, $7)",
            )
            .bind(key.id.to_string())
            .bind(key.principal.to_string())
            .bind(key.label.as_str())
            .bind(new.hash.as_slice())
            .bind(by)
            .bind(key.created_at.as_micros())
            .bind(key.expires_at.map(Timestamp::as_micros))
        )
        .map_err(|error| match error {
            error if error.is_foreign_key_violation() => CreateKeyError::UnknownPrincipal(new.principal),
            error if error.is_unique_violation() => CreateKeyError::Duplicate,
            error => error.into(),
        })?;
        tx.commit().await?;
        Ok(key)
    }

    /// Returns the key with this hash and its owner, unless the key is revoked or expired.
    pub async fn find_key(&self, hash: &[u8; 32]) -> Result<Option<(ApiKey, Principal)>, StoreError> {
        let row: Option<FoundKeyRow> = read!(&self.store.db, |pool| {
            sqlx::query_as(
                "SELECT k.id AS key_id, k.principal_id, k.label, k.created_by, k.created_at, k.expires_at,
                        k.revoked_at, p.id, p.org_id, p.name, p.home_realm_id, p.roles
                 FROM api_keys k JOIN principals p ON p.id = k.principal_id
                 WHERE k.hash = $1 AND k.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > $2)",
            )
            .bind(hash.as_slice())
            .bind(self.store.now().as_micros())
            .fetch_optional(pool)
        })?;
        row.map(|row| Ok((row.key.into(), row.principal.try_into()?))).transpose()
    }

    /// Returns all keys of an org with the names of their owners, oldest first, including revoked and expired keys.
    pub async fn keys(&self, org: OrgId) -> Result<Vec<(ApiKey, PrincipalName)>, StoreError> {
        let rows: Vec<OwnedKeyRow> = read!(&self.store.db, |pool| {
            sqlx::query_as(
                "SELECT k.id AS key_id, k.principal_id, k.label, k.created_by, k.created_at, k.expires_at,
                        k.revoked_at, p.name
                 FROM api_keys k JOIN principals p ON p.id = k.principal_id
                 WHERE p.org_id = $1 ORDER BY k.created_at, k.id",
            )
            .bind(org.to_string())
            .fetch_all(pool)
        })?;
        Ok(rows.into_iter().map(|row| (row.key.into(), row.name)).collect())
    }

    /// Revokes a key permanently. Returns `false` if the org has no such key or the key is already revoked.
    pub async fn revoke_key(&self, org: OrgId, key: KeyId) -> Result<bool, StoreError> {
        let mut tx = self.store.db.begin().await?;
        let revoked = execute!(
            tx,
            sqlx::query(
                "UPDATE api_keys SET revoked_at = $1 WHERE id = $2 AND revoked_at IS NULL
                 AND principal_id IN (SELECT id FROM principals WHERE org_id = $3)",
            )
            .bind(self.store.now().as_micros())
            .bind(key.to_string())
            .bind(org.to_string())
        )?;
        if revoked == 0 {
            return Ok(false);
        }
        tx.commit().await?;
        Ok(true)
    }
}

#[derive(sqlx::FromRow)]
struct KeyRow {
    #[sqlx(try_from = "String")]
    key_id: KeyId,
    #[sqlx(try_from = "String")]
    principal_id: PrincipalId,
    label: String,
    created_by: String,
    created_at: i64,
    expires_at: Option<i64>,
    revoked_at: Option<i64>,
}

#[derive(sqlx::FromRow)]
struct OwnedKeyRow {
    #[sqlx(flatten)]
    key: KeyRow,
    #[sqlx(try_from = "String")]
    name: PrincipalName,
}

#[derive(sqlx::FromRow)]
struct FoundKeyRow {
    #[sqlx(flatten)]
    key: KeyRow,
    #[sqlx(flatten)]
    principal: PrincipalRow,
}

impl From<KeyRow> for ApiKey {
    fn from(row: KeyRow) -> Self {
        Self {
            id: row.key_id,
            principal: row.principal_id,
            label: row.label,
            created_by: row.created_by,
            created_at: Timestamp::from_micros(row.created_at),
            expires_at: row.expires_at.map(Timestamp::from_micros),
            revoked_at: row.revoked_at.map(Timestamp::from_micros),
        }
    }
}
