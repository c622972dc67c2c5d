//! Stores sealed (encrypted) secrets. A secret is owned by a user, a realm or an org. Authorization is not part of this
//! module.

mod rows;

use secrecy::SecretString;
use serde_json::json;
use toolwright_types::{
    DocumentId, OrgId, PrincipalId, RealmId, RealmScope, RefName, SecretId, Timestamp, json::canonical,
};

use crate::db::{StoreError, Tx};
use crate::store::Store;

use rows::{IdentityRow, InfoRow, SealedRow, SecretSlot};

/// The maximum number of secrets of one principal in a realm. Every principal may set secrets, so without a limit any
/// principal could fill the disk.
const MAX_USER_SECRETS: i64 = 100;

/// The secrets that can be used in one realm: secrets of its users, of the realm, and of the realm's org.
#[derive(Debug, Clone, Copy)]
pub struct RealmSecrets<'a> {
    store: &'a Store,
    org: OrgId,
    realm: RealmId,
}

/// The owner of a secret. If several owners have a secret with the same name, the user's secret is used before the
/// realm's, and the realm's before the org's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SecretScope {
    /// One principal. The secret can be used in this realm only.
    User(PrincipalId),
    /// This realm.
    Realm,
    /// All realms of the org.
    Org,
}

impl SecretScope {
    /// The name of the scope in the database and in the REST API.
    pub fn as_str(self) -> &'static str {
        match self {
            SecretScope::User(_) => "user",
            SecretScope::Realm => "realm",
            SecretScope::Org => "org",
        }
    }
}

/// The metadata of a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretInfo {
    /// The id. A secret that is deleted and created again has a new id.
    pub id: SecretId,
    /// The name.
    pub name: RefName,
    /// The owner.
    pub scope: SecretScope,
    /// The number of times the value was set.
    pub revision: i64,
    /// The time of the last change of the value.
    pub updated_at: Timestamp,
    /// The user who changed the value.
    pub updated_by: String,
}

/// Identifies one value of a secret without containing the value. Used in cache keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SecretIdentity {
    /// The secret.
    pub id: SecretId,
    /// The owner.
    pub scope: SecretScope,
    /// The revision of the value.
    pub revision: i64,
}

/// The reason why a secret cannot be stored.
#[derive(Debug, thiserror::Error)]
pub enum PutError {
    /// The owner does not exist in this org.
    #[error("the owner of the {} secret does not exist in this org", .0.as_str())]
    UnknownOwner(SecretScope),
    /// The principal has the maximum number of secrets in this realm.
    #[error("a principal can have at most {0} secrets of its own in a realm")]
    TooMany(i64),
    /// The value could not be sealed.
    #[error("seal secret `{0}`")]
    Seal(RefName),
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The reason why a secret cannot be unsealed.
#[derive(Debug, thiserror::Error)]
pub enum UnsealError {
    /// The secret was deleted or changed after the lookup.
    #[error("secret `{0}` has changed since it was looked up; look it up again")]
    Changed(SecretId),
    /// The secret was sealed with another key.
    #[error(
        "secret `{name}` was sealed with key `{sealed_with}`, but this server has key `{have}`; start it with that key, or set the secret again"
    )]
    WrongKey {
        /// The secret's name.
        name: RefName,
        /// The id of the key that sealed the secret.
        sealed_with: String,
        /// The id of this server's key.
        have: String,
    },
    /// The row cannot be decrypted. It was modified outside this crate.
    #[error("secret `{0}` is damaged: its row was changed outside the server; set the secret again")]
    Tampered(RefName),
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

macro_rules! upsert_secret {
    ($taken:literal) => {
        concat!(
            "INSERT INTO secrets (id, org_id, scope, realm_id, principal_id, name, name_key, revision, key_id, sealed,
                                  updated_by, updated_at)
             VALUES ($1, $2, $3, $4, $5, $6, $7, 1, '', $8, '', 0)
             ON CONFLICT ",
            $taken,
            " DO UPDATE SET revision = secrets.revision + 1 RETURNING id, revision"
        )
    };
}

impl Store {
    /// Returns the secrets that apply in one realm.
    pub fn secrets(&self, scope: &RealmScope) -> RealmSecrets<'_> {
        RealmSecrets::new(self, scope)
    }

    /// Counts the secrets, in all realms, that were sealed with another seal key. This server cannot open these
    /// secrets.
    pub async fn secrets_of_other_keys(&self) -> Result<i64, StoreError> {
        read!(&self.db, |pool| {
            sqlx::query_scalar("SELECT COUNT(*) FROM secrets WHERE key_id <> $1").bind(self.seal.id()).fetch_one(pool)
        })
    }
}

