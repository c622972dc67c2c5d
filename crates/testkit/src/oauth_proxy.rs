//! An OAuth authorization server, and a proxy in front of an MCP server. The proxy forwards only requests with a valid
//! access token.
//!
//! Implements registration (RFC 7591), metadata (RFC 8414, RFC 9728), the authorization-code flow with PKCE, and
//! refresh token rotation. If a refresh token is used a second time, all logins are revoked. A real server would revoke
//! only the login of that token. There is no consent page: the authorization endpoint redirects the browser back
//! immediately.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::body::Bytes;
use axum::extract::{Query, State};
use axum::http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, HeaderName, StatusCode, Uri};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use axum::{Form, Json, Router};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::server;

/// A running proxy.
pub type Handle = server::Handle<OAuthProxy>;

/// The proxy and its authorization server; see the [module](self).
pub struct OAuthProxy {
    http: reqwest::Client,
    /// The base URL of the MCP server.
    url: String,
    /// The API key that the MCP server requires.
    key: String,
    state: Mutex<AuthState>,
    /// Whether token renewals get a response. While this is false, renewals are still executed, but each response is
    /// delayed until this becomes true.
    answers_renewals: watch::Sender<bool>,
}

#[derive(Default)]
struct AuthState {
    /// The redirect URI of each client, by client id.
    clients: BTreeMap<String, String>,
    /// Authorization codes that are not redeemed yet.
    codes: BTreeMap<String, AuthorizationCode>,
    /// Valid access tokens.
    access_tokens: BTreeSet<String>,
    /// Valid refresh tokens.
    refresh_tokens: BTreeSet<String>,
    /// Refresh tokens that were already used. A second use of one of them revokes every login.
    used_refresh_tokens: BTreeSet<String>,
    /// The lifetime of new access tokens, in seconds.
    token_lifetime: u64,
    issued: u64,
    renewals: u64,
    refresh_token_reuses: u64,
    consent_denied: bool,
    /// The HTTP status with which renewals fail. `None` if renewals succeed.
    renewal_status: Option<u16>,
}

struct AuthorizationCode {
    client: String,
    redirect: String,
    challenge: String,
}

impl OAuthProxy {
    /// Starts a proxy in front of the MCP server at `url`, which requires the API key `key`. New access tokens are
    /// valid for an hour.
    pub async fn start(bind: SocketAddr, http: reqwest::Client, url: &str, key: &str) -> Result<Handle, io::Error> {
        let state = Mutex::new(AuthState { token_lifetime: 3600, ..AuthState::default() });
        let proxy = Arc::new(Self {
            http,
            url: url.to_owned(),
            key: key.to_owned(),
            state,
            answers_renewals: watch::Sender::new(true),
        });
        let app = Router::new()
            .route("/.well-known/oauth-protected-resource/mcp", get(resource))
            .route("/.well-known/oauth-authorization-server", get(metadata))
            .route("/register", post(register))
            .route("/authorize", get(authorize))
            .route("/token", post(token))
            .route("/mcp", post(forward))
            .with_state(Arc::clone(&proxy));
        server::start(bind, proxy, app, CancellationToken::new()).await
    }

    fn lock(&self) -> MutexGuard<'_, AuthState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Handle {
    /// Sets the lifetime of new access tokens, in seconds.
    pub fn set_token_lifetime(&self, seconds: u64) {
        self.system.lock().token_lifetime = seconds;
    }

    /// The number of successful renewals.
    pub fn renewals(&self) -> u64 {
        self.system.lock().renewals
    }

    /// The number of renewals with a refresh token that was already used.
    pub fn refresh_token_reuses(&self) -> u64 {
        self.system.lock().refresh_token_reuses
    }

    /// Invalidates every access token before its expiry. Refresh tokens remain valid.
    pub fn revoke_tokens(&self) {
        self.system.lock().access_tokens.clear();
    }

    /// Invalidates every access token and refresh token.
    pub fn revoke_logins(&self) {
        let mut state = self.system.lock();
        state.access_tokens.clear();
        state.refresh_tokens.clear();
    }

