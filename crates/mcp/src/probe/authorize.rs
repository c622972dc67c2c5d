//! Getting in where the authorization server asks nobody: the redirect itself is read.

use rmcp::transport::AuthorizationManager;
use rmcp::transport::auth::WWWAuthenticateParams;
use toolwright_types::{Clock, SystemClock};
use url::Url;

use super::ProbeError;
use crate::login::{Authorize, Login, LoginRequest};

/// Where the authorization server sends us back. Nobody listens there.
const REDIRECT: &str = "http://localhost:3000/callback";

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
    pub async fn grant(&mut self, client: &Authorize, server: &str, challenge: &str) -> Result<(), ProbeError> {
        let wrong = |error: url::ParseError| ProbeError::Connect(error.to_string());
        let wanted = WWWAuthenticateParams::parse(challenge, &Url::parse(server).map_err(wrong)?);
        let mut scopes = Vec::new();
        if wanted.is_insufficient_scope() {
            let asked = wanted.scope.iter().flat_map(|scope| scope.split_whitespace()).map(str::to_owned);
            for scope in asked {
                if !self.scopes.contains(&scope) {
                    self.scopes.push(scope);
                }
            }
            scopes.clone_from(&self.scopes);
        }
        let challenge = Some(challenge);
        let request = LoginRequest { server, redirect: REDIRECT, client, scopes: &scopes, challenge, private: false };
        let login = Login::begin(request).await?;
        let redirected_to = redirected(login.url()).await?;
        let (_, manager) = login.finish(&redirected_to, SystemClock.now()).await?;
        self.scopes = manager.get_current_scopes().await;
        self.manager = Some(manager);
        Ok(())
    }
}

/// Where an authorization server that asks nobody sends us.
async fn redirected(url: &str) -> Result<String, ProbeError> {
    let failed = |error: reqwest::Error| ProbeError::Authorize(error.without_url().to_string());
    let http = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).build().map_err(failed)?;
    let response = http.get(url).send().await.map_err(failed)?;
    let location = response.headers().get("location").and_then(|location| location.to_str().ok());
    location.map(str::to_owned).ok_or_else(|| {
        ProbeError::Authorize("the authorization server wants to ask a person, which cannot be done here".into())
    })
}
