//! API keys: made, listed, revoked. A key is shown once.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use secrecy::ExposeSecret;
use serde::{Deserialize, Serialize};
use toolwright_engine::identity::{Key, KeyRequest};
use toolwright_types::{KeyId, PrincipalName, RealmName, Role, Timestamp, or_default};

use crate::extract::{App, Body, Caller, Named};
use crate::problem::Problem;
use crate::views::PageView;

const TAG: &str = "keys";

/// A key to be made.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct KeyBody {
    /// What it is for.
    #[serde(default, deserialize_with = "or_default")]
    label: String,
    /// Whose it is; the caller's when absent. A principal that does not exist is made.
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    principal: Option<PrincipalName>,
    /// The roles of a principal that is made; `member` when absent.
    #[serde(default)]
    roles: Option<Vec<Role>>,
    /// The home realm of a principal that is made; the caller's realm when absent.
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    realm: Option<RealmName>,
    /// When it stops working.
    #[serde(default)]
    #[schema(value_type = Option<String>, format = DateTime)]
    expires_at: Option<Timestamp>,
}

/// What is shown of a key.
#[derive(Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct KeyView {
    id: String,
    label: String,
    principal: String,
    created_by: String,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    #[schema(value_type = Option<String>, format = DateTime)]
    expires_at: Option<Timestamp>,
    #[schema(value_type = Option<String>, format = DateTime)]
    revoked_at: Option<Timestamp>,
}

impl KeyView {
    fn new(key: Key, owner: PrincipalName) -> Self {
        Self {
            id: key.id.to_string(),
            label: key.label,
            principal: owner.to_string(),
            created_by: key.created_by,
            created_at: key.created_at,
            expires_at: key.expires_at,
            revoked_at: key.revoked_at,
        }
    }
}

/// A key that was just made.
#[derive(Serialize, utoipa::ToSchema)]
pub struct IssuedView {
    #[serde(flatten)]
    view: KeyView,
    /// The key itself. It is not shown again.
    key: String,
}

/// Lists the keys of the org.
#[utoipa::path(get, path = "/api/v1/ai/keys", tag = TAG, operation_id = "listKeys",
    responses((status = 200, body = PageView<KeyView>), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub async fn list(State(engine): State<App>, Caller(session): Caller) -> Result<Json<PageView<KeyView>>, Problem> {
    let keys = engine.identity.keys(&session).await?;
    Ok(Json(PageView::whole(keys.into_iter().map(|(key, owner)| KeyView::new(key, owner)).collect())))
}

/// Makes a key.
#[utoipa::path(post, path = "/api/v1/ai/keys", tag = TAG, operation_id = "createKey", request_body = KeyBody,
    responses((status = 201, body = IssuedView), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub async fn create(
    State(engine): State<App>,
    Caller(session): Caller,
    Body(body): Body<KeyBody>,
) -> Result<(StatusCode, Json<IssuedView>), Problem> {
    let request = KeyRequest {
        label: body.label,
        principal: body.principal,
        roles: body.roles,
        realm: body.realm,
        expires_at: body.expires_at,
    };
    let issued = engine.identity.create_key(&session, request).await?;
    let view = IssuedView { view: KeyView::new(issued.key, issued.owner), key: issued.text.expose_secret().to_owned() };
    Ok((StatusCode::CREATED, Json(view)))
}

/// Makes a key useless: on this server at once, on others within ten seconds.
#[utoipa::path(delete, path = "/api/v1/ai/keys/{id}", tag = TAG, operation_id = "revokeKey", params(("id" = String, Path)),
    responses((status = 204), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub async fn revoke(
    State(engine): State<App>,
    Caller(session): Caller,
    Named(id): Named,
) -> Result<StatusCode, Problem> {
    let id: KeyId = id.parse().map_err(|error| Problem::invalid("id", format!("{error}")))?;
    engine.identity.revoke_key(&session, id).await?;
    Ok(StatusCode::NO_CONTENT)
}