    /// Sets whether renewals get a response. After `false`, renewals are still executed, but each response is delayed
    /// until the next call with `true`.
    pub fn answer_renewals(&self, answer: bool) {
        self.system.answers_renewals.send_replace(answer);
    }

    /// Makes renewals fail with this status. With `None`, renewals succeed again.
    pub fn fail_renewals(&self, status: Option<u16>) {
        self.system.lock().renewal_status = status;
    }

    /// Denies consent for all following authorization requests.
    pub fn deny_consent(&self) {
        self.system.lock().consent_denied = true;
    }

    /// Creates the tokens of a logged-in user. Returns them in the format that `toolwright mcp login` stores.
    pub fn create_login(&self, issued_at: &str, expires_at: &str) -> Value {
        let mut state = self.system.lock();
        state.clients.insert("client-0".into(), String::new());
        let (access, refresh) = state.issue();
        json!({ "tokenEndpoint": self.url("/token"), "clientId": "client-0", "resource": self.url("/mcp"),
            "accessToken": access, "refreshToken": refresh,
            "issuedAt": issued_at, "expiresAt": expires_at })
    }
}

impl AuthState {
    fn issue(&mut self) -> (String, String) {
        self.issued += 1;
        let (access, refresh) = (format!("gate-access-{:06}", self.issued), format!("gate-refresh-{:06}", self.issued));
        self.access_tokens.insert(access.clone());
        self.refresh_tokens.insert(refresh.clone());
        (access, refresh)
    }
}

/// Returns the origin to which a request was sent.
fn origin(headers: &HeaderMap) -> String {
    let host = headers.get("host").and_then(|host| host.to_str().ok()).unwrap_or_default();
    format!("http://{host}")
}

async fn resource(headers: HeaderMap) -> Json<Value> {
    let origin = origin(&headers);
    Json(
        json!({ "resource": format!("{origin}/mcp"), "authorization_servers": [origin], "scopes_supported": ["tools"] }),
    )
}

async fn metadata(headers: HeaderMap) -> Json<Value> {
    let origin = origin(&headers);
    Json(json!({
        "issuer": origin,
        "authorization_endpoint": format!("{origin}/authorize"),
        "token_endpoint": format!("{origin}/token"),
        "registration_endpoint": format!("{origin}/register"),
        "response_types_supported": ["code"],
        "grant_types_supported": ["authorization_code", "refresh_token"],
        "code_challenge_methods_supported": ["S256"],
        "token_endpoint_auth_methods_supported": ["none"],
    }))
}

#[derive(Deserialize)]
struct Registration {
    redirect_uris: Vec<String>,
}

async fn register(
    State(proxy): State<Arc<OAuthProxy>>,
    Json(registration): Json<Registration>,
) -> (StatusCode, Json<Value>) {
    let mut state = proxy.lock();
    let client = format!("client-{}", state.clients.len() + 1);
    state.clients.insert(client.clone(), registration.redirect_uris.first().cloned().unwrap_or_default());
    (StatusCode::CREATED, Json(json!({ "client_id": client, "redirect_uris": registration.redirect_uris })))
}

#[derive(Deserialize)]
struct AuthorizeQuery {
    client_id: String,
    redirect_uri: String,
    state: String,
    code_challenge: String,
    code_challenge_method: String,
    resource: String,
}

async fn authorize(
    State(proxy): State<Arc<OAuthProxy>>,
    headers: HeaderMap,
    Query(query): Query<AuthorizeQuery>,
) -> Response {
    let mut auth = proxy.lock();
    let client_matches = auth.clients.get(&query.client_id) == Some(&query.redirect_uri);
    let resource_matches = query.resource == format!("{}/mcp", origin(&headers));
    if !client_matches || !resource_matches || query.code_challenge_method != "S256" {
        return (StatusCode::BAD_REQUEST, "unknown client, redirect URI, resource or challenge method").into_response();
    }
    let AuthorizeQuery { client_id: client, redirect_uri: redirect, state, code_challenge: challenge, .. } = query;
    let location = if auth.consent_denied {
        format!("{redirect}?error=access_denied&error_description=not%20today&state={state}")
    } else {
        let code = format!("code-{}", auth.codes.len() + 1);
        let location = format!("{redirect}?code={code}&state={state}");
        auth.codes.insert(code, AuthorizationCode { client, redirect, challenge });
        location
    };
    Redirect::to(&location).into_response()
}

