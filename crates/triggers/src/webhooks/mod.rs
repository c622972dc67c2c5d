//! Reports events of realms to webhooks of other systems.
//!
//! The events of a realm are read in order, and each event gets one delivery per webhook that selects it. The deliveries
//! are stored in the transaction that moves the position in the event stream, so no event is lost or reported twice. A
//! delivery is attempted again with growing pauses; the receiver gets the same `webhook-id` each time.

mod deliver;
mod events;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use tokio_util::sync::CancellationToken;
use toolwright_catalog::registry::{RegistryError, SavedDefinition};
use toolwright_catalog::{Session, Unavailable};
use toolwright_store::{Delivery, DeliveryStatus, NewDelivery, Page, StoreError, TimeCursor};
use toolwright_types::{
    DeliveryId, Document, DocumentId as _, RealmId, RealmScope, Timestamp, WebhookDefinition, WebhookId,
};

use crate::TriggerServices;
use crate::incoming::decode;
use events::SelectedEvents;

/// How often the server looks for events and deliveries of other servers.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// The pause between a change and the query for new events, which limits the number of queries.
const COALESCE: Duration = Duration::from_millis(10);
/// The maximum number of requests at the same time.
const MAX_CONCURRENT: usize = 16;
/// The maximum number of deliveries that one query returns.
const BATCH_SIZE: i64 = 100;
/// How often old deliveries are deleted.
const DELETE_EVERY_MICROS: i64 = 3600 * 1_000_000;
/// How long deliveries are kept.
const KEPT_MICROS: i64 = 7 * 24 * 3600 * 1_000_000;

/// Reports events to webhooks. Cheap to clone.
#[derive(Clone)]
pub struct Webhooks(Arc<TriggerServices>);

/// What one server remembers between two rounds of the delivery loop.
#[derive(Debug, Default)]
pub struct DeliveryState {
    generation: Option<i64>,
    realms: HashMap<RealmId, Arc<RealmWebhooks>>,
    deleted_at: Option<Timestamp>,
}

/// The enabled webhooks of a realm.
#[derive(Debug)]
struct RealmWebhooks {
    realm: RealmScope,
    webhooks: Vec<(WebhookId, SelectedEvents)>,
}

/// Why a delivery cannot be repeated or tested.
#[derive(Debug, thiserror::Error)]
pub enum DeliveryError {
    /// The webhook cannot be read, or the session lacks a permission.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// The delivery does not exist.
    #[error("webhook `{webhook}` has no delivery `{delivery}`")]
    Unknown {
        /// The webhook.
        webhook: String,
        /// The delivery.
        delivery: String,
    },
    /// The database failed.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

impl From<StoreError> for DeliveryError {
    fn from(error: StoreError) -> Self {
        DeliveryError::Unavailable(error.into())
    }
}

impl Webhooks {
    /// Creates the service.
    pub fn new(services: Arc<TriggerServices>) -> Self {
        Self(services)
    }

    /// Delivers events until `stop` is cancelled.
    pub async fn run_deliveries(self, stop: CancellationToken) {
        let mut state = DeliveryState::default();
        let mut changes = self.0.store.watch_events();
        loop {
            // At shutdown, this future is dropped. A delivery that was claimed is attempted again later.
            match stop.run_until_cancelled(self.deliver_due(&mut state)).await {
                None => return,
                Some(Err(error)) => {
                    tracing::warn!(error = &error as &dyn std::error::Error, "webhooks could not be delivered");
                }
                Some(Ok(())) => {}
            }
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(POLL_INTERVAL) => {}
                Ok(()) = changes.changed() => tokio::time::sleep(COALESCE).await,
            }
        }
    }

    /// Creates the deliveries of new events, and attempts the deliveries that are due.
    pub async fn deliver_due(&self, state: &mut DeliveryState) -> Result<(), DeliveryError> {
        self.load_webhooks(state).await?;
        for realm in state.realms.values() {
            self.create_deliveries(realm).await?;
        }
        let now = self.0.clock.now();
        let due = self.0.store.due_deliveries(now, BATCH_SIZE).await?;
        let attempts = futures::stream::iter(due).map(|delivery| self.attempt_due(delivery));
        let mut attempts = attempts.buffer_unordered(MAX_CONCURRENT);
        while let Some(outcome) = attempts.next().await {
            outcome?;
        }
        if state.deleted_at.is_none_or(|at| now.as_micros() - at.as_micros() > DELETE_EVERY_MICROS) {
            let before = Timestamp::from_micros(now.as_micros().saturating_sub(KEPT_MICROS));
            self.0.store.delete_old_deliveries(before).await?;
            state.deleted_at = Some(now);
        }
        Ok(())
    }

