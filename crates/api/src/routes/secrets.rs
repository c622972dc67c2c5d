//! Secrets: set, listed by name, removed. Values go in and never come out.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use secrecy::SecretString;
use serde::{Deserialize, Serialize};
use toolwright_engine::{SecretScope, SecretView as Info, Session};
use toolwright_types::{RefName, Timestamp, or_default};

use crate::extract::{App, Body, Caller, Named, Parameters};
use crate::problem::Problem;
use crate::views::PageView;

const TAG: &str = "secrets";

/// Who a secret belongs to.
#[derive(Debug, Clone, Copy, Default, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// The caller.
    User,
    /// Everyone in the realm.
    #[default]
    Realm,
    /// Everyone in the org.
    Org,
}

impl Scope {
    fn of(self, session: &Session) -> SecretScope {
        match self {
            Scope::User => SecretScope::User(session.principal.id),
            Scope::Realm => SecretScope::Realm,
            Scope::Org => SecretScope::Org,
        }
    }
}

/// A secret to be kept.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SecretBody {
    /// How definitions refer to it.
    #[schema(value_type = String)]
    name: RefName,
    /// Who it belongs to; the realm when absent.
    #[serde(default, deserialize_with = "or_default")]
    scope: Scope,
    /// The value.
    #[schema(value_type = String)]
    value: SecretString,
}

/// What is shown of a secret.
#[derive(Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecretView {
    id: String,
    name: String,
    scope: &'static str,
    revision: i64,
    updated_by: String,
    #[schema(value_type = String, format = DateTime)]
    updated_at: Timestamp,
}

impl From<Info> for SecretView {
    fn from(info: Info) -> Self {
        Self {
            id: info.id.to_string(),
            name: info.name.to_string(),
            scope: info.scope.as_str(),
            revision: info.revision,
            updated_by: info.updated_by,
            updated_at: info.updated_at,
        }
    }
}

/// Lists the secrets that apply to the caller.
#[utoipa::path(get, path = "/api/v1/ai/secrets", tag = TAG, operation_id = "listSecrets",
    responses((status = 200, body = PageView<SecretView>), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub async fn list(State(engine): State<App>, Caller(session): Caller) -> Result<Json<PageView<SecretView>>, Problem> {
    let secrets = engine.vault.list(&session).await?;
    Ok(Json(PageView::whole(secrets.into_iter().map(SecretView::from).collect())))
}

/// Gives a secret a value.
#[utoipa::path(post, path = "/api/v1/ai/secrets", tag = TAG, operation_id = "putSecret", request_body = SecretBody,
    responses((status = 201, body = SecretView), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub async fn put(
    State(engine): State<App>,
    Caller(session): Caller,
    Body(body): Body<SecretBody>,
) -> Result<(StatusCode, Json<SecretView>), Problem> {
    let scope = body.scope.of(&session);
    let info = engine.vault.put(&session, scope, &body.name, body.value).await?;
    Ok((StatusCode::CREATED, Json(info.into())))
}

/// The scope to remove from.
#[derive(Deserialize)]
pub struct WantedScope {
    #[serde(default)]
    scope: Scope,
}

/// Removes a secret.
#[utoipa::path(delete, path = "/api/v1/ai/secrets/{name}", tag = TAG, operation_id = "removeSecret",
    params(("name" = String, Path), ("scope" = Option<Scope>, Query)),
    responses((status = 204), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub async fn remove(
    State(engine): State<App>,
    Caller(session): Caller,
    Named(name): Named,
    Parameters(wanted): Parameters<WantedScope>,
) -> Result<StatusCode, Problem> {
    let name: RefName = name.parse().map_err(|error| Problem::invalid("name", format!("{error}")))?;
    engine.vault.remove(&session, wanted.scope.of(&session), &name).await?;
    Ok(StatusCode::NO_CONTENT)
}