#[derive(Deserialize)]
struct TokenRequest {
    grant_type: String,
    client_id: String,
    #[serde(default)]
    code: String,
    #[serde(default)]
    redirect_uri: String,
    #[serde(default)]
    code_verifier: String,
    #[serde(default)]
    refresh_token: String,
    resource: String,
}

async fn token(
    State(proxy): State<Arc<OAuthProxy>>,
    headers: HeaderMap,
    Form(request): Form<TokenRequest>,
) -> Response {
    let is_renewal = request.grant_type == "refresh_token";
    let answer = proxy.grant(&headers, request);
    if is_renewal {
        // Waiting cannot fail, because the proxy owns the sender.
        let _ = proxy.answers_renewals.subscribe().wait_for(|answer| *answer).await;
    }
    answer
}

impl OAuthProxy {
    fn grant(&self, headers: &HeaderMap, request: TokenRequest) -> Response {
        let error_response = |error: &str| (StatusCode::BAD_REQUEST, Json(json!({ "error": error }))).into_response();
        let mut state = self.lock();
        if !state.clients.contains_key(&request.client_id) {
            return error_response("invalid_client");
        }
        if request.resource != format!("{}/mcp", origin(headers)) {
            return error_response("invalid_target");
        }
        match request.grant_type.as_str() {
            "authorization_code" => {
                let Some(code) = state.codes.remove(&request.code) else { return error_response("invalid_grant") };
                let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(&request.code_verifier));
                if (code.client, code.redirect, code.challenge) != (request.client_id, request.redirect_uri, challenge)
                {
                    return error_response("invalid_grant");
                }
            }
            "refresh_token" => {
                if let Some(status) = state.renewal_status {
                    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
                    return (status, [(RETRY_AFTER, "7")], "<html>sorry</html>").into_response();
                }
                if state.used_refresh_tokens.contains(&request.refresh_token) {
                    state.refresh_token_reuses += 1;
                    state.access_tokens.clear();
                    state.refresh_tokens.clear();
                }
                if !state.refresh_tokens.remove(&request.refresh_token) {
                    return error_response("invalid_grant");
                }
                state.used_refresh_tokens.insert(request.refresh_token);
                state.renewals += 1;
            }
            _ => return error_response("unsupported_grant_type"),
        }
        let (access, refresh) = state.issue();
        let issued = json!({ "access_token": access, "refresh_token": refresh, "token_type": "Bearer", "expires_in": state.token_lifetime });
        Json(issued).into_response()
    }
}

/// Forwards a request to the MCP server if its access token is valid.
async fn forward(State(proxy): State<Arc<OAuthProxy>>, uri: Uri, headers: HeaderMap, body: Bytes) -> Response {
    let token = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
    if !token.is_some_and(|token| proxy.lock().access_tokens.contains(token)) {
        let metadata = format!("{}/.well-known/oauth-protected-resource{}", origin(&headers), uri.path());
        let challenge = format!("Bearer error=\"invalid_token\", resource_metadata=\"{metadata}\"");
        return (StatusCode::UNAUTHORIZED, [(WWW_AUTHENTICATE, challenge)]).into_response();
    }
    let mut request = proxy.http.post(&proxy.url).bearer_auth(&proxy.key).body(body);
    let is_mcp_header = |name: &HeaderName| name.as_str().starts_with("mcp-");
    for (name, value) in &headers {
        if *name == ACCEPT || *name == CONTENT_TYPE || is_mcp_header(name) {
            request = request.header(name, value);
        }
    }
    let response = async {
        let answer = request.send().await?;
        let (status, headers) = (answer.status(), answer.headers().clone());
        let forwarded = headers.into_iter().filter_map(|(name, value)| Some((name?, value)));
        let forwarded: HeaderMap = forwarded.filter(|(name, _)| *name == CONTENT_TYPE || is_mcp_header(name)).collect();
        reqwest::Result::Ok((status, forwarded, answer.bytes().await?).into_response())
    };
    response.await.unwrap_or_else(|error| (StatusCode::BAD_GATEWAY, error.to_string()).into_response())
}
