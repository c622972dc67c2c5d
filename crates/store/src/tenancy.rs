//! Orgs, realms and principals. Keys are next door; what a role allows is decided elsewhere.

use toolwright_types::{
    DocumentId, OrgId, OrgName, Principal, PrincipalId, PrincipalName, RealmId, RealmName, RealmScope, Role, ScopeName,
};

use crate::db::Unavailable;
use crate::store::Store;

/// Who there is. Names are compared without regard to case, so that no two look alike.
#[derive(Debug, Clone, Copy)]
pub struct Tenancy<'a> {
    pub(crate) store: &'a Store,
}

/// Why a realm or principal cannot be made or changed.
#[derive(Debug, thiserror::Error)]
pub enum EnsureError {
    /// There is no such org.
    #[error("org `{0}` does not exist")]
    UnknownOrg(OrgId),
    /// A principal's home is a realm of its own org.
    #[error("realm `{realm}` is not a realm of org `{org}`")]
    HomeOutsideOrg {
        /// The principal's org.
        org: OrgId,
        /// The realm that is not its.
        realm: RealmId,
    },
    /// The database failed.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

impl<'a> Tenancy<'a> {
    pub(crate) fn new(store: &'a Store) -> Self {
        Self { store }
    }

    /// The org of that name, made if there is none.
    pub async fn ensure_org(&self, name: &OrgName) -> Result<OrgId, Unavailable> {
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
        org.parse().map_err(Unavailable::unreadable)
    }

    /// What an org is called.
    pub async fn org_name(&self, org: OrgId) -> Result<Option<OrgName>, Unavailable> {
        let name: Option<String> = read!(&self.store.db, |pool| {
            sqlx::query_scalar("SELECT name FROM orgs WHERE id = $1").bind(org.to_string()).fetch_optional(pool)
        })?;
        name.map(|name| name.parse().map_err(Unavailable::unreadable)).transpose()
    }

    /// The realm of that name, made if there is none.
    pub async fn ensure_realm(&self, org: OrgId, name: &RealmName) -> Result<RealmScope, EnsureError> {
        match self.realm(org, name).await? {
            Some(found) => Ok(found),
            None => self.create_realm(org, name).await.map(|(realm, _)| realm),
        }
    }

    /// The realm of that name, and whether this call made it.
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
        .map_err(|error| if error.is_dangling() { EnsureError::UnknownOrg(org) } else { error.into() })?;
        let row: RealmRow = within!(tx, |conn| {
            sqlx::query_as("SELECT id, org_id, name FROM realms WHERE org_id = $1 AND name_key = $2")
                .bind(org.to_string())
                .bind(key(name))
                .fetch_one(conn)
        })?;
        tx.commit().await?;
        Ok((row.into(), made > 0))
    }

    /// The realm of that name.
    pub async fn realm(&self, org: OrgId, name: &RealmName) -> Result<Option<RealmScope>, Unavailable> {
        let row: Option<RealmRow> = read!(&self.store.db, |pool| {
            sqlx::query_as("SELECT id, org_id, name FROM realms WHERE org_id = $1 AND name_key = $2")
                .bind(org.to_string())
                .bind(key(name))
                .fetch_optional(pool)
        })?;
        Ok(row.map(RealmScope::from))
    }

    /// The realm with that id.
    pub async fn realm_by_id(&self, realm: RealmId) -> Result<Option<RealmScope>, Unavailable> {
        let row: Option<RealmRow> = read!(&self.store.db, |pool| {
            sqlx::query_as("SELECT id, org_id, name FROM realms WHERE id = $1")
                .bind(realm.to_string())
                .fetch_optional(pool)
        })?;
        Ok(row.map(RealmScope::from))
    }

    /// Every realm of an org, by name.
    pub async fn realms(&self, org: OrgId) -> Result<Vec<RealmScope>, Unavailable> {
        let rows: Vec<RealmRow> = read!(&self.store.db, |pool| {
            sqlx::query_as("SELECT id, org_id, name FROM realms WHERE org_id = $1 ORDER BY name_key")
                .bind(org.to_string())
                .fetch_all(pool)
        })?;
        Ok(rows.into_iter().map(RealmScope::from).collect())
    }

    /// The principal of that name, made with this home and these roles if there is none. One that exists keeps
    /// its own: see [`Tenancy::set_roles`].
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
            if error.is_dangling() { EnsureError::HomeOutsideOrg { org, realm: home } } else { error.into() }
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

    /// The principal of that name.
    pub async fn principal(&self, org: OrgId, name: &PrincipalName) -> Result<Option<Principal>, Unavailable> {
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

    /// The principal with that id.
    pub async fn principal_by_id(&self, principal: PrincipalId) -> Result<Option<Principal>, Unavailable> {
        let row: Option<PrincipalRow> = read!(&self.store.db, |pool| {
            sqlx::query_as("SELECT id, org_id, name, home_realm_id, roles FROM principals WHERE id = $1")
                .bind(principal.to_string())
                .fetch_optional(pool)
        })?;
        row.map(Principal::try_from).transpose()
    }

    /// Gives a principal other roles; nothing when there is no such principal.
    pub async fn set_roles(
        &self,
        org: OrgId,
        name: &PrincipalName,
        roles: &[Role],
    ) -> Result<Option<Principal>, Unavailable> {
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

    async fn org(&self, name: &OrgName) -> Result<Option<OrgId>, Unavailable> {
        let id: Option<String> = read!(&self.store.db, |pool| {
            sqlx::query_scalar("SELECT id FROM orgs WHERE name_key = $1").bind(key(name)).fetch_optional(pool)
        })?;
        id.map(|id| id.parse().map_err(Unavailable::unreadable)).transpose()
    }
}

fn key(name: &ScopeName) -> String {
    name.as_str().to_ascii_lowercase()
}

fn roles_text(roles: &[Role]) -> Result<String, Unavailable> {
    serde_json::to_string(roles).map_err(Unavailable::unreadable)
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
    type Error = Unavailable;

    fn try_from(row: PrincipalRow) -> Result<Self, Unavailable> {
        let roles = serde_json::from_str(&row.roles).map_err(Unavailable::unreadable)?;
        Ok(Self { id: row.id, name: row.name, org: row.org_id, home: row.home_realm_id, roles })
    }
}
