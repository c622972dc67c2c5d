//! Secrets: set, list by name and remove. Values are never returned.

use std::borrow::Cow;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use secrecy::SecretString;
use serde::{Deserialize, Serialize};
use toolwright_catalog::Session;
use toolwright_engine::{SecretInfo, SecretScope, Vault};
use toolwright_types::{RefName, Timestamp, null_as_default};

use crate::extract::{Caller, JsonBody, NoQueryParams, PathName, QueryParams};
use crate::problem::Problem;
use crate::views::PageView;

const TAG: &str = "secrets";

/// The owner of a secret.
#[derive(Debug, Clone, Copy, Default, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum SecretScopeParam {
    /// The caller.
    User,
    /// The realm.
    #[default]
    Realm,
    /// The organization.
    Org,
}

impl SecretScopeParam {
    fn of(self, session: &Session) -> SecretScope {
        match self {
            SecretScopeParam::User => SecretScope::User(session.principal.id),
            SecretScopeParam::Realm => SecretScope::Realm,
            SecretScopeParam::Org => SecretScope::Org,
        }
    }
}

/// A secret to store.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SecretBody {
    /// The name by which definitions refer to the secret.
    #[schema(value_type = String)]
    name: RefName,
    /// The owner. Default: the realm.
    #[serde(default, deserialize_with = "null_as_default")]
    scope: SecretScopeParam,
    /// The value.
    #[schema(value_type = String)]
    value: SecretString,
}

/// A secret without its value.
#[derive(Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecretView {
    /// The id of the secret.
    pub id: String,
    /// The name by which definitions refer to the secret.
    pub name: String,
    /// The owner: `user`, `realm` or `org`.
    pub scope: Cow<'static, str>,
    /// The number of writes.
    pub revision: i64,
    /// The principal that wrote the secret last.
    pub updated_by: String,
    /// When the secret was written last.
    #[schema(value_type = String, format = DateTime)]
    pub updated_at: Timestamp,
}

impl From<SecretInfo> for SecretView {
    fn from(info: SecretInfo) -> Self {
        Self {
            id: info.id.to_string(),
            name: info.name.to_string(),
            scope: info.scope.as_str().into(),
            revision: info.revision,
            updated_by: info.updated_by,
            updated_at: info.updated_at,
        }
    }
}

/// Lists the secrets that apply to the caller.
#[utoipa::path(get, path = "/api/v1/ai/secrets", tag = TAG, operation_id = "listSecrets",
    responses((status = 200, body = PageView<SecretView>)))]
pub(crate) async fn list(
    State(vault): State<Vault>,
    Caller(session): Caller,
    _: NoQueryParams,
) -> Result<Json<PageView<SecretView>>, Problem> {
    let secrets = vault.list(&session).await?;
    Ok(Json(PageView::complete(secrets.into_iter().map(SecretView::from).collect())))
}

/// Sets the value of a secret.
#[utoipa::path(post, path = "/api/v1/ai/secrets", tag = TAG, operation_id = "putSecret", request_body = SecretBody,
    responses((status = 201, body = SecretView)))]
pub(crate) async fn put(
    State(vault): State<Vault>,
    Caller(session): Caller,
    JsonBody(body): JsonBody<SecretBody>,
) -> Result<(StatusCode, Json<SecretView>), Problem> {
    let scope = body.scope.of(&session);
    let info = vault.put(&session, scope, &body.name, body.value).await?;
    Ok((StatusCode::CREATED, Json(info.into())))
}

/// The parameters of a removal.
#[derive(Deserialize)]
pub(crate) struct SecretScopeParams {
    #[serde(default)]
    scope: SecretScopeParam,
}

/// Removes a secret.
#[utoipa::path(delete, path = "/api/v1/ai/secrets/{name}", tag = TAG, operation_id = "removeSecret",
    params(("name" = String, Path), ("scope" = Option<SecretScopeParam>, Query)),
    responses((status = 204)))]
pub(crate) async fn remove(
    State(vault): State<Vault>,
    Caller(session): Caller,
    PathName(name): PathName,
    QueryParams(params): QueryParams<SecretScopeParams>,
) -> Result<StatusCode, Problem> {
    let name: RefName = name.parse().map_err(|error| Problem::invalid("name", format!("{error}")))?;
    vault.remove(&session, params.scope.of(&session), &name).await?;
    Ok(StatusCode::NO_CONTENT)
}