    /// Reads the webhooks again if a definition has changed.
    async fn load_webhooks(&self, state: &mut DeliveryState) -> Result<(), DeliveryError> {
        let generation = self.0.store.generation().await?;
        if state.generation == Some(generation) {
            return Ok(());
        }
        let mut realms: HashMap<RealmId, Vec<(WebhookId, SelectedEvents)>> = HashMap::new();
        for (realm, document) in self.0.store.webhooks().await? {
            let name = document.meta.ref_name.clone();
            match decode::<WebhookDefinition>(document) {
                Ok(document) if document.body.enabled => {
                    let webhook = (webhook_id(&document)?, SelectedEvents::new(&document.body));
                    realms.entry(realm).or_default().push(webhook);
                }
                Ok(_) => {}
                Err(error) => tracing::warn!(webhook = %name, %error, "a webhook is not valid and gets no events"),
            }
        }
        state.realms.clear();
        for (id, webhooks) in realms {
            if let Some(realm) = self.0.store.tenancy().realm_by_id(id).await? {
                state.realms.insert(id, Arc::new(RealmWebhooks { realm, webhooks }));
            }
        }
        state.generation = Some(generation);
        Ok(())
    }

    /// Returns a page of the deliveries to a webhook, newest first.
    pub async fn deliveries(
        &self,
        session: &Session,
        reference: &str,
        status: Option<DeliveryStatus>,
        cursor: Option<&TimeCursor<DeliveryId>>,
        limit: u32,
    ) -> Result<Page<Delivery, TimeCursor<DeliveryId>>, DeliveryError> {
        let document = self.0.registry.get::<WebhookDefinition>(session, reference, None).await?;
        // A delivery names runs of all principals of the realm.
        self.0.registry.may_write(session, &document.body).map_err(RegistryError::from)?;
        let page = self.0.store.deliveries(&session.realm).list(webhook_id(&document)?, status, cursor, limit).await?;
        Ok(page)
    }

    /// Pauses or resumes a webhook, which is a change of its definition.
    pub async fn set_enabled(
        &self,
        session: &Session,
        reference: &str,
        enabled: bool,
    ) -> Result<SavedDefinition<WebhookDefinition>, RegistryError> {
        let document = self.0.registry.get::<WebhookDefinition>(session, reference, None).await?;
        if document.body.enabled == enabled {
            self.0.registry.may_write(session, &document.body)?;
            return Ok(SavedDefinition { document, warnings: Vec::new() });
        }
        let patch = serde_json::json!({ "enabled": enabled });
        self.0.registry.merge(session, reference, None, patch).await
    }

    /// Attempts a delivery again, also if all its attempts have failed. Returns the delivery after the attempt.
    pub async fn retry(&self, session: &Session, reference: &str, id: &str) -> Result<Delivery, DeliveryError> {
        let document = self.0.registry.get::<WebhookDefinition>(session, reference, None).await?;
        self.0.registry.may_write(session, &document.body).map_err(RegistryError::from)?;
        let unknown =
            || DeliveryError::Unknown { webhook: document.meta.ref_name.to_string(), delivery: id.to_owned() };
        let delivery: DeliveryId = id.parse().map_err(|_| unknown())?;
        let found = self.0.store.deliveries(&session.realm).get(webhook_id(&document)?, delivery).await?;
        self.attempt(&session.realm, &document, found.ok_or_else(unknown)?).await
    }

    /// Sends a test event to a webhook, also if the webhook is paused. Returns the delivery after the attempt.
    pub async fn test(&self, session: &Session, reference: &str) -> Result<Delivery, DeliveryError> {
        let document = self.0.registry.get::<WebhookDefinition>(session, reference, None).await?;
        self.0.registry.may_write(session, &document.body).map_err(RegistryError::from)?;
        let (id, now) = (DeliveryId::generate(), self.0.clock.now());
        let webhook = webhook_id(&document)?;
        let new = NewDelivery {
            id,
            webhook,
            event_id: format!("test {id}"),
            event_type: events::TEST.to_owned(),
            body: events::test_body(now, &session.realm, document.meta.ref_name.as_str()),
            created_at: now,
            retry_at: None,
        };
        let deliveries = self.0.store.deliveries(&session.realm);
        deliveries.create(&new).await?;
        let lost = || DeliveryError::Unknown { webhook: document.meta.ref_name.to_string(), delivery: id.to_string() };
        let delivery = deliveries.get(webhook, id).await?.ok_or_else(lost)?;
        self.attempt(&session.realm, &document, delivery).await
    }
}

/// Returns the id of a stored webhook.
fn webhook_id<T>(document: &Document<T>) -> Result<WebhookId, Unavailable> {
    let id: Result<WebhookId, _> = document.meta.id.parse();
    id.map_err(|error| Unavailable::new("a stored webhook has no valid id", error))
}