impl<'a> RealmSecrets<'a> {
    fn new(store: &'a Store, scope: &RealmScope) -> Self {
        Self { store, org: scope.org, realm: scope.realm }
    }

    /// Sets the value of a secret: creates the secret, or writes a new revision.
    pub async fn put(
        &self,
        scope: SecretScope,
        name: &RefName,
        value: SecretString,
        by: &str,
    ) -> Result<SecretInfo, PutError> {
        let now = self.store.now();
        let mut tx = self.store.db.begin().await?;
        let slot = self.claim_slot(&mut tx, scope, name).await?;
        if let SecretScope::User(owner) = scope
            && slot.revision == 1
        {
            self.check_count(&mut tx, owner).await?;
        }
        let associated_data = self.associated_data(scope, name, slot.id, slot.revision);
        let sealed = self.store.seal.seal(&value, &associated_data).map_err(|_| PutError::Seal(name.clone()))?;
        execute!(
            tx,
            sqlx::query(
                "UPDATE secrets SET name = $1, key_id = $2, sealed = $3, updated_by = $4, updated_at = $5,
                        claimed_until = NULL
                 WHERE id = $6",
            )
            .bind(name.as_str())
            .bind(self.store.seal.id())
            .bind(sealed.as_slice())
            .bind(by)
            .bind(now.as_micros())
            .bind(slot.id.to_string())
        )?;
        tx.commit().await?;
        Ok(SecretInfo {
            id: slot.id,
            name: name.clone(),
            scope,
            revision: slot.revision,
            updated_at: now,
            updated_by: by.to_owned(),
        })
    }

    /// Checks the number of a principal's secrets after a new one was inserted.
    async fn check_count(&self, tx: &mut Tx, owner: PrincipalId) -> Result<(), PutError> {
        let count: i64 = within!(*tx, |conn| {
            sqlx::query_scalar(
                "SELECT count(*) FROM secrets WHERE org_id = $1 AND scope = 'user' AND realm_id = $2 AND principal_id = $3",
            )
            .bind(self.org.to_string())
            .bind(self.realm.to_string())
            .bind(owner.to_string())
            .fetch_one(conn)
        })?;
        if count > MAX_USER_SECRETS { Err(PutError::TooMany(MAX_USER_SECRETS)) } else { Ok(()) }
    }

    /// Returns the secrets that `principal` can use in this realm, sorted by name.
    pub async fn list(&self, principal: PrincipalId) -> Result<Vec<SecretInfo>, StoreError> {
        let rows: Vec<InfoRow> = read!(&self.store.db, |pool| {
            sqlx::query_as(
                "SELECT id, name, scope, principal_id, revision, updated_by, updated_at FROM secrets
                 WHERE org_id = $1 AND (scope = 'org' OR (scope = 'realm' AND realm_id = $2)
                       OR (scope = 'user' AND realm_id = $2 AND principal_id = $3))
                 ORDER BY name_key, CASE scope WHEN 'user' THEN 0 WHEN 'realm' THEN 1 ELSE 2 END",
            )
            .bind(self.org.to_string())
            .bind(self.realm.to_string())
            .bind(principal.to_string())
            .fetch_all(pool)
        })?;
        rows.into_iter().map(SecretInfo::try_from).collect()
    }

    /// Deletes a secret. Returns `false` if it does not exist.
    pub async fn remove(&self, scope: SecretScope, name: &RefName) -> Result<bool, StoreError> {
        let mut tx = self.store.db.begin().await?;
        let (realm, principal) = self.owner(scope);
        let removed = execute!(
            tx,
            sqlx::query(
                "DELETE FROM secrets WHERE org_id = $1 AND scope = $2 AND name_key = $3
                 AND (realm_id = $4 OR scope = 'org') AND (principal_id = $5 OR scope <> 'user')",
            )
            .bind(self.org.to_string())
            .bind(scope.as_str())
            .bind(name.key())
            .bind(realm)
            .bind(principal)
        )?;
        if removed == 0 {
            return Ok(false);
        }
        tx.commit().await?;
        Ok(true)
    }

