//! API keys, known by their hash alone. Making a key and hashing it is the business of whoever shows it.

use toolwright_types::{DocumentId, KeyId, OrgId, Principal, PrincipalId, PrincipalName, Timestamp};

use crate::db::Unavailable;
use crate::tenancy::{PrincipalRow, Tenancy};

/// A key to be recorded.
#[derive(Debug, Clone)]
pub struct NewKey {
    /// Whose it is.
    pub principal: PrincipalId,
    /// What it is for, in the owner's words.
    pub label: String,
    /// SHA-256 of the key.
    pub hash: [u8; 32],
    /// When it stops working; never, when absent.
    pub expires_at: Option<Timestamp>,
}

/// What is known about a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key {
    /// Its identity.
    pub id: KeyId,
    /// Whose it is.
    pub principal: PrincipalId,
    /// What it is for.
    pub label: String,
    /// Who made it.
    pub created_by: String,
    /// When.
    pub created_at: Timestamp,
    /// When it stops working.
    pub expires_at: Option<Timestamp>,
    /// When it was revoked.
    pub revoked_at: Option<Timestamp>,
}

/// Why a key cannot be recorded.
#[derive(Debug, thiserror::Error)]
pub enum CreateKeyError {
    /// There is no such principal.
    #[error("principal `{0}` does not exist")]
    UnknownPrincipal(PrincipalId),
    /// This very key is recorded already.
    #[error("the key is already recorded")]
    Duplicate,
    /// Postgres cannot store the character.
    #[error("a label must not contain the character U+0000")]
    Label,
    /// The database failed.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

impl Tenancy<'_> {
    /// Records a key.
    pub async fn create_key(&self, new: NewKey, by: &str) -> Result<Key, CreateKeyError> {
        if new.label.contains('\0') {
            return Err(CreateKeyError::Label);
        }
        let key = Key {
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
            error if error.is_dangling() => CreateKeyError::UnknownPrincipal(new.principal),
            error if error.is_duplicate() => CreateKeyError::Duplicate,
            error => error.into(),
        })?;
        tx.commit().await?;
        Ok(key)
    }

    /// The key with that hash and its owner, if it works now: neither revoked nor expired.
    pub async fn find_key(&self, hash: &[u8; 32]) -> Result<Option<(Key, Principal)>, Unavailable> {
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

    /// Every key of an org with its owner's name, oldest first; also those that are revoked or expired.
    pub async fn keys(&self, org: OrgId) -> Result<Vec<(Key, PrincipalName)>, Unavailable> {
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

    /// Stops a key from working, for good. False when the org has no such key, or it was revoked before.
    pub async fn revoke_key(&self, org: OrgId, key: KeyId) -> Result<bool, Unavailable> {
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

impl From<KeyRow> for Key {
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
