//! A gate before an MCP server, and the authorization server that people log in at: whoever brings a token of it is let through.
//!
//! Registration (RFC 7591), metadata (RFC 8414, RFC 9728), the authorization-code flow with PKCE, and refresh tokens that are
//! good once: whoever uses one a second time ends the login, as OAuth 2.1 wants it. Nobody is asked: the page where a person
//! would consent sends the browser back at once.

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

/// A running gatehouse.
pub type Handle = server::Handle<Gatehouse>;

/// The gate, and what was let through.
pub struct Gatehouse {
    /// How the MCP server behind it is reached, where it is, and the key that opens it.
    http: reqwest::Client,
    url: String,
    key: String,
    book: Mutex<Book>,
    /// Whether renewals are answered.
    answers: watch::Sender<bool>,
}

#[derive(Default)]
struct Book {
    /// Clients, and where they want people to be sent back to.
    clients: BTreeMap<String, String>,
    /// Codes that were not used yet.
    codes: BTreeMap<String, Code>,
    /// Tokens that open the gate.
    valid: BTreeSet<String>,
    /// The refresh token that can be used.
    fresh: BTreeSet<String>,
    /// Those that were.
    used: BTreeSet<String>,
    lives: u64,
    issued: u64,
    renewals: u64,
    reuses: u64,
    says_no: bool,
    /// What is answered instead of a renewal.
    fails: Option<u16>,
}

struct Code {
    client: String,
    redirect: String,
    challenge: String,
}

