//! OAuth2 tokens. Those of client credentials serve all calls until they expire, with one request for them however many wait.

use std::sync::Arc;
use std::time::{Duration, Instant};

use moka::Expiry;
use moka::ops::compute::Op;
use reqwest::StatusCode;
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue, RETRY_AFTER};
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use serde_json::Value;
use toolwright_types::{AuthConfig, AuthType, ErrorCode};
use url::Url;

use super::client::{Access, HttpClient, HttpRequest, HttpResponse};
use crate::ToolFailure;

/// No token is used for longer, whatever its endpoint announces.
const LONGEST: Duration = Duration::from_secs(86_400);
/// How long one is used of which nothing is said.
const UNSAID: Duration = Duration::from_secs(300);
/// How much earlier a token is replaced, so that it does not expire under way.
pub(super) const EARLY: Duration = Duration::from_secs(30);

/// Tokens that were issued and have not expired.
pub(super) struct Tokens(moka::future::Cache<String, Token>);

#[derive(Clone)]
struct Token {
    value: Arc<SecretString>,
    lives: Duration,
}

struct ByToken;

impl Expiry<String, Token> for ByToken {
    fn expire_after_create(&self, _key: &String, token: &Token, _now: Instant) -> Option<Duration> {
        Some(token.lives)
    }
}

impl Default for Tokens {
    fn default() -> Self {
        Self(moka::future::Cache::builder().max_capacity(10_000).expire_after(ByToken).build())
    }
}

/// What a token endpoint issues.
#[derive(Deserialize)]
pub(super) struct Issued {
    pub access_token: String,
    /// Seconds, which some servers write as text.
    #[serde(default)]
    expires_in: Value,
    #[serde(default)]
    pub refresh_token: Option<String>,
}

impl Issued {
    /// For how long the token is good, where that is said.
    pub fn lives(&self) -> Option<Duration> {
        let announced = self.expires_in.as_u64().or_else(|| self.expires_in.as_str()?.parse().ok());
        announced.map(Duration::from_secs)
    }
}

/// Whether tokens are issued to the client itself, for the secret it has.
pub(super) fn issues_tokens(auth: &AuthConfig) -> bool {
    auth.auth_type == AuthType::OAuth2 && !auth.is_login()
}

/// A token for `auth`, from the cache or from its endpoint.
pub(super) async fn token(
    http: &HttpClient,
    auth: &AuthConfig,
    secret: &SecretString,
    access: &Access<'_>,
) -> Result<Arc<SecretString>, ToolFailure> {
    let key = key(auth, secret);
    let issue = async { issue(http, auth, secret, access).await };
    let token = http.tokens().0.try_get_with(key, issue).await.map_err(|error: Arc<ToolFailure>| (*error).clone())?;
    Ok(token.value)
}

/// Forgets a token that the upstream no longer takes, unless another call has replaced it already.
pub(super) async fn forget(http: &HttpClient, auth: &AuthConfig, secret: &SecretString, refused: &Arc<SecretString>) {
    let entry = http.tokens().0.entry(key(auth, secret));
    entry
        .and_compute_with(|current| {
            let same = current.is_some_and(|current| Arc::ptr_eq(&current.into_value().value, refused));
            std::future::ready(if same { Op::Remove } else { Op::Nop })
        })
        .await;
}

fn key(auth: &AuthConfig, secret: &SecretString) -> String {
    let mut hasher = toolwright_types::json::Hasher::default();
    hasher.sequence(|items| {
        items.string(auth.token_endpoint.as_deref().unwrap_or_default());
        items.string(auth.client_id.as_deref().unwrap_or_default());
        auth.scopes.iter().for_each(|scope| items.string(scope));
        items.string(secret.expose_secret());
    });
    hasher.finish_hex()
}

