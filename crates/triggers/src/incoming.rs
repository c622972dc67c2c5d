//! Receives signed webhooks.

use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;
use serde_json::{Value, json};
use toolwright_catalog::Unavailable;
use toolwright_store::{Firing, FiringStatus};
use toolwright_types::{Document, RealmScope, TriggerDefinition, TriggerId, TriggerKind};

use crate::fire::Cause;
use crate::signature::{self, ID_HEADER, TIMESTAMP_HEADER};
use crate::{FireError, ReceiveError, Triggers};

/// The maximum number of characters of the id of a webhook.
const MAX_ID_CHARS: usize = 256;
/// How often a request looks whether another request with the same id has started the run.
const WAIT_INTERVAL: Duration = Duration::from_millis(50);
/// How many times it looks.
const MAX_WAITS: u32 = 100;

/// The request of a webhook.
pub struct IncomingWebhook<'a> {
    /// The headers.
    pub headers: &'a HeaderMap,
    /// The body as it was signed.
    pub body: &'a [u8],
}

impl Triggers {
    /// Verifies a webhook and starts the run of its trigger. A webhook that is sent again starts no second run: the
    /// result is the first firing.
    pub async fn receive(&self, id: &str, webhook: IncomingWebhook<'_>) -> Result<Firing, ReceiveError> {
        let unknown = || ReceiveError::Unknown(id.to_owned());
        let parsed: TriggerId = id.parse().map_err(|_| unknown())?;
        let (realm, document) = self.trigger(parsed).await?.ok_or_else(unknown)?;
        if document.body.kind != TriggerKind::Webhook {
            return Err(unknown());
        }
        let name = document.body.secret_ref.as_deref().unwrap_or_default();
        let secret = signature::open_secret(&self.0.store, &realm, name).await.map_err(FireError::from)?;
        let secret = secret.ok_or(ReceiveError::Secret)?;
        if std::str::from_utf8(webhook.body).is_err() {
            return Err(ReceiveError::Body);
        }
        let now = self.0.clock.now();
        signature::verify(&secret, webhook.body, webhook.headers, now).map_err(ReceiveError::NotAuthentic)?;
        if !document.body.enabled {
            return Err(ReceiveError::Paused);
        }
        let header = |name| webhook.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let webhook_id = header(ID_HEADER).to_owned();
        if !(1..=MAX_ID_CHARS).contains(&webhook_id.chars().count()) {
            let message = format!("`{ID_HEADER}` must have 1 to {MAX_ID_CHARS} characters");
            return Err(ReceiveError::NotAuthentic(message));
        }
        let values =
            json!({ "id": webhook_id, "timestamp": header(TIMESTAMP_HEADER), "body": body_value(webhook.body) });
        let new = self.new_firing(realm.realm, &document, Cause::Webhook(webhook_id)).map_err(FireError::from)?;
        let earlier = self.0.store.firings(&realm).create(&new).await.map_err(FireError::from)?;
        let firing = match earlier {
            None => Firing::from(&new),
            Some(earlier) => match self.claim_repeated(&realm, earlier).await? {
                firing if matches!(firing.status, FiringStatus::Started | FiringStatus::Skipped) => return Ok(firing),
                firing => firing,
            },
        };
        let trigger = self.compile(document)?;
        Ok(self.start_stored_firing(&realm, &trigger, firing, values).await?)
    }

    /// Returns the firing of a webhook that was sent again: when another request has started its run, or when this
    /// request may start it, because the other attempt has failed.
    async fn claim_repeated(&self, realm: &RealmScope, mut firing: Firing) -> Result<Firing, ReceiveError> {
        for _ in 0..MAX_WAITS {
            if matches!(firing.status, FiringStatus::Started | FiringStatus::Skipped) {
                return Ok(firing);
            }
            let claimed = self.0.store.claim_firing(&firing, self.0.clock.now()).await;
            if let Some(claimed) = claimed.map_err(FireError::from)? {
                return Ok(claimed);
            }
            tokio::time::sleep(WAIT_INTERVAL).await;
            let found = self.0.store.firings(realm).by_cause(firing.trigger, &firing.cause).await;
            firing = found.map_err(FireError::from)?.unwrap_or(firing);
        }
        Err(ReceiveError::InProgress)
    }

    /// Returns a trigger of any realm, with its realm.
    pub(crate) async fn trigger(
        &self,
        id: TriggerId,
    ) -> Result<Option<(Arc<RealmScope>, Document<TriggerDefinition>)>, FireError> {
        let Some((realm, document)) = self.0.store.trigger(id).await? else { return Ok(None) };
        let Some(realm) = self.0.store.tenancy().realm_by_id(realm).await? else { return Ok(None) };
        Ok(Some((Arc::new(realm), decode(document)?)))
    }
}

/// The body of a webhook as a value: JSON, or a text.
fn body_value(body: &[u8]) -> Value {
    serde_json::from_slice(body).unwrap_or_else(|_| Value::String(String::from_utf8_lossy(body).into_owned()))
}

/// Parses a stored trigger.
pub(crate) fn decode<T: serde::de::DeserializeOwned>(document: Document<Value>) -> Result<Document<T>, Unavailable> {
    document
        .try_map(serde_json::from_value)
        .map_err(|error: serde_json::Error| Unavailable::new("a stored definition is not valid in this release", error))
}
