//! Converts database rows to secrets.

use toolwright_types::{RefName, SecretId, Timestamp};

use super::{SecretIdentity, SecretInfo, SecretScope};
use crate::db::StoreError;

#[derive(sqlx::FromRow)]
pub(super) struct SecretSlot {
    #[sqlx(try_from = "String")]
    pub(super) id: SecretId,
    pub(super) revision: i64,
}

#[derive(sqlx::FromRow)]
pub(super) struct IdentityRow {
    #[sqlx(try_from = "String")]
    pub(super) id: SecretId,
    pub(super) scope: String,
    pub(super) principal_id: Option<String>,
    pub(super) revision: i64,
}

impl TryFrom<IdentityRow> for SecretIdentity {
    type Error = StoreError;

    fn try_from(row: IdentityRow) -> Result<Self, StoreError> {
        let scope = scope_of(&row.scope, row.principal_id.as_deref())?;
        Ok(Self { id: row.id, scope, revision: row.revision })
    }
}

#[derive(sqlx::FromRow)]
pub(super) struct InfoRow {
    #[sqlx(flatten)]
    pub(super) identity: IdentityRow,
    #[sqlx(try_from = "String")]
    pub(super) name: RefName,
    pub(super) updated_by: String,
    pub(super) updated_at: i64,
}

impl TryFrom<InfoRow> for SecretInfo {
    type Error = StoreError;

    fn try_from(row: InfoRow) -> Result<Self, StoreError> {
        Ok(Self {
            id: row.identity.id,
            name: row.name,
            scope: scope_of(&row.identity.scope, row.identity.principal_id.as_deref())?,
            revision: row.identity.revision,
            updated_at: Timestamp::from_micros(row.updated_at),
            updated_by: row.updated_by,
        })
    }
}

#[derive(sqlx::FromRow)]
pub(super) struct SealedRow {
    #[sqlx(try_from = "String")]
    pub(super) name: RefName,
    pub(super) key_id: String,
    pub(super) sealed: Vec<u8>,
}

fn scope_of(scope: &str, principal: Option<&str>) -> Result<SecretScope, StoreError> {
    match (scope, principal) {
        ("org", _) => Ok(SecretScope::Org),
        ("realm", _) => Ok(SecretScope::Realm),
        ("user", Some(principal)) => principal.parse().map(SecretScope::User).map_err(StoreError::unreadable),
        _ => Err(StoreError::unreadable(InvalidOwner { scope: scope.to_owned() })),
    }
}

/// The error for owner columns that contradict each other or contain a scope that this release does not know.
#[derive(Debug, thiserror::Error)]
#[error("secret has the unknown scope `{scope}`, or the scope `user` without a principal")]
struct InvalidOwner {
    scope: String,
}
