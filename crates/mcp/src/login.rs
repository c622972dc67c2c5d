//! Performs an OAuth 2.1 login to an MCP server. This module discovers the authorization server and registers a client.
//! The user consents in a browser. Then this module exchanges the authorization code for a token.

use std::time::Duration;

use rmcp::transport::AuthorizationManager;
use rmcp::transport::auth::{
    AuthError, AuthorizationCallback, AuthorizationMetadata, AuthorizationRequest, AuthorizationSession,
    OAuthTokenResponse,
};
use serde::Deserialize;
use serde_json::Value;
use toolwright_tools::http::Grant;
use toolwright_types::Timestamp;
use url::Url;

/// The name under which the client is registered.
const CLIENT_NAME: &str = "toolwright";

/// The maximum length of a server's error text in our messages.
const MAX_ERROR_CHARS: usize = 300;

/// The OAuth client to log in as. Without a client id or a metadata URL, a client is registered dynamically.
#[derive(Debug, Clone, Default)]
pub struct OAuthClient {
    /// The id of a client that is already registered with the authorization server.
    pub client_id: Option<String>,
    /// The secret of the registered client.
    pub client_secret: Option<String>,
    /// The URL of a client metadata document, for authorization servers that support them.
    pub client_metadata_url: Option<String>,
}

/// The parameters of a login.
pub struct OAuthLoginRequest<'a> {
    /// The URL of the MCP server.
    pub server: &'a str,
    /// The URI that the authorization server redirects the user to.
    pub redirect: &'a str,
    /// The OAuth client.
    pub client: &'a OAuthClient,
    /// The scopes to request. If empty, the scopes that the server suggests are requested.
    pub scopes: &'a [String],
    /// The `WWW-Authenticate` challenge of the server, if it rejected a request.
    pub challenge: Option<&'a str>,
    /// Whether the authorization server may have a private network address even if the MCP server has a public one.
    pub private: bool,
}

/// The reason why a login failed.
#[derive(Debug, thiserror::Error)]
pub enum OAuthLoginError {
    /// The user or the authorization server denied the login.
    #[error("the authorization server denied the login: {0}")]
    Refused(String),
    /// Dynamic client registration failed.
    #[error(
        "{0}; if you can register a client yourself, with the redirect `http://127.0.0.1:PORT/callback`, set it as `auth.clientId` of the provider and log in with `--port PORT`"
    )]
    Registration(AuthError),
    /// The server specifies an endpoint that does not use https. Plain http is allowed only if the MCP server itself
    /// uses http.
    #[error(
        "the server names the login endpoint `{0}`, which must be an https URL (http is accepted only if the MCP server itself uses http)"
    )]
    InsecureEndpoint(String),
    /// An HTTP request of the login failed.
    #[error(transparent)]
    Failed(#[from] AuthError),
}

/// A login that waits for the user's consent.
pub struct OAuthLogin {
    session: AuthorizationSession,
    client_secret: Option<String>,
    metadata: AuthorizationMetadata,
}

