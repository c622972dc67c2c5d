//! What somebody was granted by logging in: a token for a while, and the means to renew it.

use std::fmt;
use std::time::Duration;

use reqwest::header::HeaderValue;
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};
use toolwright_types::{ErrorCode, Timestamp};
use url::{Url, form_urlencoded};

use super::client::{Access, HttpClient};
use super::oauth::{self, EARLY};
use crate::ToolFailure;

/// A grant, as it is kept as the value of a secret.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Grant {
    /// Where it is renewed.
    pub token_endpoint: String,
    /// The client that it was granted to.
    pub client_id: String,
    /// The client's secret, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_secret: Option<String>,
    /// Whether that goes into the form instead of a header.
    #[serde(default)]
    pub secret_in_form: bool,
    /// What it is good for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
    /// What is shown to the server.
    pub access_token: String,
    /// What it is renewed with; without it, somebody logs in again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refresh_token: Option<String>,
    /// When the token was issued.
    pub issued_at: Timestamp,
    /// Until when it is good, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
}

/// Three of its fields are secrets.
impl fmt::Debug for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Grant").field("token_endpoint", &self.token_endpoint).finish_non_exhaustive()
    }
}

impl Grant {
    /// The grant that a secret holds, if it holds one.
    pub fn read(secret: &SecretString) -> Option<Self> {
        serde_json::from_str(secret.expose_secret()).ok()
    }

    /// The secret that holds the grant.
    pub fn to_secret(&self) -> SecretString {
        // Texts and times only: this cannot fail.
        serde_json::to_string(self).unwrap_or_default().into()
    }

    /// Whether the token should be renewed before it is used: a little before it expires, and what lives for less than that, in
    /// the second half of its life.
    pub fn is_due(&self, now: Timestamp) -> bool {
        let Some(end) = self.expires_at else { return false };
        let lives = Duration::from_millis(end.millis_since(self.issued_at));
        let early = if self.refresh_token.is_some() { EARLY.min(lives / 2) } else { Duration::ZERO };
        end <= now.later(early)
    }

    /// Whether the token is of no use any more.
    pub fn is_over(&self, now: Timestamp) -> bool {
        self.expires_at.is_some_and(|end| end <= now)
    }

    /// The grant with a new token.
    pub async fn renewed(&self, http: &HttpClient, access: &Access<'_>, now: Timestamp) -> Result<Self, ToolFailure> {
        let url = Url::parse(&self.token_endpoint).map_err(|_| ended("it says no place where it is renewed"))?;
        let (client, form) = self.request()?;
        let issued = oauth::ask(http, url, client, form, access).await.map_err(|failure| match failure.error.code {
            ErrorCode::AuthRequired if oauth::is_final(&failure) => ended(&failure.error.message),
            // Something stood in the way: a proxy, a page that says sorry.
            ErrorCode::AuthRequired => {
                ToolFailure { retryable: true, ..ToolFailure::fatal(ErrorCode::ProviderError, failure.error.message) }
                    .reason("oauth2_token")
            }
            _ => failure,
        })?;
        Ok(Self {
            expires_at: issued.lives().map(|lives| now.later(lives)),
            access_token: issued.access_token,
            // A server that does not say a new one goes on with the old one.
            refresh_token: issued.refresh_token.filter(|new| !new.is_empty()).or_else(|| self.refresh_token.clone()),
            issued_at: now,
            ..self.clone()
        })
    }

    /// How a renewal is asked for: as whom, and the form.
    fn request(&self) -> Result<(Option<HeaderValue>, String), ToolFailure> {
        let refresh_token = self.refresh_token.as_deref().ok_or_else(|| ended("it cannot be renewed"))?;
        let mut form = form_urlencoded::Serializer::new(String::new());
        form.append_pair("grant_type", "refresh_token").append_pair("refresh_token", refresh_token);
        form.extend_pairs(self.resource.as_ref().map(|resource| ("resource", resource)));
        let header = match &self.client_secret {
            Some(secret) if !self.secret_in_form => Some(oauth::basic(&self.client_id, secret)?),
            secret => {
                form.append_pair("client_id", &self.client_id);
                form.extend_pairs(secret.as_ref().map(|secret| ("client_secret", secret)));
                None
            }
        };
        Ok((header, form.finish()))
    }
}

fn ended(why: &str) -> ToolFailure {
    ToolFailure::fatal(ErrorCode::AuthRequired, format!("the login has ended: {why}")).reason("login_ended")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grant(client_secret: Option<&str>, secret_in_form: bool) -> Grant {
        Grant {
            token_endpoint: "https://example.com/token".into(),
            client_id: "c".into(),
            client_secret: client_secret.map(str::to_owned),
            secret_in_form,
            resource: Some("https://example.com/mcp".into()),
            access_token: "a".into(),
            refresh_token: Some("r".into()),
            issued_at: Timestamp::from_micros(0),
            expires_at: None,
        }
    }

    #[test]
    fn a_client_proves_who_it_is_as_the_server_wants_it() {
        let form = "grant_type=refresh_token&refresh_token=r&resource=https%3A%2F%2Fexample.com%2Fmcp";
        for (grant, header, more) in [
            (grant(None, false), None, "&client_id=c"),
            (grant(Some("s"), true), None, "&client_id=c&client_secret=s"),
            (grant(Some("s"), false), Some("Basic Yzpz"), ""),
        ] {
            let (sent, said) = grant.request().unwrap();
            assert_eq!(sent.as_ref().map(|value| value.to_str().unwrap()), header);
            assert_eq!(said, format!("{form}{more}"));
        }
    }

    #[test]
    fn a_token_is_renewed_a_little_early_and_one_without_end_is_not() {
        let at = |seconds: i64| Timestamp::from_micros(seconds * 1_000_000);
        let due = |grant: &Grant, moments: [i64; 4]| moments.map(|now| grant.is_due(at(now)));
        let mut grant = grant(None, false);
        assert_eq!(due(&grant, [0, 1, 100, 1_000_000]), [false; 4]);
        grant.expires_at = Some(at(100));
        assert_eq!(due(&grant, [0, 69, 70, 101]), [false, false, true, true]);
        assert_eq!([99, 100].map(|now| grant.is_over(at(now))), [false, true]);
        grant.expires_at = Some(at(10));
        assert_eq!(
            due(&grant, [0, 4, 5, 10]),
            [false, false, true, true],
            "one that lives shortly is used all the same"
        );
        grant.refresh_token = None;
        assert_eq!(due(&grant, [0, 5, 9, 10]), [false, false, false, true], "to the last moment if there is no other");
    }

    #[test]
    fn what_is_kept_is_read_again_and_shown_to_nobody() {
        let kept = grant(Some("hush"), true);
        let read = Grant::read(&kept.to_secret()).unwrap();
        assert_eq!(read.to_secret().expose_secret(), kept.to_secret().expose_secret());
        assert_eq!(format!("{kept:?}"), "Grant { token_endpoint: \"https://example.com/token\", .. }");
        assert!(Grant::read(&"a pasted token".into()).is_none());
    }
}