    /// Returns the identity of the secret that a call of `principal` uses: the principal's secret, else the realm's,
    /// else the org's. Does not unseal the secret.
    pub async fn lookup(&self, name: &RefName, principal: PrincipalId) -> Result<Option<SecretIdentity>, StoreError> {
        let row: Option<IdentityRow> = read!(&self.store.db, |pool| {
            sqlx::query_as(
                "SELECT id, scope, principal_id, revision FROM secrets
                 WHERE org_id = $1 AND name_key = $4 AND (scope = 'org' OR (scope = 'realm' AND realm_id = $2)
                       OR (scope = 'user' AND realm_id = $2 AND principal_id = $3))
                 ORDER BY CASE scope WHEN 'user' THEN 0 WHEN 'realm' THEN 1 ELSE 2 END LIMIT 1",
            )
            .bind(self.org.to_string())
            .bind(self.realm.to_string())
            .bind(principal.to_string())
            .bind(name.key())
            .fetch_optional(pool)
        })?;
        row.map(SecretIdentity::try_from).transpose()
    }

    /// Returns the identity of the realm's or the org's secret with this name. Used for secrets that a definition names
    /// for all users. A user's personal secret is ignored, because it could redirect the definition to another system.
    /// Does not unseal the secret.
    pub async fn shared(&self, name: &RefName) -> Result<Option<SecretIdentity>, StoreError> {
        let row: Option<IdentityRow> = read!(&self.store.db, |pool| {
            sqlx::query_as(
                "SELECT id, scope, principal_id, revision FROM secrets
                 WHERE org_id = $1 AND name_key = $3 AND (scope = 'org' OR (scope = 'realm' AND realm_id = $2))
                 ORDER BY CASE scope WHEN 'realm' THEN 0 ELSE 1 END LIMIT 1",
            )
            .bind(self.org.to_string())
            .bind(self.realm.to_string())
            .bind(name.key())
            .fetch_optional(pool)
        })?;
        row.map(SecretIdentity::try_from).transpose()
    }

    /// Decrypts the value with this identity.
    pub async fn unseal(&self, identity: &SecretIdentity) -> Result<SecretString, UnsealError> {
        let row = self.sealed(identity).await?.ok_or(UnsealError::Changed(identity.id))?;
        let key = &self.store.seal;
        if row.key_id != key.id() {
            return Err(UnsealError::WrongKey { name: row.name, sealed_with: row.key_id, have: key.id().to_owned() });
        }
        let associated_data = self.associated_data(identity.scope, &row.name, identity.id, identity.revision);
        key.open(&row.sealed, &associated_data).map_err(|_| UnsealError::Tampered(row.name))
    }

    /// Claims the right to renew a value. The claim expires at `until`. Returns `false` if the value has changed or
    /// another claim is valid.
    pub async fn claim_renewal(&self, identity: &SecretIdentity, until: Timestamp) -> Result<bool, StoreError> {
        let mut tx = self.store.db.begin().await?;
        let claimed = execute!(
            tx,
            sqlx::query(
                "UPDATE secrets SET claimed_until = $1
                 WHERE id = $2 AND revision = $3 AND org_id = $4 AND (claimed_until IS NULL OR claimed_until < $5)",
            )
            .bind(until.as_micros())
            .bind(identity.id.to_string())
            .bind(identity.revision)
            .bind(self.org.to_string())
            .bind(self.store.now().as_micros())
        )?;
        tx.commit().await?;
        Ok(claimed > 0)
    }

    /// Releases a claim to renew a value.
    pub async fn release_renewal(&self, identity: &SecretIdentity) -> Result<(), StoreError> {
        let mut tx = self.store.db.begin().await?;
        execute!(
            tx,
            sqlx::query("UPDATE secrets SET claimed_until = NULL WHERE id = $1 AND revision = $2 AND org_id = $3")
                .bind(identity.id.to_string())
                .bind(identity.revision)
                .bind(self.org.to_string())
        )?;
        tx.commit().await
    }

