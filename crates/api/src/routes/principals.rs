//! Principals of the organization.

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use toolwright_catalog::identity::{Identity, PrincipalQuery, PrincipalSummary};
use toolwright_types::{RealmName, Role, Timestamp};

use crate::extract::{Caller, QueryParams};
use crate::list_params;
use crate::problem::Problem;
use crate::views::PageView;

/// A principal.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PrincipalView {
    /// The id of the principal.
    pub id: String,
    /// The name.
    pub name: String,
    /// The roles.
    pub roles: Vec<Role>,
    /// The home realm.
    pub home_realm: String,
    /// When the principal was created.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
    /// The number of keys that are neither revoked nor expired. The key in `TOOLWRIGHT_ADMIN_KEY` is not counted.
    pub keys: i64,
    /// When the newest key was created, even if that key is revoked or expired.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub last_key_at: Option<Timestamp>,
}

impl From<PrincipalSummary> for PrincipalView {
    fn from(summary: PrincipalSummary) -> Self {
        let PrincipalSummary { principal, home, created_at, keys, last_key_at } = summary;
        Self {
            id: principal.id.to_string(),
            name: principal.name.to_string(),
            roles: principal.roles,
            home_realm: home.to_string(),
            created_at,
            keys,
            last_key_at,
        }
    }
}

/// The parameters of the list.
#[derive(Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct PrincipalParams {
    /// Only principals with this home realm.
    #[param(value_type = Option<String>)]
    realm: Option<RealmName>,
    /// Only principals with this role.
    #[param(inline)]
    role: Option<Role>,
    /// The page size, from 1 to 100. Default: 20.
    limit: Option<u32>,
    /// `nextCursor` of the previous page.
    cursor: Option<String>,
}

/// Lists the principals of the organization, sorted by name. Only administrators may list them.
#[utoipa::path(get, path = "/api/v1/ai/principals", tag = "principals", operation_id = "listPrincipals", params(PrincipalParams),
    responses((status = 200, body = PageView<PrincipalView>)))]
pub(crate) async fn list(
    State(identity): State<Identity>,
    Caller(session): Caller,
    QueryParams(parameters): QueryParams<PrincipalParams>,
) -> Result<Json<PageView<PrincipalView>>, Problem> {
    let query = PrincipalQuery {
        realm: parameters.realm,
        role: parameters.role,
        after: list_params::cursor(parameters.cursor.as_deref())?,
        limit: list_params::limit(parameters.limit)?,
    };
    let page = identity.principals(&session, &query).await?;
    Ok(Json(PageView {
        items: page.items.into_iter().map(PrincipalView::from).collect(),
        next_cursor: page.next.map(|name| name.to_string()),
    }))
}
