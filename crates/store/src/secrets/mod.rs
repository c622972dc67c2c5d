//! Secrets at rest: sealed, named, owned by a user, a realm or an org. Who may use one is decided elsewhere.

mod rows;

use secrecy::SecretString;
use serde_json::json;
use toolwright_types::{
    DocumentId, OrgId, PrincipalId, RealmId, RealmScope, RefName, SecretId, Timestamp, json::canonical,
};

use crate::db::{Tx, Unavailable};
use crate::store::Store;

use rows::{IdentityRow, InfoRow, SealedRow, Slot};

/// The secrets that apply in one realm: its users', its own, and those of its org.
#[derive(Debug, Clone, Copy)]
pub struct Secrets<'a> {
    store: &'a Store,
    org: OrgId,
    realm: RealmId,
}

/// Who a secret belongs to. For one name, a user's comes before the realm's and that before the org's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SecretScope {
    /// One principal, in this realm only.
    User(PrincipalId),
    /// This realm.
    Realm,
    /// Every realm of the org.
    Org,
}

impl SecretScope {
    /// The scope as it is written on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            SecretScope::User(_) => "user",
            SecretScope::Realm => "realm",
            SecretScope::Org => "org",
        }
    }
}

/// Everything about a secret but its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretInfo {
    /// Its identity; a secret that is removed and put again has a new one.
    pub id: SecretId,
    /// Its name.
    pub name: RefName,
    /// Whose it is.
    pub scope: SecretScope,
    /// Counts the values it has had.
    pub revision: i64,
    /// When it got its present value.
    pub updated_at: Timestamp,
    /// From whom.
    pub updated_by: String,
}

/// One value of one secret, without the value: what a cached result may depend on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SecretIdentity {
    /// The secret.
    pub id: SecretId,
    /// Whose it is.
    pub scope: SecretScope,
    /// Which of its values.
    pub revision: i64,
}

/// Why a secret cannot be stored.
#[derive(Debug, thiserror::Error)]
pub enum PutError {
    /// The owner does not exist in this org.
    #[error("there is no such owner of a {} secret in this org", .0.as_str())]
    UnknownOwner(SecretScope),
    /// The value could not be sealed.
    #[error("seal secret `{0}`")]
    Seal(RefName),
    /// The database failed.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

/// Why a secret's value cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum UnsealError {
    /// It was removed or given a new value since it was looked up.
    #[error("secret `{0}` has changed since it was looked up; look it up again")]
    Changed(SecretId),
    /// It was sealed with another key.
    #[error(
        "secret `{name}` was sealed with key `{sealed_with}`, but this server has key `{have}`; start it with the key the secret was sealed with, or put the secret again"
    )]
    WrongKey {
        /// The secret's name.
        name: RefName,
        /// The id of the key that opens it.
        sealed_with: String,
        /// The id of the key at hand.
        have: String,
    },
    /// Its row was changed by something other than this store.
    #[error("secret `{0}` is damaged: its row was changed outside the server; put the secret again")]
    Tampered(RefName),
    /// The database failed.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

