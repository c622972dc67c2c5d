//! Stores orgs, realms and principals. API keys are in module `keys`. The meaning of roles is defined by the
//! authorizer.

use toolwright_types::{
    DocumentId, OrgId, OrgName, Principal, PrincipalId, PrincipalName, RealmId, RealmName, RealmScope, Role, ScopeName,
};

use crate::db::StoreError;
use crate::store::Store;

/// The orgs, realms and principals of a database. Names are case-insensitive, so that two names cannot differ only in
/// case.
#[derive(Debug, Clone, Copy)]
pub struct Tenancy<'a> {
    pub(crate) store: &'a Store,
}

/// The reason why a realm or principal cannot be created or changed.
#[derive(Debug, thiserror::Error)]
pub enum EnsureError {
    /// The org does not exist.
    #[error("org `{0}` does not exist")]
    UnknownOrg(OrgId),
    /// The home realm of the principal belongs to another org.
    #[error("realm `{realm}` must belong to org `{org}`")]
    HomeOutsideOrg {
        /// The principal's org.
        org: OrgId,
        /// The realm of another org.
        realm: RealmId,
    },
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Store {
    /// Returns the orgs, realms, principals and API keys.
    pub fn tenancy(&self) -> Tenancy<'_> {
        Tenancy::new(self)
    }
}

impl<'a> Tenancy<'a> {
    fn new(store: &'a Store) -> Self {
        Self { store }
    }

    /// Returns the org with this name. Creates it if it does not exist.
    pub async fn ensure_org(&self, name: &OrgName) -> Result<OrgId, StoreError> {
        if let Some(found) = self.org(name).await? {
            return Ok(found);
        }
        let mut tx = self.store.db.begin().await?;
        execute!(
            tx,
            sqlx::query(
                "INSERT INTO orgs (id, name, name_key, created_at) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING",
            )
            .bind(OrgId::generate().to_string())
            .bind(name.as_str())
            .bind(key(name))
            .bind(self.store.now().as_micros())
        )?;
        let org: String = within!(tx, |conn| {
            sqlx::query_scalar("SELECT id FROM orgs WHERE name_key = $1").bind(key(name)).fetch_one(conn)
        })?;
        tx.commit().await?;
        org.parse().map_err(StoreError::unreadable)
    }

    /// Returns the name of an org.
    pub async fn org_name(&self, org: OrgId) -> Result<Option<OrgName>, StoreError> {
        let name: Option<String> = read!(&self.store.db, |pool| {
            sqlx::query_scalar("SELECT name FROM orgs WHERE id = $1").bind(org.to_string()).fetch_optional(pool)
        })?;
        name.map(|name| name.parse().map_err(StoreError::unreadable)).transpose()
    }

    /// Returns the realm with this name. Creates it if it does not exist.
    pub async fn ensure_realm(&self, org: OrgId, name: &RealmName) -> Result<RealmScope, EnsureError> {
        match self.realm(org, name).await? {
            Some(found) => Ok(found),
            None => self.create_realm(org, name).await.map(|(realm, _)| realm),
        }
    }

    /// Creates a realm if it does not exist. Returns the realm and whether this call created it.
    pub async fn create_realm(&self, org: OrgId, name: &RealmName) -> Result<(RealmScope, bool), EnsureError> {
        let mut tx = self.store.db.begin().await?;
        let made = execute!(
            tx,
            sqlx::query(
                "INSERT INTO realms (id, org_id, name, name_key, created_at) VALUES ($1, $2, $3, $4, $5)
                 ON CONFLICT DO NOTHING",
            )
            .bind(RealmId::generate().to_string())
            .bind(org.to_string())
            .bind(name.as_str())
            .bind(key(name))
            .bind(self.store.now().as_micros())
        )
        .map_err(|error| if error.is_foreign_key_violation() { EnsureError::UnknownOrg(org) } else { error.into() })?;
        let row: RealmRow = within!(tx, |conn| {
            sqlx::query_as("SELECT id, org_id, name FROM realms WHERE org_id = $1 AND name_key = $2")
                .bind(org.to_string())
                .bind(key(name))
                .fetch_one(conn)
        })?;
        tx.commit().await?;
        Ok((row.into(), made > 0))
    }

    /// Returns the realm with this name.
    pub async fn realm(&self, org: OrgId, name: &RealmName) -> Result<Option<RealmScope>, StoreError> {
        let row: Option<RealmRow> = read!(&self.store.db, |pool| {
            sqlx::query_as("SELECT id, org_id, name FROM realms WHERE org_id = $1 AND name_key = $2")
                .bind(org.to_string())
                .bind(key(name))
                .fetch_optional(pool)
        })?;
        Ok(row.map(RealmScope::from))
    }

    /// Returns the realm with this id.
    pub async fn realm_by_id(&self, realm: RealmId) -> Result<Option<RealmScope>, StoreError> {
        let row: Option<RealmRow> = read!(&self.store.db, |pool| {
            sqlx::query_as("SELECT id, org_id, name FROM realms WHERE id = $1")
                .bind(realm.to_string())
                .fetch_optional(pool)
        })?;
        Ok(row.map(RealmScope::from))
    }

    /// Returns all realms of an org, sorted by name.
    pub async fn realms(&self, org: OrgId) -> Result<Vec<RealmScope>, StoreError> {
        let rows: Vec<RealmRow> = read!(&self.store.db, |pool| {
            sqlx::query_as("SELECT id, org_id, name FROM realms WHERE org_id = $1 ORDER BY name_key")
                .bind(org.to_string())
                .fetch_all(pool)
        })?;
        Ok(rows.into_iter().map(RealmScope::from).collect())
    }