impl OAuthLogin {
    /// Discovers the authorization server, and registers a client if necessary.
    pub async fn begin(request: OAuthLoginRequest<'_>) -> Result<Self, OAuthLoginError> {
        let OAuthLoginRequest { server, redirect, client, scopes, challenge, private } = request;
        let mut manager = match private {
            true => AuthorizationManager::new_allowing_private_addresses(server).await?,
            false => AuthorizationManager::new(server).await?,
        };
        let metadata = manager.resolve_metadata_from_challenge(challenge).await?.metadata;
        let endpoints = [
            Some(&metadata.authorization_endpoint),
            Some(&metadata.token_endpoint),
            metadata.registration_endpoint.as_ref(),
        ];
        for endpoint in endpoints.into_iter().flatten() {
            check_endpoint(server, endpoint)?;
        }
        manager.set_metadata(metadata.clone());
        let mut request =
            AuthorizationRequest::new(redirect).with_client_name(CLIENT_NAME).with_scopes(scopes.iter().cloned());
        let mut client_secret = client.client_secret.clone();
        if let Some(client) = &client.client_id {
            request = request.with_preregistered_client(client);
        } else if let Some(document) = &client.client_metadata_url
            && metadata_field(&metadata, "client_id_metadata_document_supported") == Some(&Value::Bool(true))
        {
            request = request.with_client_metadata_url(document);
        } else {
            // The client is registered here and not by rmcp's authorization session. That session does not return the
            // issued client secret, which is needed to renew the token.
            let requested = if scopes.is_empty() { manager.select_scopes(None, &[]) } else { scopes.to_vec() };
            let requested: Vec<&str> = requested.iter().map(String::as_str).collect();
            let registered = manager
                .register_client(CLIENT_NAME, redirect, &requested)
                .await
                .map_err(OAuthLoginError::Registration)?;
            request = request.with_preregistered_client(registered.client_id);
            client_secret = registered.client_secret;
        }
        if let Some(secret) = &client_secret {
            request = request.with_client_secret(secret);
        }
        let session = AuthorizationSession::new(manager, request).await.map_err(|(_, error)| error)?;
        Ok(Self { session, client_secret, metadata })
    }

    /// The URL of the page on which the user logs in and consents.
    pub fn url(&self) -> &str {
        self.session.get_authorization_url()
    }

    /// Whether `redirected_to` is the redirect that ends this login. It must have the same `state` parameter as the
    /// authorization URL.
    pub fn is_callback(&self, redirected_to: &str) -> bool {
        let state = |url: &str| query_param(&Url::parse(url).ok()?, "state");
        state(redirected_to).is_some_and(|returned| Some(returned) == state(self.url()))
    }

    /// Exchanges the authorization code in the redirect for a token. Returns the grant, with `now` as its issue time,
    /// and rmcp's manager that contains the credentials.
    pub async fn finish(
        self,
        redirected_to: &str,
        now: Timestamp,
    ) -> Result<(Grant, AuthorizationManager), OAuthLoginError> {
        if let Some(redirect_error) = redirect_error(redirected_to) {
            return Err(OAuthLoginError::Refused(redirect_error));
        }
        let callback = AuthorizationCallback::from_redirect_url(redirected_to)?;
        let issuer = callback.issuer.as_deref();
        let token = self.session.handle_callback_with_issuer(&callback.code, &callback.csrf_token, issuer).await?;
        let grant = self.grant(&token, now)?;
        Ok((grant, self.session.auth_manager))
    }

    fn grant(&self, token: &OAuthTokenResponse, now: Timestamp) -> Result<Grant, AuthError> {
        #[derive(Deserialize)]
        struct Issued {
            access_token: String,
            refresh_token: Option<String>,
            expires_in: Option<u64>,
        }
        let invalid = |error: serde_json::Error| AuthError::InternalError(error.to_string());
        let issued: Issued = serde_json::to_value(token).and_then(serde_json::from_value).map_err(invalid)?;
        if issued.access_token.is_empty() {
            return Err(AuthError::TokenExchangeFailed("the access token is empty".into()));
        }
        let authorization_url = Url::parse(self.url())?;
        Ok(Grant {
            token_endpoint: self.metadata.token_endpoint.clone(),
            client_id: query_param(&authorization_url, "client_id").unwrap_or_default(),
            client_secret: self.client_secret.clone(),
            secret_in_form: uses_secret_post(&self.metadata),
            resource: query_param(&authorization_url, "resource"),
            access_token: issued.access_token,
            refresh_token: issued.refresh_token.filter(|token| !token.is_empty()),
            issued_at: now,
            expires_at: issued.expires_in.map(|seconds| now.saturating_add(Duration::from_secs(seconds))),
        })
    }
}

/// Returns a query parameter of a URL.
fn query_param(url: &Url, name: &str) -> Option<String> {
    url.query_pairs().find(|(key, _)| key == name).map(|(_, value)| value.into_owned())
}

