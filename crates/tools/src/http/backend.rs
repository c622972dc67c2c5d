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
        let tool = attempt.tool;
        let plan = tool
            .http
            .as_ref()
            .ok_or_else(|| ToolFailure::fatal(ErrorCode::Unknown, "the tool has no HTTP invocation"))?;
        let provider = tool.provider.as_deref();
        let (mut request, warnings) = plan.request(provider, attempt.input)?;
        if tool.effects == SideEffects::Writes
            && let Ok(key) = HeaderValue::from_str(attempt.idempotency_key)
        {
            request.origin_headers.insert(IDEMPOTENCY_KEY, key);
        }
        let mut reply = match provider.map(|provider| &provider.config) {
            None => self.send(request, &Access::default(), &attempt, None).await?,
            Some(config) => {
                let certificate = config.auth.cert_ref.as_ref().and_then(|name| attempt.secrets.get(name));
                let access = Access { allow: &config.egress_allow, certificate };
                let secret = config.auth.secret_ref.as_ref().and_then(|name| attempt.secrets.get(name));
                match (config.auth.auth_type, secret) {
                    (AuthType::OAuth2, Some(secret)) => {
                        self.with_token(request, &config.auth, secret, &access, &attempt).await?
                    }
                    (_, Some(secret)) => {
                        authenticate(&mut request, &config.auth, secret)?;
                        self.send(request, &access, &attempt, None).await?
                    }
                    (_, None) => self.send(request, &access, &attempt, None).await?,
                }
            }
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

impl HttpClient {
    /// The header that proves who is calling, for a connection that is made once and used often.
    pub async fn credential(
        &self,
        auth: &AuthConfig,
        secret: &SecretString,
        access: &Access<'_>,
    ) -> Result<Option<(HeaderName, HeaderValue)>, ToolFailure> {
        if auth.auth_type == AuthType::OAuth2 {
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

/// A credential that is the secret itself.
fn fixed_credential(
    auth: &AuthConfig,
    secret: &SecretString,
) -> Result<Option<(HeaderName, HeaderValue)>, ToolFailure> {
    let secret = secret.expose_secret().trim();
    match auth.auth_type {
        AuthType::Bearer => Ok(Some((AUTHORIZATION, sensitive(&format!("Bearer {secret}"))?))),
        AuthType::ApiKey => {
            let name = auth.header_name.as_deref().unwrap_or("x-api-key");
            let name: HeaderName =
                name.parse().map_err(|_| ToolFailure::invalid(format!("`{name}` is no header name")))?;
            Ok(Some((name, sensitive(secret)?)))
        }
        AuthType::None | AuthType::OAuth2 | AuthType::Mtls => Ok(None),
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
