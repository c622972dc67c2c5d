//! OAuth2 access tokens. Tokens of the client credentials grant are cached until they expire. Concurrent calls share
//! one request for a token.

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

use super::client::{HttpClient, HttpRequest, HttpResponse, NetworkAccess};
use crate::ToolFailure;

/// The maximum time that a token is used, even if its endpoint announces a longer lifetime.
const MAX_TOKEN_LIFETIME: Duration = Duration::from_secs(86_400);
/// The time that a token is used if its endpoint announces no lifetime.
const DEFAULT_TOKEN_LIFETIME: Duration = Duration::from_secs(300);
/// A token is replaced this long before it expires, so that it does not expire during a request.
pub(super) const RENEWAL_MARGIN: Duration = Duration::from_secs(30);

/// Issued tokens that have not expired.
pub(super) struct TokenCache(moka::future::Cache<String, CachedToken>);

#[derive(Clone)]
struct CachedToken {
    value: Arc<SecretString>,
    lifetime: Duration,
}

struct TokenExpiry;

impl Expiry<String, CachedToken> for TokenExpiry {
    fn expire_after_create(&self, _key: &String, token: &CachedToken, _now: Instant) -> Option<Duration> {
        Some(token.lifetime)
    }
}

impl Default for TokenCache {
    fn default() -> Self {
        Self(moka::future::Cache::builder().max_capacity(10_000).expire_after(TokenExpiry).build())
    }
}

/// The response of a token endpoint.
#[derive(Deserialize)]
pub(super) struct TokenResponse {
    pub access_token: String,
    /// The lifetime in seconds. Some servers send the number as a string.
    #[serde(default)]
    expires_in: Value,
    #[serde(default)]
    pub refresh_token: Option<String>,
}

impl TokenResponse {
    /// Returns the announced lifetime of the token.
    pub(super) fn lifetime(&self) -> Option<Duration> {
        let announced = self.expires_in.as_u64().or_else(|| self.expires_in.as_str()?.parse().ok());
        announced.map(Duration::from_secs)
    }
}

/// Whether access tokens are requested with the client credentials grant. Otherwise the secret is a login, which
/// already contains an access token.
pub(crate) fn issues_tokens(auth: &AuthConfig) -> bool {
    auth.auth_type == AuthType::OAuth2 && !auth.is_login()
}

/// Returns a token for `auth`, from the cache or from its endpoint.
pub(crate) async fn token(
    http: &HttpClient,
    auth: &AuthConfig,
    secret: &SecretString,
    access: &NetworkAccess<'_>,
) -> Result<Arc<SecretString>, ToolFailure> {
    let key = key(auth, secret);
    let issue_token = async { issue_token(http, auth, secret, access).await };
    let token =
        http.tokens().0.try_get_with(key, issue_token).await.map_err(|error: Arc<ToolFailure>| (*error).clone())?;
    Ok(token.value)
}

/// Removes a rejected token from the cache, unless another call has already replaced it.
pub(crate) async fn invalidate(
    http: &HttpClient,
    auth: &AuthConfig,
    secret: &SecretString,
    refused: &Arc<SecretString>,
) {
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

async fn issue_token(
    http: &HttpClient,
    auth: &AuthConfig,
    secret: &SecretString,
    access: &NetworkAccess<'_>,
) -> Result<CachedToken, ToolFailure> {
    let url = auth.token_endpoint.as_deref().and_then(|text| Url::parse(text).ok());
    let url = url.ok_or_else(|| token_error("the tokenEndpoint of the provider is missing or not a URL"))?;
    let (id, client_secret) = client_credentials(auth, secret.expose_secret().trim())?;
    let client = basic_auth(id, client_secret)?;
    let issued = request_token(http, url, Some(client), client_credentials_form(auth), access).await?;
    let announced = issued.lifetime().unwrap_or(DEFAULT_TOKEN_LIFETIME);
    let lifetime = announced.saturating_sub(RENEWAL_MARGIN).clamp(Duration::from_secs(1), MAX_TOKEN_LIFETIME);
    Ok(CachedToken { value: Arc::new(SecretString::from(issued.access_token)), lifetime })
}

/// Returns the id and the secret of the client. Without a `clientId`, the secret contains both.
fn client_credentials<'a>(auth: &'a AuthConfig, secret: &'a str) -> Result<(&'a str, &'a str), ToolFailure> {
    match auth.client_id.as_deref() {
        Some(id) => Ok((id, secret)),
        None => secret.split_once(':').ok_or_else(|| {
            token_error("the provider has no `auth.clientId`, so its secret must be `clientId:clientSecret`")
        }),
    }
}

