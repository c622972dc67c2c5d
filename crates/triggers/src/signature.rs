//! Signs and verifies webhooks as Standard Webhooks defines.

use http::HeaderMap;
use secrecy::{ExposeSecret as _, SecretString};
use standardwebhooks::Webhook;
use toolwright_catalog::Unavailable;
use toolwright_store::Store;
use toolwright_types::{RealmScope, RefName, Timestamp};

/// The minimum number of bytes of a webhook secret (Standard Webhooks recommends 24 to 64).
const MIN_SECRET_BYTES: usize = 24;

/// How old a webhook may be, and how far ahead of the clock of this server (Standard Webhooks).
const MAX_AGE_SECONDS: i64 = 300;

/// The name of the header with the id of a webhook.
pub(crate) const ID_HEADER: &str = standardwebhooks::HEADER_WEBHOOK_ID;
/// The name of the header with the time of a webhook.
pub(crate) const TIMESTAMP_HEADER: &str = standardwebhooks::HEADER_WEBHOOK_TIMESTAMP;
/// The name of the header with the signature of a webhook.
pub(crate) const SIGNATURE_HEADER: &str = standardwebhooks::HEADER_WEBHOOK_SIGNATURE;

/// Opens the secret of the realm or of the organization with this name. Returns `None` if there is none, or if it is not
/// a webhook secret. A personal secret is not used, because every principal may set one.
pub(crate) async fn open_secret(
    store: &Store,
    realm: &RealmScope,
    name: &str,
) -> Result<Option<SecretString>, Unavailable> {
    let Ok(name) = name.parse::<RefName>() else { return Ok(None) };
    let secrets = store.secrets(realm);
    let Some(identity) = secrets.shared(&name).await? else { return Ok(None) };
    let secret = secrets.unseal(&identity).await;
    let secret = secret.map_err(|error| Unavailable::new("the secret could not be opened", error))?;
    Ok(Some(secret).filter(is_webhook_secret))
}

/// Whether a secret has the form `whsec_` and base64 of at least 24 bytes. A shorter key could be guessed.
pub(crate) fn is_webhook_secret(secret: &SecretString) -> bool {
    let text = secret.expose_secret();
    text.strip_prefix("whsec_").is_some_and(|key| key.trim_end_matches('=').len() * 3 / 4 >= MIN_SECRET_BYTES)
        && Webhook::new(text).is_ok()
}

/// Checks the signature of a webhook, and that it was sent within the last five minutes. `secret` must have passed
/// [`is_webhook_secret`].
pub(crate) fn verify(secret: &SecretString, body: &[u8], headers: &HeaderMap, now: Timestamp) -> Result<(), String> {
    let sent = headers.get(TIMESTAMP_HEADER).and_then(|value| value.to_str().ok()?.parse::<i64>().ok());
    // The library subtracts without a check for overflow, so the time is checked here first.
    let age = sent.and_then(|sent| seconds(now).checked_sub(sent)?.checked_abs());
    if age.is_none_or(|age| age > MAX_AGE_SECONDS) {
        return Err(format!(
            "`{TIMESTAMP_HEADER}` must be the time in seconds since 1970, at most {MAX_AGE_SECONDS} seconds ago"
        ));
    }
    let webhook = Webhook::new(secret.expose_secret()).map_err(|error| error.to_string())?;
    webhook.verify(body, headers).map_err(|error| error.to_string())
}

/// Returns the value of the signature header.
pub(crate) fn sign(secret: &SecretString, id: &str, at: Timestamp, body: &[u8]) -> Result<String, String> {
    let webhook = Webhook::new(secret.expose_secret()).map_err(|error| error.to_string())?;
    webhook.sign(id, seconds(at), body).map_err(|error| error.to_string())
}

/// The time in seconds since 1970, as the header has it.
pub(crate) fn seconds(at: Timestamp) -> i64 {
    at.as_micros().div_euclid(1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signature_is_that_of_the_standard_webhooks_specification() {
        let secret = SecretString::from("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".to_owned());
        let at = Timestamp::from_micros(1_614_265_330_000_000);
        let signature = sign(&secret, "msg_p5jXN8AQM9LWM0D4loKWxJek", at, br#"{"test": 2432232314}"#).unwrap();
        assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn time_that_is_missing_or_extreme_or_old_is_refused() {
        let secret = SecretString::from("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".to_owned());
        let now = toolwright_types::Clock::now(&toolwright_types::SystemClock);
        let verified = |at: &str| {
            let time: i64 = at.parse().unwrap_or_default();
            let signature = Webhook::new(secret.expose_secret()).unwrap().sign("msg_1", time, b"{}").unwrap();
            let pairs = [(ID_HEADER, "msg_1"), (TIMESTAMP_HEADER, at), (SIGNATURE_HEADER, signature.as_str())];
            let headers = pairs.map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()));
            verify(&secret, b"{}", &HeaderMap::from_iter(headers), now)
        };
        verified(&seconds(now).to_string()).unwrap();
        for at in ["", "x", "-9223372036854775808", "9223372036854775807", "0", "-1"] {
            assert!(verified(at).is_err(), "{at}");
        }
    }

    #[test]
    fn secret_that_is_short_or_not_base64_is_not_a_webhook_secret() {
        for (text, expected) in [
            ("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", true),
            ("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", false),
            ("whsec_c2hvcnQ=", false),
            ("whsec_", false),
            ("whsec_!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!", false),
        ] {
            assert_eq!(is_webhook_secret(&SecretString::from(text.to_owned())), expected, "{text}");
        }
    }
}
