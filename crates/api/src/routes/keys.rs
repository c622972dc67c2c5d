//! API keys: create, list and revoke. A key is returned only once.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use secrecy::ExposeSecret;
use serde::{Deserialize, Serialize};
use toolwright_catalog::identity::{ApiKey, Identity, KeyRequest};
use toolwright_types::{KeyId, PrincipalName, RealmName, Role, Timestamp, null_as_default};

use crate::extract::{Caller, JsonBody, NoQueryParams, PathName};
use crate::problem::Problem;
use crate::views::PageView;

const TAG: &str = "keys";

/// A key to create.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct KeyBody {
    /// A label for the key.
    #[serde(default, deserialize_with = "null_as_default")]
    label: String,
    /// The principal of the key, which is created if it does not exist. Default: the caller.
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    principal: Option<PrincipalName>,
    /// The roles of the principal, if it is created. Default: `member`.
    #[serde(default)]
    roles: Option<Vec<Role>>,
    /// The home realm of the principal, if it is created. Default: the caller's realm.
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    realm: Option<RealmName>,
    /// When the key expires.
    #[serde(default)]
    #[schema(value_type = Option<String>, format = DateTime)]
    expires_at: Option<Timestamp>,
}

/// A key without its text.
#[derive(Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct KeyView {
    /// The id of the key.
    pub id: String,
    /// The label.
    pub label: String,
    /// The principal of the key.
    pub principal: String,
    /// The principal that created the key.
    pub created_by: String,
    /// When the key was created.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
    /// When the key expires.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub expires_at: Option<Timestamp>,
    /// When the key was revoked.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub revoked_at: Option<Timestamp>,
}

impl KeyView {
    fn new(key: ApiKey, owner: PrincipalName) -> Self {
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

/// A created key.
#[derive(Serialize, Deserialize, utoipa::ToSchema)]
pub struct IssuedKeyView {
    /// The key without its text.
    #[serde(flatten)]
    pub view: KeyView,
    /// The text of the key. It is returned only once.
    pub key: String,
}

/// Lists the keys of the organization.
#[utoipa::path(get, path = "/api/v1/ai/keys", tag = TAG, operation_id = "listKeys",
    responses((status = 200, body = PageView<KeyView>)))]
pub(crate) async fn list(
    State(identity): State<Identity>,
    Caller(session): Caller,
    _: NoQueryParams,
) -> Result<Json<PageView<KeyView>>, Problem> {
    let keys = identity.keys(&session).await?;
    Ok(Json(PageView::complete(keys.into_iter().map(|(key, owner)| KeyView::new(key, owner)).collect())))
}

/// Creates a key.
#[utoipa::path(post, path = "/api/v1/ai/keys", tag = TAG, operation_id = "createKey", request_body = KeyBody,
    responses((status = 201, body = IssuedKeyView)))]
pub(crate) async fn create(
    State(identity): State<Identity>,
    Caller(session): Caller,
    JsonBody(body): JsonBody<KeyBody>,
) -> Result<(StatusCode, Json<IssuedKeyView>), Problem> {
    let request = KeyRequest {
        label: body.label,
        principal: body.principal,
        roles: body.roles,
        realm: body.realm,
        expires_at: body.expires_at,
    };
    let issued = identity.create_key(&session, request).await?;
    let view =
        IssuedKeyView { view: KeyView::new(issued.key, issued.owner), key: issued.text.expose_secret().to_owned() };
    Ok((StatusCode::CREATED, Json(view)))
}

/// Revokes a key: on this server at once, on others within ten seconds.
#[utoipa::path(delete, path = "/api/v1/ai/keys/{id}", tag = TAG, operation_id = "revokeKey", params(("id" = String, Path)),
    responses((status = 204)))]
pub(crate) async fn revoke(
    State(identity): State<Identity>,
    Caller(session): Caller,
    PathName(id): PathName,
) -> Result<StatusCode, Problem> {
    let id: KeyId = id.parse().map_err(|error| Problem::invalid("id", format!("{error}")))?;
    identity.revoke_key(&session, id).await?;
    Ok(StatusCode::NO_CONTENT)
}
