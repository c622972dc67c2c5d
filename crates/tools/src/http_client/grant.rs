//! The grant of an OAuth login: an access token, and the data that is necessary to renew it.

use std::fmt;
use std::time::Duration;

use reqwest::header::HeaderValue;
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};
use toolwright_types::{ErrorCode, Timestamp};
use url::{Url, form_urlencoded};

use super::client::{HttpClient, NetworkAccess};
use super::oauth::{self, RENEWAL_MARGIN};
use crate::ToolFailure;

/// A grant, as it is stored in the value of a secret.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Grant {
    /// The endpoint that renews the token.
    pub token_endpoint: String,
    /// The id of the OAuth client to which the grant was issued.
    pub client_id: String,
    /// The client's secret, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_secret: Option<String>,
    /// Whether the client secret is sent in the form instead of a header.
    #[serde(default)]
    pub secret_in_form: bool,
    /// The resource that the token is valid for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
    /// The access token.
    pub access_token: String,
    /// The refresh token. Without one, the token cannot be renewed and a new login is necessary.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refresh_token: Option<String>,
    /// When the token was issued.
    pub issued_at: Timestamp,
    /// When the token expires, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
}

/// Shows only the token endpoint, because three of the other fields are secrets.
impl fmt::Debug for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Grant").field("token_endpoint", &self.token_endpoint).finish_non_exhaustive()
    }
}

impl Grant {
    /// Parses the grant in the value of a secret. Returns `None` if the secret is not a grant.
    pub fn from_secret(secret: &SecretString) -> Option<Self> {
        serde_json::from_str(secret.expose_secret()).ok()
    }

    /// Returns the secret that stores the grant.
    pub fn to_secret(&self) -> SecretString {
        // This cannot fail, because the fields are texts and timestamps.
        serde_json::to_string(self).unwrap_or_default().into()
    }

    /// Whether the token should be renewed before its next use. True shortly before the token expires, or in the second
    /// half of a short lifetime. Without a refresh token, true only after the token has expired.
    pub fn needs_renewal(&self, now: Timestamp) -> bool {
        let Some(end) = self.expires_at else { return false };
        let lifetime = Duration::from_millis(end.millis_since(self.issued_at));
        let early = if self.refresh_token.is_some() { RENEWAL_MARGIN.min(lifetime / 2) } else { Duration::ZERO };
        end <= now.saturating_add(early)
    }

    /// Whether the token has expired.
    pub fn is_expired(&self, now: Timestamp) -> bool {
        self.expires_at.is_some_and(|end| end <= now)
    }

    /// Renews the token.
    pub async fn renew(
        &self,
        http: &HttpClient,
        access: &NetworkAccess<'_>,
        now: Timestamp,
    ) -> Result<Self, ToolFailure> {
        let url = Url::parse(&self.token_endpoint).map_err(|_| login_ended("its token endpoint is not a URL"))?;
        let (client, form) = self.renewal_request()?;
        let issued = oauth::request_token(http, url, client, form, access).await.map_err(|failure| {
            match failure.error.code {
                ErrorCode::AuthRequired if oauth::is_permanent(&failure) => login_ended(&failure.error.message),
                // Any other rejection may come from a proxy. It does not prove that the login has ended, so a retry is
                // allowed.
                ErrorCode::AuthRequired => ToolFailure {
                    retryable: true,
                    ..ToolFailure::fatal(ErrorCode::ProviderError, failure.error.message)
                }
                .reason("oauth2_token"),
                _ => failure,
            }
        })?;
        Ok(Self {
            expires_at: issued.lifetime().map(|lifetime| now.saturating_add(lifetime)),
            access_token: issued.access_token,
            // If the authorization server sends no new refresh token, the old one remains valid.
            refresh_token: issued.refresh_token.filter(|new| !new.is_empty()).or_else(|| self.refresh_token.clone()),
            issued_at: now,
            ..self.clone()
        })
    }

    /// Returns the authentication header and the form of a renewal request.
    fn renewal_request(&self) -> Result<(Option<HeaderValue>, String), ToolFailure> {
        let refresh_token = self.refresh_token.as_deref().ok_or_else(|| login_ended("it has no refresh token"))?;
        let mut form = form_urlencoded::Serializer::new(String::new());
        form.append_pair("grant_type", "refresh_token").append_pair("refresh_token", refresh_token);
        form.extend_pairs(self.resource.as_ref().map(|resource| ("resource", resource)));
        let header = match &self.client_secret {
            Some(secret) if !self.secret_in_form => Some(oauth::basic_auth(&self.client_id, secret)?),
            secret => {
                form.append_pair("client_id", &self.client_id);
                form.extend_pairs(secret.as_ref().map(|secret| ("client_secret", secret)));
                None
            }
        };
        Ok((header, form.finish()))
    }
}

fn login_ended(why: &str) -> ToolFailure {
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
    fn client_secret_is_sent_in_the_header_unless_the_grant_requires_the_form() {
        let form = "grant_type=refresh_token&refresh_token=r&resource=https%3A%2F%2Fexample.com%2Fmcp";
        for (grant, header, more) in [
            (grant(None, false), None, "&client_id=c"),
            (grant(Some("s"), true), None, "&client_id=c&client_secret=s"),
            (grant(Some("s"), false), Some("Basic Yzpz"), ""),
        ] {
            let (sent, sent_form) = grant.renewal_request().unwrap();
            assert_eq!(sent.as_ref().map(|value| value.to_str().unwrap()), header);
            assert_eq!(sent_form, format!("{form}{more}"));
        }
    }

    #[test]
    fn token_is_renewed_shortly_before_it_expires() {
        let at = |seconds: i64| Timestamp::from_micros(seconds * 1_000_000);
        let due = |grant: &Grant, moments: [i64; 4]| moments.map(|now| grant.needs_renewal(at(now)));
        let mut grant = grant(None, false);
        assert_eq!(due(&grant, [0, 1, 100, 1_000_000]), [false; 4]);
        grant.expires_at = Some(at(100));
        assert_eq!(due(&grant, [0, 69, 70, 101]), [false, false, true, true]);
        assert_eq!([99, 100].map(|now| grant.is_expired(at(now))), [false, true]);
        grant.expires_at = Some(at(10));
        assert_eq!(
            due(&grant, [0, 4, 5, 10]),
            [false, false, true, true],
            "a token with a short lifetime is used for its first half"
        );
        grant.refresh_token = None;
        assert_eq!(
            due(&grant, [0, 5, 9, 10]),
            [false, false, false, true],
            "a token that cannot be renewed is used until it expires"
        );
    }

    #[test]
    fn grant_can_be_stored_as_a_secret_and_its_debug_output_has_no_token() {
        let grant_value = grant(Some("hush"), true);
        let read = Grant::from_secret(&grant_value.to_secret()).unwrap();
        assert_eq!(read.to_secret().expose_secret(), grant_value.to_secret().expose_secret());
        assert_eq!(format!("{grant_value:?}"), "Grant { token_endpoint: \"https://example.com/token\", .. }");
        assert!(Grant::from_secret(&"a pasted token".into()).is_none());
    }
}
