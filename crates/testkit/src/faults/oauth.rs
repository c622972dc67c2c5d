//! OAuth 2 client credentials (RFC 6749 §4.4): a token endpoint, and a resource that requires its tokens.

use std::sync::Arc;

use axum::extract::State;
use axum::http::header::{AUTHORIZATION, CACHE_CONTROL, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::{Form, Json};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::json;

use super::{Client, Faults};

#[derive(Deserialize)]
pub(super) struct TokenForm {
    grant_type: Option<String>,
    client_id: Option<String>,
    client_secret: Option<String>,
    scope: Option<String>,
}

pub(super) async fn token(
    State(faults): State<Arc<Faults>>,
    headers: HeaderMap,
    Form(form): Form<TokenForm>,
) -> Response {
    if form.grant_type.as_deref() != Some("client_credentials") {
        let body = json!({"error": "unsupported_grant_type"});
        return (StatusCode::BAD_REQUEST, Json(body)).into_response();
    }
    let client =
        basic_credentials(&headers).or_else(|| Some(Client { id: form.client_id?, secret: form.client_secret? }));
    if client.as_ref() != Some(&faults.client) {
        let body = json!({"error": "invalid_client"});
        let challenge = [(WWW_AUTHENTICATE, "Basic realm=\"fixture\"")];
        return (StatusCode::UNAUTHORIZED, challenge, Json(body)).into_response();
    }
    let body = json!({
        "access_token": issue_token(&faults),
        "token_type": "Bearer",
        "expires_in": faults.expires_in,
        "scope": form.scope.unwrap_or_default(),
    });
    ([(CACHE_CONTROL, "no-store")], Json(body)).into_response()
}

pub(super) async fn protected(State(faults): State<Arc<Faults>>, headers: HeaderMap) -> Response {
    let token = credentials(&headers, "Bearer ");
    if token.is_some_and(|token| faults.lock().tokens.contains(token)) {
        return Json(json!({"ok": true})).into_response();
    }
    let challenge = [(WWW_AUTHENTICATE, "Bearer error=\"invalid_token\"")];
    let body = json!({"error": "invalid_token"});
    (StatusCode::UNAUTHORIZED, challenge, Json(body)).into_response()
}

fn issue_token(faults: &Faults) -> String {
    let mut state = faults.lock();
    state.issued += 1;
    let token = format!("fixture-access-token-{:06}", state.issued);
    state.tokens.insert(token.clone());
    token
}

fn basic_credentials(headers: &HeaderMap) -> Option<Client> {
    let decoded = STANDARD.decode(credentials(headers, "Basic ")?).ok()?;
    let text = String::from_utf8(decoded).ok()?;
    let (id, secret) = text.split_once(':')?;
    Some(Client { id: id.to_owned(), secret: secret.to_owned() })
}

fn credentials<'a>(headers: &'a HeaderMap, scheme: &str) -> Option<&'a str> {
    headers.get(AUTHORIZATION)?.to_str().ok()?.strip_prefix(scheme)
}
