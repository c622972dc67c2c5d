//! One attempt of an HTTP tool: render the request, authenticate, send, interpret the response.

use futures::future::BoxFuture;
use reqwest::StatusCode;
use reqwest::header::{AUTHORIZATION, HeaderName, HeaderValue};
use secrecy::{ExposeSecret, SecretString};
use toolwright_types::{AuthConfig, AuthType, ErrorCode, SideEffects};

use super::interpret;
use crate::ToolFailure;
use crate::executor::{Attempt, Backend, BackendReply, Redactor};
use crate::http_client::{HttpClient, HttpRequest, NetworkAccess, oauth};

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const CORRELATION_ID: HeaderName = HeaderName::from_static("x-correlation-id");
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The backend of EXTERNAL_REST and HELIX tools.
pub struct HttpBackend {
    http: HttpClient,
}

impl HttpBackend {
    /// Creates a backend that sends through `http`.
    pub fn new(http: HttpClient) -> Self {
        Self { http }
    }

    async fn call(&self, attempt: Attempt<'_>) -> Result<BackendReply, ToolFailure> {
        let (mut request, warnings) = request(&attempt)?;
        let access = access(&attempt);
        let mut reply = match credential(&attempt) {
            Some((auth, secret)) if oauth::issues_tokens(auth) => {
                self.with_token(request, auth, secret, &access, &attempt).await?
            }
            Some((auth, secret)) => {
                authenticate(&mut request, auth, secret)?;
                self.send(request, &access, &attempt, None).await?
            }
            None => self.send(request, &access, &attempt, None).await?,
        };
        reply.warnings.splice(0..0, warnings);
        Ok(reply)
    }

    /// Sends the request with an access token. If the upstream answers 401, requests a new token and sends once more.
    async fn with_token(
        &self,
        request: HttpRequest,
        auth: &AuthConfig,
        secret: &SecretString,
        access: &NetworkAccess<'_>,
        attempt: &Attempt<'_>,
    ) -> Result<BackendReply, ToolFailure> {
        let refused = StatusCode::UNAUTHORIZED.as_u16();
        for last in [false, true] {
            let token = oauth::token(&self.http, auth, secret, access).await?;
            let mut request = request.duplicate();
            request.origin_headers.insert(AUTHORIZATION, sensitive(&format!("Bearer {}", token.expose_secret()))?);
            match self.send(request, access, attempt, Some(&token)).await {
                Err(failure) if failure.http_status == Some(refused) && !last => {
                    oauth::invalidate(&self.http, auth, secret, &token).await;
                }
                result => return result,
            }
        }
        Err(ToolFailure::fatal(ErrorCode::AuthRequired, "the upstream rejected a new access token")
            .reason("oauth2_token"))
    }

    /// Sends the request. Redacts an access token here, because the executor redacts only the secrets that it knows.
    async fn send(
        &self,
        request: HttpRequest,
        access: &NetworkAccess<'_>,
        attempt: &Attempt<'_>,
        token: Option<&SecretString>,
    ) -> Result<BackendReply, ToolFailure> {
        let response = self.http.send(request, access).await?;
        match token {
            None => interpret(response, attempt.clock, attempt.redactor).await,
            Some(token) => {
                let redactor = Redactor::new(attempt.secrets.values().chain([token]));
                let reply = interpret(response, attempt.clock, &redactor).await;
                reply.map(|reply| reply.redacted(&redactor)).map_err(|failure| failure.redacted(&redactor))
            }
        }
    }
}

impl Backend for HttpBackend {
    fn attempt<'a>(&'a self, attempt: Attempt<'a>) -> BoxFuture<'a, Result<BackendReply, ToolFailure>> {
        Box::pin(self.call(attempt))
    }
}

/// A rendered request with credentials, for backends of other protocols over HTTP, such as gRPC.
pub struct OutgoingRequest<'a> {
    /// The request, with its credentials.
    pub request: HttpRequest,
    /// The egress rules and the client certificate.
    pub access: NetworkAccess<'a>,
    /// The access token, which the executor does not know and therefore does not redact.
    pub token: Option<std::sync::Arc<SecretString>>,
    /// Warnings about the request.
    pub warnings: Vec<String>,
}

/// Renders the request of a tool for its input and adds the credentials of its provider.
pub async fn prepare_request<'a>(http: &HttpClient, attempt: &Attempt<'a>) -> Result<OutgoingRequest<'a>, ToolFailure> {
    let (mut request, warnings) = request(attempt)?;
    let (access, mut token) = (access(attempt), None);
    match credential(attempt) {
        Some((auth, secret)) if oauth::issues_tokens(auth) => {
            let fresh = oauth::token(http, auth, secret, &access).await?;
            request.origin_headers.insert(AUTHORIZATION, sensitive(&format!("Bearer {}", fresh.expose_secret()))?);
            token = Some(fresh);
        }
        Some((auth, secret)) => authenticate(&mut request, auth, secret)?,
        None => {}
    }
    Ok(OutgoingRequest { request, access, token, warnings })
}

