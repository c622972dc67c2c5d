//! The session of the web UI: login with an API key or with the link of the server's start, and logout.
//!
//! These routes serve browsers only and are not in the OpenAPI document. Programs send their API key with each request.

use axum::extract::State;
use axum::http::header::{CACHE_CONTROL, SET_COOKIE};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::response::IntoResponse;
use axum::routing::post;
use axum::{Json, Router};
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};
use toolwright_catalog::identity::{Identity, SESSION_LIFETIME};
use toolwright_types::{Role, Timestamp};

use crate::browser::{self, COOKIE_NAME};
use crate::extract::JsonBody;
use crate::problem::Problem;
use crate::state::AppState;

/// The routes of the session.
pub(crate) fn routes() -> Router<AppState> {
    Router::new().route("/api/v1/ai/session", post(log_in).delete(log_out))
}

/// A login: an API key, or the token of the login link.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LoginBody {
    key: Option<SecretString>,
    link: Option<SecretString>,
}

/// The session of a browser that is logged in.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SessionView {
    principal: String,
    realm: String,
    roles: Vec<Role>,
    expires_at: Timestamp,
}

async fn log_in(
    State(identity): State<Identity>,
    headers: HeaderMap,
    JsonBody(body): JsonBody<LoginBody>,
) -> Result<impl IntoResponse, Problem> {
    browser::check_origin(&Method::POST, &headers)?;
    let login = match (&body.key, &body.link) {
        (Some(key), None) => identity.log_in(key.expose_secret().trim()).await?,
        (None, Some(link)) => identity.log_in_by_link(link.expose_secret()).await?,
        _ => return Err(Problem::invalid("/key", "exactly one of `key` and `link` is required")),
    };
    let view = SessionView {
        principal: login.session.principal.name.to_string(),
        realm: login.session.realm.name.to_string(),
        roles: login.session.principal.roles.clone(),
        expires_at: login.expires_at,
    };
    let cookie = set_cookie(&headers, login.cookie.expose_secret(), SESSION_LIFETIME.as_secs());
    Ok(([(SET_COOKIE, cookie), (CACHE_CONTROL, HeaderValue::from_static("no-store"))], Json(view)))
}

async fn log_out(State(identity): State<Identity>, parts: Parts) -> Result<impl IntoResponse, Problem> {
    browser::check_origin(&Method::DELETE, &parts.headers)?;
    if let Some(cookie) = browser::session_cookie(&parts) {
        identity.log_out(cookie).await?;
    }
    Ok((StatusCode::NO_CONTENT, [(SET_COOKIE, set_cookie(&parts.headers, "", 0))]))
}

/// Returns the header that sets the cookie. Scripts cannot read the cookie, and pages of other sites cannot send it.
fn set_cookie(headers: &HeaderMap, value: &str, max_age: u64) -> HeaderValue {
    let secure = if browser::is_loopback(headers) { "" } else { "; Secure" };
    let text = format!("{COOKIE_NAME}={value}; Path=/api; Max-Age={max_age}; HttpOnly; SameSite=Strict{secure}");
    HeaderValue::from_str(&text).unwrap_or_else(|_| HeaderValue::from_static(""))
}
