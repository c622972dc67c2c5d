//! One attempt at an HTTP tool: render, authenticate, send, interpret.

use futures::future::BoxFuture;
use reqwest::StatusCode;
use reqwest::header::{AUTHORIZATION, HeaderName, HeaderValue};
use secrecy::{ExposeSecret, SecretString};
use toolwright_types::{AuthConfig, AuthType, ErrorCode, SideEffects};

use super::client::{Access, HttpClient, HttpRequest};
use super::{interpret, oauth};
use crate::ToolFailure;
use crate::executor::{Attempt, Backend, Redactor, Reply};

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// The backend of EXTERNAL_REST and HELIX tools.
pub struct HttpBackend {
    http: HttpClient,
}

impl HttpBackend {
    /// A backend that sends through `http`.
    pub fn new(http: HttpClient) -> Self {
        Self { http }
    }

    async fn call(&self, attempt: Attempt<'_>) -> Result<Reply, ToolFailure> {
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

    /// Sends with an access token; one that is refused is replaced once.
    async fn with_token(
        &self,
        request: HttpRequest,
        auth: &AuthConfig,
        secret: &SecretString,
        access: &Access<'_>,
        attempt: &Attempt<'_>,
    ) -> Result<Reply, ToolFailure> {
        let refused = StatusCode::UNAUTHORIZED.as_u16();
        for last in [false, true] {
            let token = oauth::token(&self.http, auth, secret, access).await?;
            let mut request = request.duplicate();
            request.origin_headers.insert(AUTHORIZATION, sensitive(&format!("Bearer {}", token.expose_secret()))?);
            match self.send(request, access, attempt, Some(&token)).await {
                Err(failure) if failure.http_status == Some(refused) && !last => {
                    oauth::forget(&self.http, auth, secret, &token).await;
                }
                result => return result,
            }
        }
        Err(ToolFailure::fatal(ErrorCode::AuthRequired, "the upstream refuses every token").reason("oauth2_token"))
    }

    /// The executor removes the call's own secrets; a token it has never seen is removed here.
    async fn send(
        &self,
        request: HttpRequest,
        access: &Access<'_>,
        attempt: &Attempt<'_>,
        token: Option<&SecretString>,
    ) -> Result<Reply, ToolFailure> {
        let response = self.http.send(request, access).await?;
        match token {
            None => interpret(response, attempt.clock, attempt.redactor),
            Some(token) => {
                let redactor = Redactor::new(attempt.secrets.values().chain([token]));
                let reply = interpret(response, attempt.clock, &redactor);
                reply.map(|reply| reply.redacted(&redactor)).map_err(|failure| failure.redacted(&redactor))
            }
        }
    }
}

impl Backend for HttpBackend {
    fn attempt<'a>(&'a self, attempt: Attempt<'a>) -> BoxFuture<'a, Result<Reply, ToolFailure>> {
        Box::pin(self.call(attempt))
    }
}

/// A request that is ready to go out, for a backend that speaks another protocol over HTTP.
pub struct Outgoing<'a> {
    /// The request, with its credentials.
    pub request: HttpRequest,
    /// Under which rules, and with which certificate.
    pub access: Access<'a>,
    /// A token that is a secret and that the executor does not know.
    pub token: Option<std::sync::Arc<SecretString>>,
    /// What was odd about it.
    pub warnings: Vec<String>,
}

/// The request that a tool's definition makes of an input, with the credentials of its provider.
pub async fn outgoing<'a>(http: &HttpClient, attempt: &Attempt<'a>) -> Result<Outgoing<'a>, ToolFailure> {
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
    Ok(Outgoing { request, access, token, warnings })
}

/// The request without credentials, and what was odd about it.
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
    Ok((request, warnings))
}

fn access<'a>(attempt: &Attempt<'a>) -> Access<'a> {
    match attempt.tool.provider.as_deref().map(|provider| &provider.config) {
        None => Access::default(),
        Some(config) => Access {
            allow: &config.egress_allow,
            certificate: config.auth.cert_ref.as_ref().and_then(|name| attempt.secrets.get(name)),
        },
    }
}

fn credential<'a>(attempt: &Attempt<'a>) -> Option<(&'a AuthConfig, &'a SecretString)> {
    let auth = &attempt.tool.provider.as_deref()?.config.auth;
    Some((auth, attempt.secrets.get(auth.secret_ref.as_ref()?)?))
}

impl HttpClient {
    /// The header that proves who is calling, for a connection that is made once and used often.
    pub async fn credential(
        &self,
        auth: &AuthConfig,
        secret: &SecretString,
        access: &Access<'_>,
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

/// A credential that is the secret itself, or the token that a login has now.
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
                name.parse().map_err(|_| ToolFailure::invalid(format!("`{name}` is no header name")))?;
            Ok(Some((name, sensitive(secret)?)))
        }
        AuthType::None | AuthType::Mtls => Ok(None),
    }
}

fn sensitive(text: &str) -> Result<HeaderValue, ToolFailure> {
    let mut value = HeaderValue::from_str(text).map_err(|_| {
        ToolFailure::fatal(ErrorCode::AuthRequired, "the secret holds characters that no header can carry")
            .reason("secret")
    })?;
    value.set_sensitive(true);
    Ok(value)
}