macro_rules! claim_unless {
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

impl<'a> Secrets<'a> {
    pub(crate) fn new(store: &'a Store, scope: &RealmScope) -> Self {
        Self { store, org: scope.org, realm: scope.realm }
    }

    /// Gives a secret a value: a new secret, or a new revision of the one that has the name.
    pub async fn put(
        &self,
        scope: SecretScope,
        name: &RefName,
        value: SecretString,
        by: &str,
    ) -> Result<SecretInfo, PutError> {
        let now = self.store.now();
        let mut tx = self.store.db.begin().await?;
        let slot = self.claim(&mut tx, scope, name).await?;
        let bound_to = self.bound_to(scope, name, slot.id, slot.revision);
        let sealed = self.store.seal.seal(&value, &bound_to).map_err(|_| PutError::Seal(name.clone()))?;
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

    /// What `principal` could use here: its own, the realm's and the org's, by name.
    pub async fn list(&self, principal: PrincipalId) -> Result<Vec<SecretInfo>, Unavailable> {
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

    /// Forgets a secret. False when there was none.
    pub async fn remove(&self, scope: SecretScope, name: &RefName) -> Result<bool, Unavailable> {
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

    /// Which secret a call of `principal` would use: its own, else the realm's, else the org's. Opens nothing.
    pub async fn lookup(&self, name: &RefName, principal: PrincipalId) -> Result<Option<SecretIdentity>, Unavailable> {
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

    /// Which secret everybody here shares by that name: the realm's, else the org's. For what a definition names on behalf of
    /// all who use it: nobody's own secret may lead it elsewhere. Opens nothing.
    pub async fn shared(&self, name: &RefName) -> Result<Option<SecretIdentity>, Unavailable> {
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

    /// The value that was looked up.
    pub async fn unseal(&self, identity: &SecretIdentity) -> Result<SecretString, UnsealError> {
        let row = self.sealed(identity).await?.ok_or(UnsealError::Changed(identity.id))?;
        let key = &self.store.seal;
        if row.key_id != key.id() {
            return Err(UnsealError::WrongKey { name: row.name, sealed_with: row.key_id, have: key.id().to_owned() });
        }
        let bound_to = self.bound_to(identity.scope, &row.name, identity.id, identity.revision);
        key.open(&row.sealed, &bound_to).map_err(|_| UnsealError::Tampered(row.name))
    }

    /// Claims the right to replace a value until a moment. False when it has changed, or when somebody else has that right.
    pub async fn claim_renewal(&self, identity: &SecretIdentity, until: Timestamp) -> Result<bool, Unavailable> {
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

    /// Gives that right back.
    pub async fn release_renewal(&self, identity: &SecretIdentity) -> Result<(), Unavailable> {
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

    /// Gives a secret its next value, and ends whatever right to do so there was. False, and nothing is done, when it has
    /// changed since it was looked up.
    pub async fn replace(&self, identity: &SecretIdentity, value: &SecretString) -> Result<bool, PutError> {
        let Some(SealedRow { name, .. }) = self.sealed(identity).await? else { return Ok(false) };
        let revision = identity.revision.saturating_add(1);
        let bound_to = self.bound_to(identity.scope, &name, identity.id, revision);
        let sealed = self.store.seal.seal(value, &bound_to).map_err(|_| PutError::Seal(name))?;
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

    /// The present value of a secret that was looked up, if it still exists, and whether somebody has the right to renew it.
    pub async fn latest(&self, identity: &SecretIdentity) -> Result<Option<(SecretIdentity, bool)>, Unavailable> {
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

    /// The row of a value that was looked up.
    async fn sealed(&self, identity: &SecretIdentity) -> Result<Option<SealedRow>, Unavailable> {
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

    /// The row for a new value, made or locked, with the value's number. The value itself comes afterwards: it
    /// is bound to the id and revision that are decided here.
    async fn claim(&self, tx: &mut Tx, scope: SecretScope, name: &RefName) -> Result<Slot, PutError> {
        let (realm, principal) = self.owner(scope);
        let statement = match scope {
            SecretScope::User(_) => {
                claim_unless!("(realm_id, principal_id, name_key) WHERE scope = 'user'")
            }
            SecretScope::Realm => claim_unless!("(realm_id, name_key) WHERE scope = 'realm'"),
            SecretScope::Org => claim_unless!("(org_id, name_key) WHERE scope = 'org'"),
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
        .map_err(|error| if error.is_dangling() { PutError::UnknownOwner(scope) } else { error.into() })
    }

    /// The owner columns of a scope.
    fn owner(&self, scope: SecretScope) -> (Option<String>, Option<String>) {
        match scope {
            SecretScope::User(principal) => (Some(self.realm.to_string()), Some(principal.to_string())),
            SecretScope::Realm => (Some(self.realm.to_string()), None),
            SecretScope::Org => (None, None),
        }
    }

    /// What a sealed value is tied to, so that it opens in its own row at its own revision and nowhere else.
    fn bound_to(&self, scope: SecretScope, name: &RefName, id: SecretId, revision: i64) -> String {
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