/// Renders the request without credentials, and returns warnings about it.
fn request(attempt: &Attempt<'_>) -> Result<(HttpRequest, Vec<String>), ToolFailure> {
    let tool = attempt.tool;
    let plan =
        tool.http.as_ref().ok_or_else(|| ToolFailure::fatal(ErrorCode::Unknown, "the tool has no HTTP invocation"))?;
    let (mut request, warnings) = plan.request(tool.provider.as_deref(), attempt.input)?;
    if tool.effects == SideEffects::Writes
        && let Ok(key) = HeaderValue::from_str(attempt.idempotency_key.as_str())
    {
        request.origin_headers.insert(IDEMPOTENCY_KEY, key);
    }
    add_ids(&mut request, attempt);
    Ok((request, warnings))
}

/// Adds ids that connect the request with the logs and the journal of this server. If the operator of the upstream asks
/// about a request, the ids tell which call sent it. The definition may set these headers itself.
fn add_ids(request: &mut HttpRequest, attempt: &Attempt<'_>) {
    let correlation = attempt.cx.caller.correlation_id.as_ref().map(|id| HeaderValue::from_str(id.as_str()));
    // Unlike a random id, this id identifies the run and the call in the journal. All attempts of a call have the same
    // id.
    let call = HeaderValue::from_str(&format!("{}-{}", attempt.cx.run, attempt.call_id));
    for (name, value) in [(CORRELATION_ID, correlation), (REQUEST_ID, Some(call))] {
        if let Some(Ok(value)) = value {
            request.origin_headers.entry(name).or_insert(value);
        }
    }
}

fn access<'a>(attempt: &Attempt<'a>) -> NetworkAccess<'a> {
    match attempt.tool.provider.as_deref().map(|provider| &provider.config) {
        None => NetworkAccess::default(),
        Some(config) => NetworkAccess {
            allow: &config.egress_allow,
            certificate: config.auth.certificate_ref().and_then(|name| attempt.secrets.get(name)),
        },
    }
}

fn credential<'a>(attempt: &Attempt<'a>) -> Option<(&'a AuthConfig, &'a SecretString)> {
    let auth = &attempt.tool.provider.as_deref()?.config.auth;
    Some((auth, attempt.secrets.get(auth.secret_ref.as_ref()?)?))
}

impl HttpClient {
    /// Returns the authentication header, for connections that are opened once and reused.
    pub async fn credential(
        &self,
        auth: &AuthConfig,
        secret: &SecretString,
        access: &NetworkAccess<'_>,
    ) -> Result<Option<(HeaderName, HeaderValue)>, ToolFailure> {
        if oauth::issues_tokens(auth) {
            let token = oauth::token(self, auth, secret, access).await?;
            return Ok(Some((AUTHORIZATION, sensitive(&format!("Bearer {}", token.expose_secret()))?)));
        }
        fixed_credential(auth, secret)
    }
}

fn authenticate(request: &mut HttpRequest, auth: &AuthConfig, secret: &SecretString) -> Result<(), ToolFailure> {
    request.origin_headers.extend(fixed_credential(auth, secret)?.map(|(name, value)| (Some(name), value)));
    Ok(())
}

/// Returns the header that sends the secret itself: a bearer token, an API key or the access token of a login.
fn fixed_credential(
    auth: &AuthConfig,
    secret: &SecretString,
) -> Result<Option<(HeaderName, HeaderValue)>, ToolFailure> {
    let secret = secret.expose_secret().trim();
    match auth.auth_type {
        AuthType::Bearer | AuthType::OAuth2 => Ok(Some((AUTHORIZATION, sensitive(&format!("Bearer {secret}"))?))),
        AuthType::ApiKey => {
            let name = auth.header_name.as_deref().unwrap_or("x-api-key");
            let name: HeaderName =
                name.parse().map_err(|_| ToolFailure::invalid(format!("`{name}` is not a valid header name")))?;
            Ok(Some((name, sensitive(secret)?)))
        }
        AuthType::None | AuthType::Mtls => Ok(None),
    }
}

fn sensitive(text: &str) -> Result<HeaderValue, ToolFailure> {
    let mut value = HeaderValue::from_str(text).map_err(|_| {
        ToolFailure::fatal(ErrorCode::AuthRequired, "the secret contains characters that are not allowed in a header")
            .reason("secret")
    })?;
    value.set_sensitive(true);
    Ok(value)
}
