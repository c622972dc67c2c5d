//! Getting in by OAuth 2.1: the authorization-code flow, with whoever the authorization server redirects to.

use rmcp::transport::AuthorizationManager;
use rmcp::transport::auth::{AuthorizationCallback, AuthorizationRequest, OAuthState, WWWAuthenticateParams};
use url::Url;

use super::ProbeError;

/// Where the authorization server sends us back. Nobody listens there: the redirect itself is read.
const REDIRECT: &str = "http://localhost:3000/callback";

/// How to get in.
#[derive(Debug, Clone, Default)]
pub struct Authorize {
    /// A client that the authorization server knows already.
    pub client_id: Option<String>,
    /// Its secret.
    pub client_secret: Option<String>,
    /// Where a document about us is, for authorization servers that read such documents.
    pub client_metadata_url: Option<String>,
}

/// What we were granted, and what to prove it with.
#[derive(Default)]
pub(super) struct Authorization {
    manager: Option<AuthorizationManager>,
    scopes: Vec<String>,
}

impl Authorization {
    /// The proof of what was granted last, to be used once.
    pub fn take_manager(&mut self) -> Option<AuthorizationManager> {
        self.manager.take()
    }

    /// Goes through the flow that a challenge asks for. What was granted before is asked for again, so that a server that
    /// wants more does not give less.
    pub async fn grant(&mut self, authorize: &Authorize, url: &str, challenge: &str) -> Result<(), ProbeError> {
        let wrong = |error: url::ParseError| ProbeError::Connect(error.to_string());
        let wanted = WWWAuthenticateParams::parse(challenge, &Url::parse(url).map_err(wrong)?);
        let mut request = AuthorizationRequest::new(REDIRECT).with_client_name("toolwright").with_challenge(challenge);
        if wanted.is_insufficient_scope() {
            let asked = wanted.scope.iter().flat_map(|scope| scope.split_whitespace()).map(str::to_owned);
            for scope in asked {
                if !self.scopes.contains(&scope) {
                    self.scopes.push(scope);
                }
            }
            request = request.with_scopes(self.scopes.iter().cloned());
        }
        if let Some(client) = &authorize.client_id {
            request = request.with_preregistered_client(client);
        }
        if let Some(secret) = &authorize.client_secret {
            request = request.with_client_secret(secret);
        }
        if let Some(document) = &authorize.client_metadata_url {
            request = request.with_client_metadata_url(document);
        }
        let mut state = OAuthState::new(url, None).await?;
        state.start_authorization(request).await?;
        let callback = redirected(&state.get_authorization_url().await?).await?;
        let issuer = callback.issuer.as_deref();
        state.handle_callback_with_issuer(&callback.code, &callback.csrf_token, issuer).await?;
        let manager = state.into_authorization_manager();
        let manager = manager.ok_or_else(|| ProbeError::Authorize("nothing was granted".into()))?;
        self.scopes = manager.get_current_scopes().await;
        self.manager = Some(manager);
        Ok(())
    }
}

/// Where an authorization server that asks nobody sends us.
async fn redirected(url: &str) -> Result<AuthorizationCallback, ProbeError> {
    let failed = |error: reqwest::Error| ProbeError::Authorize(error.without_url().to_string());
    let http = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).build().map_err(failed)?;
    let response = http.get(url).send().await.map_err(failed)?;
    let location = response.headers().get("location").and_then(|location| location.to_str().ok());
    let location = location.ok_or_else(|| {
        ProbeError::Authorize("the authorization server wants to ask a person, which cannot be done here".into())
    })?;
    Ok(AuthorizationCallback::from_redirect_url(location)?)
}