impl Gatehouse {
    /// Starts a gate before the MCP server at `url`, which a key opens. Tokens live for an hour.
    pub async fn start(bind: SocketAddr, http: reqwest::Client, url: &str, key: &str) -> Result<Handle, io::Error> {
        let book = Mutex::new(Book { lives: 3600, ..Book::default() });
        let gate =
            Arc::new(Self { http, url: url.to_owned(), key: key.to_owned(), book, answers: watch::Sender::new(true) });
        let app = Router::new()
            .route("/.well-known/oauth-protected-resource/mcp", get(resource))
            .route("/.well-known/oauth-authorization-server", get(metadata))
            .route("/register", post(register))
            .route("/authorize", get(authorize))
            .route("/token", post(token))
            .route("/mcp", post(through))
            .with_state(Arc::clone(&gate));
        server::start(bind, gate, app, CancellationToken::new()).await
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Handle {
    /// How long tokens live from now on, in seconds.
    pub fn tokens_live(&self, seconds: u64) {
        self.system.book().lives = seconds;
    }

    /// How often a login was renewed.
    pub fn renewals(&self) -> u64 {
        self.system.book().renewals
    }

    /// How often somebody tried to renew with what had been used already.
    pub fn reuses(&self) -> u64 {
        self.system.book().reuses
    }

    /// Makes every token invalid before its time; logins can be renewed.
    pub fn revoke_tokens(&self) {
        self.system.book().valid.clear();
    }

    /// Ends every login.
    pub fn end_logins(&self) {
        let mut book = self.system.book();
        book.valid.clear();
        book.fresh.clear();
    }

    /// From now on, renewals are made but not answered, or are answered again.
    pub fn answer_renewals(&self, answers: bool) {
        self.system.answers.send_replace(answers);
    }

    /// From now on, this status is answered instead of a renewal.
    pub fn fail_renewals(&self, status: Option<u16>) {
        self.system.book().fails = status;
    }

    /// From now on, whoever is asked to consent says no.
    pub fn say_no(&self) {
        self.system.book().says_no = true;
    }

    /// A login of a client that registered itself: what `toolwright mcp login` would keep, issued at a moment.
    pub fn log_in(&self, issued_at: &str, expires_at: &str) -> Value {
        let mut book = self.system.book();
        book.clients.insert("client-0".into(), String::new());
        let (access, refresh) = book.issue();
        json!({ "tokenEndpoint": self.url("/token"), "clientId": "client-0", "resource": self.url("/mcp"),
            "accessToken": access, "refreshToken": refresh,
            "issuedAt": issued_at, "expiresAt": expires_at })
    }
}

impl Book {
    fn issue(&mut self) -> (String, String) {
        self.issued += 1;
        let (access, refresh) = (format!("gate-access-{:06}", self.issued), format!("gate-refresh-{:06}", self.issued));
        self.valid.insert(access.clone());
        self.fresh.insert(refresh.clone());
        (access, refresh)
    }
}

/// Where a request came to.
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

async fn register(State(gate): State<Arc<Gatehouse>>, Json(wanted): Json<Registration>) -> (StatusCode, Json<Value>) {
    let mut book = gate.book();
    let client = format!("client-{}", book.clients.len() + 1);
    book.clients.insert(client.clone(), wanted.redirect_uris.first().cloned().unwrap_or_default());
    (StatusCode::CREATED, Json(json!({ "client_id": client, "redirect_uris": wanted.redirect_uris })))
}

#[derive(Deserialize)]
struct Page {
    client_id: String,
    redirect_uri: String,
    state: String,
    code_challenge: String,
    code_challenge_method: String,
    resource: String,
}

async fn authorize(State(gate): State<Arc<Gatehouse>>, headers: HeaderMap, Query(page): Query<Page>) -> Response {
    let mut book = gate.book();
    let known = book.clients.get(&page.client_id) == Some(&page.redirect_uri);
    let meant = page.resource == format!("{}/mcp", origin(&headers));
    if !known || !meant || page.code_challenge_method != "S256" {
        return (StatusCode::BAD_REQUEST, "no such client, place or method").into_response();
    }
    let Page { client_id: client, redirect_uri: redirect, state, code_challenge: challenge, .. } = page;
    let back = if book.says_no {
        format!("{redirect}?error=access_denied&error_description=not%20today&state={state}")
    } else {
        let code = format!("code-{}", book.codes.len() + 1);
        let back = format!("{redirect}?code={code}&state={state}");
        book.codes.insert(code, Code { client, redirect, challenge });
        back
    };
    Redirect::to(&back).into_response()
}

#[derive(Deserialize)]
struct Asked {
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

async fn token(State(gate): State<Arc<Gatehouse>>, headers: HeaderMap, Form(asked): Form<Asked>) -> Response {
    let is_renewal = asked.grant_type == "refresh_token";
    let answer = gate.grant(&headers, asked);
    if is_renewal {
        // It lives as long as the gate.
        let _ = gate.answers.subscribe().wait_for(|answers| *answers).await;
    }
    answer
}

impl Gatehouse {
    fn grant(&self, headers: &HeaderMap, asked: Asked) -> Response {
        let refused = |error: &str| (StatusCode::BAD_REQUEST, Json(json!({ "error": error }))).into_response();
        let mut book = self.book();
        if !book.clients.contains_key(&asked.client_id) {
            return refused("invalid_client");
        }
        if asked.resource != format!("{}/mcp", origin(headers)) {
            return refused("invalid_target");
        }
        match asked.grant_type.as_str() {
            "authorization_code" => {
                let Some(code) = book.codes.remove(&asked.code) else { return refused("invalid_grant") };
                let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(&asked.code_verifier));
                if (code.client, code.redirect, code.challenge) != (asked.client_id, asked.redirect_uri, challenge) {
                    return refused("invalid_grant");
                }
            }
            "refresh_token" => {
                if let Some(status) = book.fails {
                    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
                    return (status, [(RETRY_AFTER, "7")], "<html>sorry</html>").into_response();
                }
                if book.used.contains(&asked.refresh_token) {
                    book.reuses += 1;
                    book.valid.clear();
                    book.fresh.clear();
                }
                if !book.fresh.remove(&asked.refresh_token) {
                    return refused("invalid_grant");
                }
                book.used.insert(asked.refresh_token);
                book.renewals += 1;
            }
            _ => return refused("unsupported_grant_type"),
        }
        let (access, refresh) = book.issue();
        let issued = json!({ "access_token": access, "refresh_token": refresh, "token_type": "Bearer", "expires_in": book.lives });
        Json(issued).into_response()
    }
}

/// Lets a request through to the server behind, if its token is good.
async fn through(State(gate): State<Arc<Gatehouse>>, uri: Uri, headers: HeaderMap, body: Bytes) -> Response {
    let token = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
    if !token.is_some_and(|token| gate.book().valid.contains(token)) {
        let place = format!("{}/.well-known/oauth-protected-resource{}", origin(&headers), uri.path());
        let challenge = format!("Bearer error=\"invalid_token\", resource_metadata=\"{place}\"");
        return (StatusCode::UNAUTHORIZED, [(WWW_AUTHENTICATE, challenge)]).into_response();
    }
    let mut request = gate.http.post(&gate.url).bearer_auth(&gate.key).body(body);
    let of_the_protocol = |name: &HeaderName| name.as_str().starts_with("mcp-");
    for (name, value) in &headers {
        if *name == ACCEPT || *name == CONTENT_TYPE || of_the_protocol(name) {
            request = request.header(name, value);
        }
    }
    let answered = async {
        let answer = request.send().await?;
        let (status, headers) = (answer.status(), answer.headers().clone());
        let kept = headers.into_iter().filter_map(|(name, value)| Some((name?, value)));
        let kept: HeaderMap = kept.filter(|(name, _)| *name == CONTENT_TYPE || of_the_protocol(name)).collect();
        reqwest::Result::Ok((status, kept, answer.bytes().await?).into_response())
    };
    answered.await.unwrap_or_else(|error| (StatusCode::BAD_GATEWAY, error.to_string()).into_response())
}
