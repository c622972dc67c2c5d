//! Realms, and who the caller is.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use toolwright_types::{RealmName, RealmScope, Role};

use crate::extract::{App, Body, Caller};
use crate::problem::Problem;
use crate::views::PageView;

const TAG: &str = "realms";

/// A realm.
#[derive(Serialize, utoipa::ToSchema)]
pub struct RealmView {
    id: String,
    name: String,
}

impl From<RealmScope> for RealmView {
    fn from(realm: RealmScope) -> Self {
        Self { id: realm.realm.to_string(), name: realm.name.to_string() }
    }
}

/// A realm to be made.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RealmBody {
    /// Its name, for `X-Realm`.
    #[schema(value_type = String)]
    name: RealmName,
}

/// Lists the realms of the org.
#[utoipa::path(get, path = "/api/v1/ai/realms", tag = TAG, operation_id = "listRealms",
    responses((status = 200, body = PageView<RealmView>), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub async fn list(State(engine): State<App>, Caller(session): Caller) -> Result<Json<PageView<RealmView>>, Problem> {
    let realms = engine.identity.realms(&session).await?;
    Ok(Json(PageView::whole(realms.into_iter().map(RealmView::from).collect())))
}

/// Makes a realm.
#[utoipa::path(post, path = "/api/v1/ai/realms", tag = TAG, operation_id = "createRealm", request_body = RealmBody,
    responses((status = 201, body = RealmView), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub async fn create(
    State(engine): State<App>,
    Caller(session): Caller,
    Body(body): Body<RealmBody>,
) -> Result<(StatusCode, Json<RealmView>), Problem> {
    let realm = engine.identity.create_realm(&session, &body.name).await?;
    Ok((StatusCode::CREATED, Json(realm.into())))
}

/// The caller, as the server sees it.
#[derive(Serialize, utoipa::ToSchema)]
pub struct WhoView {
    principal: String,
    realm: String,
    roles: Vec<Role>,
}

/// Tells who the caller is, and where.
#[utoipa::path(get, path = "/api/v1/ai/whoami", tag = TAG, operation_id = "whoami",
    responses((status = 200, body = WhoView), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub async fn whoami(Caller(session): Caller) -> Json<WhoView> {
    Json(WhoView {
        principal: session.principal.name.to_string(),
        realm: session.realm.name.to_string(),
        roles: session.principal.roles.clone(),
    })
}
