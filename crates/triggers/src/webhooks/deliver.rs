//! Sends one delivery and decides when it is attempted again.

use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};
use secrecy::SecretString;
use toolwright_store::{Delivery, DeliveryOutcome, DeliveryStatus};
use toolwright_tools::http::{NetworkAccess, transport_failure};
use toolwright_types::{Document, RealmScope, Timestamp, WebhookDefinition};

use super::{DeliveryError, Webhooks};
use crate::signature::{self, ID_HEADER, SIGNATURE_HEADER, TIMESTAMP_HEADER};

/// The pauses after the attempts, as Standard Webhooks recommends. After the last one, the delivery is dead.
const PAUSES: [Duration; 8] = [
    Duration::from_secs(5),
    Duration::from_secs(5 * 60),
    Duration::from_secs(30 * 60),
    Duration::from_secs(2 * 3600),
    Duration::from_secs(5 * 3600),
    Duration::from_secs(10 * 3600),
    Duration::from_secs(14 * 3600),
    Duration::from_secs(20 * 3600),
];
/// The maximum time of one attempt.
const TIMEOUT: Duration = Duration::from_secs(20);
/// How long a server has for one attempt. Then another server attempts the delivery.
const CLAIM: Duration = Duration::from_secs(60);

/// The result of one request.
type Sent = Result<u16, (Option<u16>, String)>;

impl Webhooks {
    /// Attempts a delivery that is due, unless another server has claimed it.
    pub(super) async fn attempt_due(&self, delivery: Delivery) -> Result<(), DeliveryError> {
        let until = self.0.clock.now().saturating_add(CLAIM);
        if !self.0.store.claim_delivery(&delivery, until).await? {
            return Ok(());
        }
        let Some(realm) = self.0.store.tenancy().realm_by_id(delivery.realm).await? else { return Ok(()) };
        let webhooks = self.0.store.definitions(&realm);
        let reference = toolwright_store::DocumentRef::Id(delivery.webhook.to_string());
        match webhooks.get(toolwright_types::DocumentKind::Webhook, &reference).await? {
            Some(document) => self.attempt(&realm, &crate::incoming::decode(document)?, delivery).await.map(drop),
            None => {
                let outcome = dead(None, "the webhook was deleted".to_owned());
                Ok(self.0.store.deliveries(&realm).record_attempt(delivery.id, &outcome).await?)
            }
        }
    }

    /// Sends a delivery and stores the outcome. Returns the delivery after the attempt.
    pub(super) async fn attempt(
        &self,
        realm: &RealmScope,
        webhook: &Document<WebhookDefinition>,
        mut delivery: Delivery,
    ) -> Result<Delivery, DeliveryError> {
        let sent = match signature::open_secret(&self.0.store, realm, &webhook.body.secret_ref).await? {
            Some(secret) => self.send(&webhook.body, &secret, &delivery).await,
            None => Err((
                None,
                format!(
                    "the realm has no secret `{}` in the form `whsec_` and base64 of at least 24 bytes",
                    webhook.body.secret_ref
                ),
            )),
        };
        let outcome = outcome(sent, delivery.attempts, self.0.clock.now());
        self.0.store.deliveries(realm).record_attempt(delivery.id, &outcome).await?;
        delivery.attempts += 1;
        (delivery.status, delivery.retry_at) = (outcome.status, outcome.retry_at);
        (delivery.response_status, delivery.error) = (outcome.response_status, outcome.error);
        Ok(delivery)
    }

    async fn send(&self, webhook: &WebhookDefinition, secret: &SecretString, delivery: &Delivery) -> Sent {
        let failed = |message: String| (None, message);
        let url: url::Url = webhook.url.parse().map_err(|_| failed("the address is not a URL".to_owned()))?;
        let (id, now) = (delivery.id.to_string(), self.0.clock.now());
        let signature = signature::sign(secret, &id, now, delivery.body.as_bytes()).map_err(failed)?;
        let mut headers = HeaderMap::new();
        let own = [
            ("content-type", "application/json".to_owned()),
            ("user-agent", concat!("toolwright/", env!("CARGO_PKG_VERSION")).to_owned()),
            (ID_HEADER, id),
            (TIMESTAMP_HEADER, signature::seconds(now).to_string()),
            (SIGNATURE_HEADER, signature),
        ];
        for (name, value) in own {
            let value = HeaderValue::from_str(&value).map_err(|_| failed(format!("`{name}` has no valid value")))?;
            headers.insert(HeaderName::from_static(name), value);
        }
        let access = NetworkAccess { allow: &webhook.egress_allow, certificate: None };
        // This client follows no redirects: the receiver of a redirect is not the one that the webhook names.
        let client = self.0.http.raw_client_for(&url, &access).map_err(|failure| failed(failure.error.message))?;
        let request = client.post(url).headers(headers).body(delivery.body.clone()).send();
        let response = tokio::time::timeout(TIMEOUT, request).await;
        let response = response.map_err(|_| failed(format!("no response within {} s", TIMEOUT.as_secs())))?;
        let response = response.map_err(|error| failed(transport_failure(&error).error.message))?;
        let status = response.status();
        if status.is_success() {
            Ok(status.as_u16())
        } else {
            Err((Some(status.as_u16()), format!("the receiver responded with {status}")))
        }
    }
}

/// Decides what follows from an attempt. `attempts` is the number of earlier attempts.
fn outcome(sent: Sent, attempts: u32, now: Timestamp) -> DeliveryOutcome {
    match sent {
        Ok(status) => DeliveryOutcome {
            status: DeliveryStatus::Delivered,
            retry_at: None,
            response_status: Some(status),
            error: None,
        },
        // 410 Gone: the receiver does not exist any more.
        Err((Some(410), message)) => dead(Some(410), message),
        Err((status, message)) => match usize::try_from(attempts).ok().and_then(|attempts| PAUSES.get(attempts)) {
            Some(pause) => DeliveryOutcome {
                status: DeliveryStatus::Pending,
                retry_at: Some(now.saturating_add(*pause)),
                response_status: status,
                error: Some(message),
            },
            None => dead(status, message),
        },
    }
}

fn dead(response_status: Option<u16>, message: String) -> DeliveryOutcome {
    DeliveryOutcome { status: DeliveryStatus::Dead, retry_at: None, response_status, error: Some(message) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_delivery_is_attempted_again_with_growing_pauses_and_is_dead_after_the_last() {
        let now = Timestamp::from_micros(1_790_000_000_000_000);
        let failed = || Err((Some(500), "the receiver responded with 500".to_owned()));
        let mut last = now;
        for attempts in 0..8 {
            let outcome = outcome(failed(), attempts, now);
            assert_eq!(outcome.status, DeliveryStatus::Pending);
            let retry_at = outcome.retry_at.unwrap();
            assert!(retry_at > last, "{attempts}");
            last = retry_at;
        }
        let end = outcome(failed(), 8, now);
        assert_eq!((end.status, end.retry_at, end.response_status), (DeliveryStatus::Dead, None, Some(500)));
        assert_eq!(outcome(Err((Some(410), "gone".to_owned())), 0, now).status, DeliveryStatus::Dead);
        assert_eq!(outcome(Ok(204), 3, now).status, DeliveryStatus::Delivered);
    }
}