pub(super) async fn request_token(
    http: &HttpClient,
    url: Url,
    client: Option<HeaderValue>,
    form: String,
    access: &NetworkAccess<'_>,
) -> Result<TokenResponse, ToolFailure> {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-www-form-urlencoded"));
    headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
    let origin_headers = client.map(|client| (AUTHORIZATION, client)).into_iter().collect();
    let request = HttpRequest { method: reqwest::Method::POST, url, headers, origin_headers, body: Some(form.into()) };
    let response = Box::pin(http.send(request, access)).await?;
    if !response.status.is_success() {
        return Err(status_failure(&response));
    }
    let issued =
        serde_json::from_slice(&response.body).ok().filter(|issued: &TokenResponse| !issued.access_token.is_empty());
    issued.ok_or_else(|| token_error("the response of the token endpoint has no access_token"))
}

fn token_error(message: &str) -> ToolFailure {
    ToolFailure::fatal(ErrorCode::AuthRequired, message).reason("oauth2_token")
}

/// The OAuth error codes that are reported to the caller. All other text from the token endpoint is dropped.
const KNOWN_ERRORS: [&str; 7] = [
    "invalid_client",
    "invalid_grant",
    "invalid_request",
    "invalid_scope",
    "invalid_target",
    "unauthorized_client",
    "unsupported_grant_type",
];

/// Returns a failure without an HTTP status, because `errorHandling` applies only to the HTTP status of the tool's
/// upstream, not to that of the token endpoint.
fn status_failure(response: &HttpResponse) -> ToolFailure {
    #[derive(Deserialize)]
    struct ErrorBody {
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
    let body = serde_json::from_slice::<ErrorBody>(&response.body).ok();
    if let Some(error) = body.and_then(|body| KNOWN_ERRORS.into_iter().find(|name| *name == body.error)) {
        failure.error = failure.error.detail("oauth_error", error);
    }
    ToolFailure { retryable, ..failure }
}

/// Whether the endpoint rejected the client or the grant permanently.
pub(super) fn is_permanent(failure: &ToolFailure) -> bool {
    let body = failure.error.details.as_ref().and_then(|details| details.get("oauth_error")?.as_str());
    matches!(body, Some("invalid_client" | "invalid_grant" | "unauthorized_client"))
}

fn client_credentials_form(auth: &AuthConfig) -> String {
    let mut form = url::form_urlencoded::Serializer::new(String::new());
    form.append_pair("grant_type", "client_credentials");
    if !auth.scopes.is_empty() {
        form.append_pair("scope", &auth.scopes.join(" "));
    }
    form.finish()
}

/// Returns the Basic authentication header of a client.
pub(super) fn basic_auth(client: &str, secret: &str) -> Result<HeaderValue, ToolFailure> {
    use base64::Engine;
    // RFC 6749 §2.3.1 requires that client id and secret are form-encoded first.
    let encode = |text: &str| url::form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
    let pair = format!("{}:{}", encode(client), encode(secret));
    let mut value = HeaderValue::from_str(&format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(pair)))
        .map_err(|_| token_error("the client id or secret contains characters that are not allowed in a header"))?;
    value.set_sensitive(true);
    Ok(value)
}
