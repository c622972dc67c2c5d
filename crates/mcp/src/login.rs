//! Logging in to an MCP server by OAuth 2.1: up to the page that a person sees, and on from where that page leads them.

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

/// What we call ourselves where we are registered.
const NAME: &str = "toolwright";

/// How much of a server's words is repeated.
const MOST_WORDS: usize = 300;

/// As whom to log in, where that is known. Otherwise we are registered when we come.
#[derive(Debug, Clone, Default)]
pub struct Authorize {
    /// A client that the authorization server knows already.
    pub client_id: Option<String>,
    /// Its secret.
    pub client_secret: Option<String>,
    /// Where a document about us is, for authorization servers that read such documents.
    pub client_metadata_url: Option<String>,
}

/// Where to log in, and for what.
pub struct LoginRequest<'a> {
    /// The MCP server.
    pub server: &'a str,
    /// Where the authorization server sends the person afterwards.
    pub redirect: &'a str,
    /// As whom.
    pub client: &'a Authorize,
    /// For what; for what the server suggests when empty.
    pub scopes: &'a [String],
    /// What the server said when it refused a request.
    pub challenge: Option<&'a str>,
    /// Whether the authorization server may be in a private network although the MCP server is not.
    pub private: bool,
}

/// Why nobody was let in.
#[derive(Debug, thiserror::Error)]
pub enum LoginError {
    /// The person or the authorization server said no.
    #[error("the authorization server refuses: {0}")]
    Refused(String),
    /// We cannot be registered.
    #[error(
        "{0}; if you can register a client yourself, with the redirect `http://127.0.0.1:PORT/callback`, name it in the provider's `auth.clientId` and log in with `--port PORT`"
    )]
    Registration(AuthError),
    /// It would go where nobody should be sent.
    #[error(
        "the server names `{0}`, which is no place to log in: it takes https, or http where the server itself is no better"
    )]
    Place(String),
    /// Something along the way failed.
    #[error(transparent)]
    Failed(#[from] AuthError),
}

/// A login that waits for a person.
pub struct Login {
    session: AuthorizationSession,
    client_secret: Option<String>,
    metadata: AuthorizationMetadata,
}

impl Login {
    /// Finds out where to log in, and makes us known there if need be.
    pub async fn begin(wanted: LoginRequest<'_>) -> Result<Self, LoginError> {
        let LoginRequest { server, redirect, client, scopes, challenge, private } = wanted;
        let mut manager = match private {
            true => AuthorizationManager::new_allowing_private_addresses(server).await?,
            false => AuthorizationManager::new(server).await?,
        };
        let metadata = manager.resolve_metadata_from_challenge(challenge).await?.metadata;
        let places = [
            Some(&metadata.authorization_endpoint),
            Some(&metadata.token_endpoint),
            metadata.registration_endpoint.as_ref(),
        ];
        for place in places.into_iter().flatten() {
            check_place(server, place)?;
        }
        manager.set_metadata(metadata.clone());
        let mut request =
            AuthorizationRequest::new(redirect).with_client_name(NAME).with_scopes(scopes.iter().cloned());
        let mut client_secret = client.client_secret.clone();
        if let Some(client) = &client.client_id {
            request = request.with_preregistered_client(client);
        } else if let Some(document) = &client.client_metadata_url
            && says(&metadata, "client_id_metadata_document_supported") == Some(&Value::Bool(true))
        {
            request = request.with_client_metadata_url(document);
        } else {
            // Not left to the session: it would keep the secret that we are given, and renewals need it.
            let wanted = if scopes.is_empty() { manager.select_scopes(None, &[]) } else { scopes.to_vec() };
            let wanted: Vec<&str> = wanted.iter().map(String::as_str).collect();
            let registered =
                manager.register_client(NAME, redirect, &wanted).await.map_err(LoginError::Registration)?;
            request = request.with_preregistered_client(registered.client_id);
            client_secret = registered.client_secret;
        }
        if let Some(secret) = &client_secret {
            request = request.with_client_secret(secret);
        }
        let session = AuthorizationSession::new(manager, request).await.map_err(|(_, error)| error)?;
        Ok(Self { session, client_secret, metadata })
    }

    /// The page where somebody logs in and consents.
    pub fn url(&self) -> &str {
        self.session.get_authorization_url()
    }

    /// Whether this is the way back from that page, and not from another or from nowhere.
    pub fn leads_to(&self, redirected_to: &str) -> bool {
        let state = |url: &str| said(&Url::parse(url).ok()?, "state");
        state(redirected_to).is_some_and(|told| Some(told) == state(self.url()))
    }

