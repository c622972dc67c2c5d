//! Performs an OAuth login without a user. It works with authorization servers that redirect immediately: the probe
//! reads the authorization code from the redirect URL and does not open the URL.

use rmcp::transport::AuthorizationManager;
use rmcp::transport::auth::WWWAuthenticateParams;
use toolwright_types::{Clock, SystemClock};
use url::Url;

use super::ProbeError;
use crate::login::{OAuthClient, OAuthLogin, OAuthLoginRequest};

/// The redirect URI. No server listens at this address.
const REDIRECT_URI: &str = "http://localhost:3000/callback";

/// The granted scopes and the credentials.
#[derive(Default)]
pub(super) struct Authorization {
    manager: Option<AuthorizationManager>,
    scopes: Vec<String>,
}

impl Authorization {
    /// Removes and returns the credentials of the last grant, because they are used for one connection only.
    pub(super) fn take_manager(&mut self) -> Option<AuthorizationManager> {
        self.manager.take()
    }

    /// Performs the login that a `WWW-Authenticate` challenge requires. If the challenge reports insufficient scope,
    /// also requests the scopes of earlier logins, so that the new token includes them.
    pub(super) async fn grant(
        &mut self,
        client: &OAuthClient,
        server: &str,
        challenge: &str,
    ) -> Result<(), ProbeError> {
        let invalid_url = |error: url::ParseError| ProbeError::Connect(format!("the URL is not valid: {error}"));
        let params = WWWAuthenticateParams::parse(challenge, &Url::parse(server).map_err(invalid_url)?);
        let mut scopes = Vec::new();
        if params.is_insufficient_scope() {
            let requested = params.scope.iter().flat_map(|scope| scope.split_whitespace()).map(str::to_owned);
            for scope in requested {
                if !self.scopes.contains(&scope) {
                    self.scopes.push(scope);
                }
            }
            scopes.clone_from(&self.scopes);
        }
        let challenge = Some(challenge);
        let request =
            OAuthLoginRequest { server, redirect: REDIRECT_URI, client, scopes: &scopes, challenge, private: false };
        let login = OAuthLogin::begin(request).await?;
        let redirected_to = follow_redirect(login.url()).await?;
        let (_, manager) = login.finish(&redirected_to, SystemClock.now()).await?;
        self.scopes = manager.get_current_scopes().await;
        self.manager = Some(manager);
        Ok(())
    }
}

/// Returns the target of the authorization server's redirect. Fails if the server does not redirect immediately.
async fn follow_redirect(url: &str) -> Result<String, ProbeError> {
    let failed =
        |_: reqwest::Error| ProbeError::AuthorizationServer("the authorization server cannot be reached".into());
    let http = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).build().map_err(failed)?;
    let response = http.get(url).send().await.map_err(failed)?;
    let location = response.headers().get("location").and_then(|location| location.to_str().ok());
    location.map(str::to_owned).ok_or_else(|| {
        ProbeError::Unauthorized("the authorization server requires a user, which a probe does not have".into())
    })
}
