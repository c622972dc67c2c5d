//! Lists principals with a summary of their API keys.

use toolwright_types::{OrgId, Principal, PrincipalName, RealmName, Role, Timestamp};

use crate::db::StoreError;
use crate::page::{Page, push_limit};
use crate::sql::Sql;
use crate::tenancy::{PrincipalRow, Tenancy};

/// A principal with its home realm and a summary of its keys.
#[derive(Debug, Clone, PartialEq)]
pub struct PrincipalSummary {
    /// The principal.
    pub principal: Principal,
    /// The name of the home realm.
    pub home: RealmName,
    /// When the principal was created.
    pub created_at: Timestamp,
    /// The number of keys that are neither revoked nor expired.
    pub keys: i64,
    /// When the newest key was created, even if that key is revoked or expired.
    pub last_key_at: Option<Timestamp>,
}

/// A query for principals. Fields that are `None` do not restrict the result.
#[derive(Debug, Clone, Default)]
pub struct PrincipalQuery {
    /// The home realm.
    pub realm: Option<RealmName>,
    /// A role that the principal has.
    pub role: Option<Role>,
    /// The last principal of the previous page.
    pub after: Option<PrincipalName>,
    /// The page size. Values outside 1–1000 are set to the nearest limit.
    pub limit: u32,
}

impl Tenancy<'_> {
    /// Returns a page of the principals of an org, sorted by name. The cursor is the name of the last principal.
    pub async fn principals(
        &self,
        org: OrgId,
        query: &PrincipalQuery,
    ) -> Result<Page<PrincipalSummary, PrincipalName>, StoreError> {
        let mut sql = Sql::new(
            "SELECT p.id, p.org_id, p.name, p.home_realm_id, p.roles, p.created_at, h.name AS home_name,
                    (SELECT MAX(k.created_at) FROM api_keys k WHERE k.principal_id = p.id) AS last_key_at,
                    (SELECT COUNT(*) FROM api_keys k WHERE k.principal_id = p.id AND k.revoked_at IS NULL
                            AND (k.expires_at IS NULL OR k.expires_at > ",
        );
        sql.integer(self.store.now().as_micros());
        sql.push(")) AS keys FROM principals p JOIN realms h ON h.id = p.home_realm_id WHERE p.org_id = ");
        sql.text(org.to_string());
        if let Some(realm) = &query.realm {
            sql.push(" AND h.name_key = ").text(realm.as_str().to_ascii_lowercase());
        }
        if let Some(role) = query.role {
            sql.push(" AND p.roles LIKE ").text(format!("%\"{}\"%", role.as_str()));
        }
        if let Some(after) = &query.after {
            sql.push(" AND p.name_key > ").text(after.as_str().to_ascii_lowercase());
        }
        sql.push(" ORDER BY p.name_key");
        push_limit(&mut sql, query.limit);
        let (text, values) = sql.into_parts();
        let rows: Vec<SummaryRow> =
            read!(&self.store.db, |pool| bind_all!(sqlx::query_as(text), values).fetch_all(pool))?;
        Page::from_rows(rows, query.limit, |last: &PrincipalSummary| last.principal.name.clone())
    }
}

#[derive(sqlx::FromRow)]
struct SummaryRow {
    #[sqlx(flatten)]
    principal: PrincipalRow,
    #[sqlx(try_from = "String")]
    home_name: RealmName,
    created_at: i64,
    keys: i64,
    last_key_at: Option<i64>,
}

impl TryFrom<SummaryRow> for PrincipalSummary {
    type Error = StoreError;

    fn try_from(row: SummaryRow) -> Result<Self, StoreError> {
        Ok(Self {
            principal: row.principal.try_into()?,
            home: row.home_name,
            created_at: Timestamp::from_micros(row.created_at),
            keys: row.keys,
            last_key_at: row.last_key_at.map(Timestamp::from_micros),
        })
    }
}