    /// Writes the next value of a secret and releases the claim. Returns `false` and changes nothing if the secret has
    /// changed since the lookup.
    pub async fn replace(&self, identity: &SecretIdentity, value: &SecretString) -> Result<bool, PutError> {
        let Some(SealedRow { name, .. }) = self.sealed(identity).await? else { return Ok(false) };
        let revision = identity.revision.saturating_add(1);
        let associated_data = self.associated_data(identity.scope, &name, identity.id, revision);
        let sealed = self.store.seal.seal(value, &associated_data).map_err(|_| PutError::Seal(name))?;
        let mut tx = self.store.db.begin().await?;
        let replaced = execute!(
            tx,
            sqlx::query(
                "UPDATE secrets SET revision = $1, key_id = $2, sealed = $3, updated_at = $4, claimed_until = NULL
                 WHERE id = $5 AND revision = $6 AND org_id = $7",
            )
            .bind(revision)
            .bind(self.store.seal.id())
            .bind(sealed.as_slice())
            .bind(self.store.now().as_micros())
            .bind(identity.id.to_string())
            .bind(identity.revision)
            .bind(self.org.to_string())
        )?;
        tx.commit().await?;
        Ok(replaced > 0)
    }

    /// Returns the current identity of a secret that was looked up earlier, and whether its renewal is claimed. `None`
    /// if the secret was deleted.
    pub async fn latest(&self, identity: &SecretIdentity) -> Result<Option<(SecretIdentity, bool)>, StoreError> {
        let row: Option<(i64, Option<i64>)> = read!(&self.store.db, |pool| {
            sqlx::query_as("SELECT revision, claimed_until FROM secrets WHERE id = $1 AND org_id = $2")
                .bind(identity.id.to_string())
                .bind(self.org.to_string())
                .fetch_optional(pool)
        })?;
        let now = self.store.now().as_micros();
        Ok(row.map(|(revision, claimed_until)| {
            (SecretIdentity { revision, ..*identity }, claimed_until.is_some_and(|until| now <= until))
        }))
    }

    /// Returns the row of the value with this identity.
    async fn sealed(&self, identity: &SecretIdentity) -> Result<Option<SealedRow>, StoreError> {
        let (realm, principal) = self.owner(identity.scope);
        read!(&self.store.db, |pool| {
            sqlx::query_as(
                "SELECT name, key_id, sealed FROM secrets
                 WHERE id = $1 AND revision = $2 AND org_id = $3 AND scope = $4
                       AND (realm_id = $5 OR scope = 'org') AND (principal_id = $6 OR scope <> 'user')",
            )
            .bind(identity.id.to_string())
            .bind(identity.revision)
            .bind(self.org.to_string())
            .bind(identity.scope.as_str())
            .bind(realm)
            .bind(principal)
            .fetch_optional(pool)
        })
    }

    /// Inserts or locks the row for a new value. Returns the id of the secret and the revision of the value. The caller
    /// seals the value afterwards, because the associated data contains the id and the revision.
    async fn claim_slot(&self, tx: &mut Tx, scope: SecretScope, name: &RefName) -> Result<SecretSlot, PutError> {
        let (realm, principal) = self.owner(scope);
        let statement = match scope {
            SecretScope::User(_) => {
                upsert_secret!("(realm_id, principal_id, name_key) WHERE scope = 'user'")
            }
            SecretScope::Realm => upsert_secret!("(realm_id, name_key) WHERE scope = 'realm'"),
            SecretScope::Org => upsert_secret!("(org_id, name_key) WHERE scope = 'org'"),
        };
        within!(*tx, |conn| {
            sqlx::query_as(statement)
                .bind(SecretId::generate().to_string())
                .bind(self.org.to_string())
                .bind(scope.as_str())
                .bind(realm.as_deref())
                .bind(principal.as_deref())
                .bind(name.as_str())
                .bind(name.key())
                .bind(b"".as_slice())
                .fetch_one(conn)
        })
        .map_err(|error| if error.is_foreign_key_violation() { PutError::UnknownOwner(scope) } else { error.into() })
    }

    /// The values of the columns `realm_id` and `principal_id` for a scope.
    fn owner(&self, scope: SecretScope) -> (Option<String>, Option<String>) {
        match scope {
            SecretScope::User(principal) => (Some(self.realm.to_string()), Some(principal.to_string())),
            SecretScope::Realm => (Some(self.realm.to_string()), None),
            SecretScope::Org => (None, None),
        }
    }

    /// The associated data of a sealed value. It names the row and the revision, so that a value copied to another row
    /// cannot be unsealed.
    fn associated_data(&self, scope: SecretScope, name: &RefName, id: SecretId, revision: i64) -> String {
        let (realm, principal) = self.owner(scope);
        canonical(&json!([
            "toolwright secret 1",
            self.org.to_string(),
            realm,
            principal,
            name.as_str(),
            id.to_string(),
            revision
        ]))
    }
}