fn metadata_field<'a>(metadata: &'a AuthorizationMetadata, field: &str) -> Option<&'a Value> {
    metadata.additional_fields.get(field)
}

/// Whether the authorization server accepts the client secret only in the request body and not in the `Authorization`
/// header. rmcp uses the same rule.
fn uses_secret_post(metadata: &AuthorizationMetadata) -> bool {
    let methods = metadata_field(metadata, "token_endpoint_auth_methods_supported").and_then(Value::as_array);
    let supports = |method: &str| methods.is_some_and(|all| all.iter().any(|known| known == method));
    supports("client_secret_post") && !supports("client_secret_basic")
}

/// Checks an endpoint to which the browser or secrets are sent. It must use https. Plain http is accepted only if the
/// MCP server itself uses http.
fn check_endpoint(server: &str, endpoint: &str) -> Result<(), OAuthLoginError> {
    let is_plain_http = |url: &str| url.starts_with("http://");
    let url = Url::parse(endpoint)
        .ok()
        .filter(|url| url.scheme() == "https" || (url.scheme() == "http" && is_plain_http(server)));
    url.map(drop).ok_or_else(|| OAuthLoginError::InsecureEndpoint(endpoint.chars().take(MAX_ERROR_CHARS).collect()))
}

/// Returns the error in a redirect that contains no authorization code.
fn redirect_error(redirected_to: &str) -> Option<String> {
    let url = Url::parse(redirected_to).ok()?;
    let error = query_param(&url, "error")?;
    let text = match query_param(&url, "error_description") {
        Some(description) => format!("{error} ({description})"),
        None => error,
    };
    Some(text.chars().take(MAX_ERROR_CHARS).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirect_error_is_returned_and_truncated_to_the_maximum_length() {
        for (url, expected) in [
            ("http://127.0.0.1:1/callback?code=c&state=s", None),
            ("http://127.0.0.1:1/callback?error=access_denied&state=s", Some("access_denied")),
            (
                "http://127.0.0.1:1/callback?error=access_denied&error_description=not%20today",
                Some("access_denied (not today)"),
            ),
        ] {
            assert_eq!(redirect_error(url).as_deref(), expected, "{url}");
        }
        let long = format!("http://127.0.0.1:1/callback?error={}", "x".repeat(5000));
        assert_eq!(redirect_error(&long).map(|error| error.len()), Some(MAX_ERROR_CHARS));
    }

    #[test]
    fn oauth_endpoint_must_use_https_unless_the_mcp_server_uses_http() {
        for (server, endpoint, accepted) in [
            ("https://a/mcp", "https://b/authorize", true),
            ("http://a/mcp", "https://b/authorize", true),
            ("http://127.0.0.1:1/mcp", "http://127.0.0.1:2/authorize", true),
            ("https://a/mcp", "http://b/token", false),
            ("https://a/mcp", "file:///usr/share/applications/x.desktop", false),
            ("http://a/mcp", "javascript:alert(1)", false),
            ("http://a/mcp", "smb://b/share", false),
            ("http://a/mcp", "no place", false),
        ] {
            assert_eq!(check_endpoint(server, endpoint).is_ok(), accepted, "{server} {endpoint}");
        }
    }

    #[test]
    fn client_secret_is_sent_in_the_body_only_if_basic_auth_is_not_supported() {
        for (methods, in_form) in [
            (serde_json::json!(["client_secret_post"]), true),
            (serde_json::json!(["client_secret_basic", "client_secret_post"]), false),
            (serde_json::json!(["none"]), false),
            (Value::Null, false),
        ] {
            let mut metadata = AuthorizationMetadata::default();
            metadata.additional_fields.insert("token_endpoint_auth_methods_supported".into(), methods.clone());
            assert_eq!(uses_secret_post(&metadata), in_form, "{methods}");
        }
    }
}