async fn issue(
    http: &HttpClient,
    auth: &AuthConfig,
    secret: &SecretString,
    access: &Access<'_>,
) -> Result<Token, ToolFailure> {
    let url = auth.token_endpoint.as_deref().and_then(|text| Url::parse(text).ok());
    let url = url.ok_or_else(|| refuse("the provider has no usable tokenEndpoint"))?;
    let client = basic(auth.client_id.as_deref().unwrap_or_default(), secret.expose_secret().trim())?;
    let issued = ask(http, url, Some(client), form(auth), access).await?;
    let announced = issued.lives().unwrap_or(UNSAID);
    let lives = announced.saturating_sub(EARLY).clamp(Duration::from_secs(1), LONGEST);
    Ok(Token { value: Arc::new(SecretString::from(issued.access_token)), lives })
}

/// Asks a token endpoint.
pub(super) async fn ask(
    http: &HttpClient,
    url: Url,
    client: Option<HeaderValue>,
    form: String,
    access: &Access<'_>,
) -> Result<Issued, ToolFailure> {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-www-form-urlencoded"));
    headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
    let origin_headers = client.map(|client| (AUTHORIZATION, client)).into_iter().collect();
    let request = HttpRequest { method: reqwest::Method::POST, url, headers, origin_headers, body: Some(form.into()) };
    // Boxed, because sending needs tokens and tokens need sending.
    let response = Box::pin(http.send(request, access)).await?;
    if !response.status.is_success() {
        return Err(rejected(&response));
    }
    let issued = serde_json::from_slice(&response.body).ok().filter(|issued: &Issued| !issued.access_token.is_empty());
    issued.ok_or_else(|| refuse("the token endpoint's answer holds no access_token"))
}

fn refuse(message: &str) -> ToolFailure {
    ToolFailure::fatal(ErrorCode::AuthRequired, message).reason("oauth2_token")
}

/// Errors that a token endpoint may name; its other words are left out.
const NAMED: [&str; 7] = [
    "invalid_client",
    "invalid_grant",
    "invalid_request",
    "invalid_scope",
    "invalid_target",
    "unauthorized_client",
    "unsupported_grant_type",
];

/// Without the status of the answer: `errorHandling` is about the tool's own upstream.
fn rejected(response: &HttpResponse) -> ToolFailure {
    #[derive(Deserialize)]
    struct Said {
        error: String,
    }
    let status = response.status;
    let (code, retryable) = match status {
        StatusCode::TOO_MANY_REQUESTS => (ErrorCode::RateLimit, true),
        status if status.is_server_error() => (ErrorCode::ProviderError, true),
        _ => (ErrorCode::AuthRequired, false),
    };
    let mut failure = ToolFailure::fatal(code, format!("the token endpoint answered {status}")).reason("oauth2_token");
    failure.error.retry_after_s =
        response.headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.trim().parse().ok());
    let said = serde_json::from_slice::<Said>(&response.body).ok();
    if let Some(error) = said.and_then(|said| NAMED.into_iter().find(|name| *name == said.error)) {
        failure.error = failure.error.detail("oauth_error", error);
    }
    ToolFailure { retryable, ..failure }
}

/// Whether a token endpoint says that neither client nor grant will ever get another token.
pub(super) fn is_final(failure: &ToolFailure) -> bool {
    let said = failure.error.details.as_ref().and_then(|details| details.get("oauth_error")?.as_str());
    matches!(said, Some("invalid_client" | "invalid_grant" | "unauthorized_client"))
}

fn form(auth: &AuthConfig) -> String {
    let mut form = url::form_urlencoded::Serializer::new(String::new());
    form.append_pair("grant_type", "client_credentials");
    if !auth.scopes.is_empty() {
        form.append_pair("scope", &auth.scopes.join(" "));
    }
    form.finish()
}

/// The header by which a client proves who it is.
pub(super) fn basic(client: &str, secret: &str) -> Result<HeaderValue, ToolFailure> {
    use base64::Engine;
    // RFC 6749 §2.3.1: both are form-encoded first.
    let encode = |text: &str| url::form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
    let pair = format!("{}:{}", encode(client), encode(secret));
    let mut value = HeaderValue::from_str(&format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(pair)))
        .map_err(|_| refuse("the client id or secret cannot be sent"))?;
    value.set_sensitive(true);
    Ok(value)
}