    /// Returns the principal with this name. Creates it with this home and these roles if it does not exist. An
    /// existing principal keeps its home and roles; see [`Tenancy::set_roles`].
    pub async fn ensure_principal(
        &self,
        org: OrgId,
        name: &PrincipalName,
        home: RealmId,
        roles: &[Role],
    ) -> Result<Principal, EnsureError> {
        if let Some(found) = self.principal(org, name).await? {
            return Ok(found);
        }
        let mut tx = self.store.db.begin().await?;
        execute!(
            tx,
            sqlx::query(
                "INSERT INTO principals (id, org_id, name, name_key, home_realm_id, roles, created_at)
                 VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT DO NOTHING",
            )
            .bind(PrincipalId::generate().to_string())
            .bind(org.to_string())
            .bind(name.as_str())
            .bind(key(name))
            .bind(home.to_string())
            .bind(roles_text(roles)?)
            .bind(self.store.now().as_micros())
        )
        .map_err(|error| {
            if error.is_foreign_key_violation() {
                EnsureError::HomeOutsideOrg { org, realm: home }
            } else {
                error.into()
            }
        })?;
        let row: PrincipalRow = within!(tx, |conn| {
            sqlx::query_as(
                "SELECT id, org_id, name, home_realm_id, roles FROM principals WHERE org_id = $1 AND name_key = $2",
            )
            .bind(org.to_string())
            .bind(key(name))
            .fetch_one(conn)
        })?;
        tx.commit().await?;
        Ok(row.try_into()?)
    }

    /// Returns the principal with this name.
    pub async fn principal(&self, org: OrgId, name: &PrincipalName) -> Result<Option<Principal>, StoreError> {
        let row: Option<PrincipalRow> = read!(&self.store.db, |pool| {
            sqlx::query_as(
                "SELECT id, org_id, name, home_realm_id, roles FROM principals WHERE org_id = $1 AND name_key = $2",
            )
            .bind(org.to_string())
            .bind(key(name))
            .fetch_optional(pool)
        })?;
        row.map(Principal::try_from).transpose()
    }

    /// Returns the principal with this id.
    pub async fn principal_by_id(&self, principal: PrincipalId) -> Result<Option<Principal>, StoreError> {
        let row: Option<PrincipalRow> = read!(&self.store.db, |pool| {
            sqlx::query_as("SELECT id, org_id, name, home_realm_id, roles FROM principals WHERE id = $1")
                .bind(principal.to_string())
                .fetch_optional(pool)
        })?;
        row.map(Principal::try_from).transpose()
    }

    /// Replaces the roles of a principal. Returns `None` if the principal does not exist.
    pub async fn set_roles(
        &self,
        org: OrgId,
        name: &PrincipalName,
        roles: &[Role],
    ) -> Result<Option<Principal>, StoreError> {
        let mut tx = self.store.db.begin().await?;
        let row: Option<PrincipalRow> = within!(tx, |conn| {
            sqlx::query_as(
                "UPDATE principals SET roles = $1 WHERE org_id = $2 AND name_key = $3
                 RETURNING id, org_id, name, home_realm_id, roles",
            )
            .bind(roles_text(roles)?)
            .bind(org.to_string())
            .bind(key(name))
            .fetch_optional(conn)
        })?;
        let Some(row) = row else { return Ok(None) };
        tx.commit().await?;
        row.try_into().map(Some)
    }

    async fn org(&self, name: &OrgName) -> Result<Option<OrgId>, StoreError> {
        let id: Option<String> = read!(&self.store.db, |pool| {
            sqlx::query_scalar("SELECT id FROM orgs WHERE name_key = $1").bind(key(name)).fetch_optional(pool)
        })?;
        id.map(|id| id.parse().map_err(StoreError::unreadable)).transpose()
    }
}

fn key(name: &ScopeName) -> String {
    name.as_str().to_ascii_lowercase()
}

fn roles_text(roles: &[Role]) -> Result<String, StoreError> {
    serde_json::to_string(roles).map_err(StoreError::unreadable)
}

#[derive(sqlx::FromRow)]
pub(crate) struct RealmRow {
    #[sqlx(try_from = "String")]
    id: RealmId,
    #[sqlx(try_from = "String")]
    org_id: OrgId,
    #[sqlx(try_from = "String")]
    name: RealmName,
}

impl From<RealmRow> for RealmScope {
    fn from(row: RealmRow) -> Self {
        Self { org: row.org_id, realm: row.id, name: row.name }
    }
}

#[derive(sqlx::FromRow)]
pub(crate) struct PrincipalRow {
    #[sqlx(try_from = "String")]
    id: PrincipalId,
    #[sqlx(try_from = "String")]
    org_id: OrgId,
    #[sqlx(try_from = "String")]
    name: PrincipalName,
    #[sqlx(try_from = "String")]
    home_realm_id: RealmId,
    roles: String,
}

impl TryFrom<PrincipalRow> for Principal {
    type Error = StoreError;

    fn try_from(row: PrincipalRow) -> Result<Self, StoreError> {
        let roles = serde_json::from_str(&row.roles).map_err(StoreError::unreadable)?;
        Ok(Self { id: row.id, name: row.name, org: row.org_id, home: row.home_realm_id, roles })
    }
}
