//! Realms, and the identity of the caller.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use toolwright_catalog::identity::Identity;
use toolwright_types::{RealmName, RealmScope, Role};

use crate::extract::{Caller, JsonBody, NoQueryParams};
use crate::problem::Problem;
use crate::views::PageView;

const TAG: &str = "realms";

/// A realm.
#[derive(Serialize, Deserialize, utoipa::ToSchema)]
pub struct RealmView {
    /// The id of the realm.
    pub id: String,
    /// The name of the realm.
    pub name: String,
}

impl From<RealmScope> for RealmView {
    fn from(realm: RealmScope) -> Self {
        Self { id: realm.realm.to_string(), name: realm.name.to_string() }
    }
}

/// A realm to create.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RealmBody {
    /// The name of the realm, as in `X-Realm`.
    #[schema(value_type = String)]
    name: RealmName,
}

/// Lists the realms of the organization.
#[utoipa::path(get, path = "/api/v1/ai/realms", tag = TAG, operation_id = "listRealms",
    responses((status = 200, body = PageView<RealmView>)))]
pub(crate) async fn list(
    State(identity): State<Identity>,
    Caller(session): Caller,
    _: NoQueryParams,
) -> Result<Json<PageView<RealmView>>, Problem> {
    let realms = identity.realms(&session).await?;
    Ok(Json(PageView::complete(realms.into_iter().map(RealmView::from).collect())))
}

/// Creates a realm.
#[utoipa::path(post, path = "/api/v1/ai/realms", tag = TAG, operation_id = "createRealm", request_body = RealmBody,
    responses((status = 201, body = RealmView)))]
pub(crate) async fn create(
    State(identity): State<Identity>,
    Caller(session): Caller,
    JsonBody(body): JsonBody<RealmBody>,
) -> Result<(StatusCode, Json<RealmView>), Problem> {
    let realm = identity.create_realm(&session, &body.name).await?;
    Ok((StatusCode::CREATED, Json(realm.into())))
}

/// The identity of the caller.
#[derive(Serialize, Deserialize, utoipa::ToSchema)]
pub struct WhoView {
    /// The name of the principal.
    pub principal: String,
    /// The name of the realm.
    pub realm: String,
    /// The roles of the principal.
    pub roles: Vec<Role>,
}

/// Returns the principal, realm and roles of the caller.
#[utoipa::path(get, path = "/api/v1/ai/whoami", tag = TAG, operation_id = "whoami",
    responses((status = 200, body = WhoView)))]
pub(crate) async fn whoami(Caller(session): Caller) -> Json<WhoView> {
    Json(WhoView {
        principal: session.principal.name.to_string(),
        realm: session.realm.name.to_string(),
        roles: session.principal.roles.clone(),
    })
}