    /// Takes what the person was sent back with: what was granted at `now`, and who can prove it.
    pub async fn finish(
        self,
        redirected_to: &str,
        now: Timestamp,
    ) -> Result<(Grant, AuthorizationManager), LoginError> {
        if let Some(refusal) = refusal(redirected_to) {
            return Err(LoginError::Refused(refusal));
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
        let odd = |error: serde_json::Error| AuthError::InternalError(error.to_string());
        let issued: Issued = serde_json::to_value(token).and_then(serde_json::from_value).map_err(odd)?;
        if issued.access_token.is_empty() {
            return Err(AuthError::TokenExchangeFailed("the token is empty".into()));
        }
        let page = Url::parse(self.url())?;
        Ok(Grant {
            token_endpoint: self.metadata.token_endpoint.clone(),
            client_id: said(&page, "client_id").unwrap_or_default(),
            client_secret: self.client_secret.clone(),
            secret_in_form: wants_secret_in_form(&self.metadata),
            resource: said(&page, "resource"),
            access_token: issued.access_token,
            refresh_token: issued.refresh_token.filter(|token| !token.is_empty()),
            issued_at: now,
            expires_at: issued.expires_in.map(|lives| now.later(Duration::from_secs(lives))),
        })
    }
}

/// What a URL says in its query.
fn said(url: &Url, name: &str) -> Option<String> {
    url.query_pairs().find(|(key, _)| key == name).map(|(_, value)| value.into_owned())
}

fn says<'a>(metadata: &'a AuthorizationMetadata, field: &str) -> Option<&'a Value> {
    metadata.additional_fields.get(field)
}

/// Whether an authorization server takes a client's secret in a form and not in a header; the library decides likewise.
fn wants_secret_in_form(metadata: &AuthorizationMetadata) -> bool {
    let methods = says(metadata, "token_endpoint_auth_methods_supported").and_then(Value::as_array);
    let takes = |method: &str| methods.is_some_and(|all| all.iter().any(|known| known == method));
    takes("client_secret_post") && !takes("client_secret_basic")
}

/// A browser is sent there, or secrets are: never to a file or a program, and not in the clear because somebody says so.
fn check_place(server: &str, place: &str) -> Result<(), LoginError> {
    let is_open = |url: &str| url.starts_with("http://");
    let url =
        Url::parse(place).ok().filter(|url| url.scheme() == "https" || (url.scheme() == "http" && is_open(server)));
    url.map(drop).ok_or_else(|| LoginError::Place(place.chars().take(MOST_WORDS).collect()))
}

/// What an authorization server says when it sends somebody back with nothing.
fn refusal(redirected_to: &str) -> Option<String> {
    let url = Url::parse(redirected_to).ok()?;
    let error = said(&url, "error")?;
    let whole = match said(&url, "error_description") {
        Some(description) => format!("{error} ({description})"),
        None => error,
    };
    Some(whole.chars().take(MOST_WORDS).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_read_from_the_way_back() {
        for (url, said) in [
            ("http://127.0.0.1:1/callback?code=c&state=s", None),
            ("http://127.0.0.1:1/callback?error=access_denied&state=s", Some("access_denied")),
            (
                "http://127.0.0.1:1/callback?error=access_denied&error_description=not%20today",
                Some("access_denied (not today)"),
            ),
        ] {
            assert_eq!(refusal(url).as_deref(), said, "{url}");
        }
        let long = format!("http://127.0.0.1:1/callback?error={}", "x".repeat(5000));
        assert_eq!(refusal(&long).map(|said| said.len()), Some(MOST_WORDS));
    }

    #[test]
    fn nobody_is_sent_to_a_file_or_into_the_open() {
        for (server, place, fits) in [
            ("https://a/mcp", "https://b/authorize", true),
            ("http://a/mcp", "https://b/authorize", true),
            ("http://127.0.0.1:1/mcp", "http://127.0.0.1:2/authorize", true),
            ("https://a/mcp", "http://b/token", false),
            ("https://a/mcp", "file:///usr/share/applications/x.desktop", false),
            ("http://a/mcp", "javascript:alert(1)", false),
            ("http://a/mcp", "smb://b/share", false),
            ("http://a/mcp", "no place", false),
        ] {
            assert_eq!(check_place(server, place).is_ok(), fits, "{server} {place}");
        }
    }

    #[test]
    fn a_secret_goes_into_the_form_only_where_no_header_is_taken() {
        for (methods, in_form) in [
            (serde_json::json!(["client_secret_post"]), true),
            (serde_json::json!(["client_secret_basic", "client_secret_post"]), false),
            (serde_json::json!(["none"]), false),
            (Value::Null, false),
        ] {
            let mut metadata = AuthorizationMetadata::default();
            metadata.additional_fields.insert("token_endpoint_auth_methods_supported".into(), methods.clone());
            assert_eq!(wants_secret_in_form(&metadata), in_form, "{methods}");
        }
    }
}
