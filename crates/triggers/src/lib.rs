//! Starts runs at scheduled times and when signed webhooks arrive, and reports events to webhooks of other systems.
//!
//! A trigger is a stored definition. Its runs start through the same functions as the runs of a REST request, with the
//! permissions of the principal that the trigger names. Several servers may share a database: the store decides which
//! server starts a run ([`scheduler`]) and which one delivers an event ([`webhooks`]).

mod error;
mod fire;
mod incoming;
pub mod scheduler;
mod signature;
pub mod webhooks;

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use toolwright_agents::Agents;
use toolwright_catalog::registry::{RegistryError, SavedDefinition};
use toolwright_catalog::{CompiledTrigger, Identity, Registry, Session, Unavailable};
use toolwright_runs::Runs;
pub use toolwright_store::{Delivery, DeliveryStatus, Firing, FiringStatus, TimeCursor};
use toolwright_store::{Page, Store, StoreError};
use toolwright_tools::http::HttpClient;
use toolwright_types::{Clock, Document, FiringId, Timestamp, TriggerDefinition, TriggerId};

pub use error::{FireError, ReceiveError};
pub use incoming::IncomingWebhook;
pub use webhooks::{DeliveryError, Webhooks};

/// Starts the runs of triggers. Cheap to clone.
#[derive(Clone)]
pub struct Triggers(Arc<TriggerServices>);

/// The services that triggers and webhooks use.
pub struct TriggerServices {
    /// The database.
    pub store: Store,
    /// The definitions.
    pub registry: Registry,
    /// The realms that a principal may enter.
    pub identity: Identity,
    /// Starts agents and workflows.
    pub agents: Agents,
    /// Starts calls to tools.
    pub runs: Runs,
    /// How long a run waits for a client to return a result.
    pub client_wait: Duration,
    /// Sends webhooks.
    pub http: HttpClient,
    /// The clock.
    pub clock: Arc<dyn Clock>,
}

/// The state of a trigger.
#[derive(Debug)]
pub struct TriggerState {
    /// The definition.
    pub document: Document<TriggerDefinition>,
    /// The next times of a schedule, at most five. Empty for a webhook, for a paused trigger, and for about a second after
    /// a change.
    pub next_runs: Vec<Timestamp>,
    /// The last firing.
    pub last_firing: Option<Firing>,
}

/// The number of next times in [`TriggerState`].
const NEXT_RUNS: usize = 5;

impl Triggers {
    /// Creates the service.
    pub fn new(services: Arc<TriggerServices>) -> Self {
        Self(services)
    }

    /// Returns a trigger with its next times and its last firing.
    pub async fn state(&self, session: &Session, reference: &str) -> Result<TriggerState, RegistryError> {
        let document = self.0.registry.get::<TriggerDefinition>(session, reference, None).await?;
        let trigger = trigger_id(&document)?;
        let firings = self.0.store.firings(&session.realm).list(trigger, None, None, 1).await?;
        let first = self.0.store.schedules().next_at(&document).await?;
        let compiled = CompiledTrigger::compile(document.body.clone(), self.0.clock.now()).ok();
        let next_runs = match compiled.and_then(|compiled| compiled.schedule) {
            Some(schedule) => std::iter::successors(first, |at| schedule.next_after(*at)).take(NEXT_RUNS).collect(),
            None => Vec::new(),
        };
        Ok(TriggerState { document, next_runs, last_firing: firings.items.into_iter().next() })
    }

    /// Returns a page of the firings of a trigger, newest first.
    pub async fn firings(
        &self,
        session: &Session,
        reference: &str,
        status: Option<FiringStatus>,
        cursor: Option<&TimeCursor<FiringId>>,
        limit: u32,
    ) -> Result<Page<Firing, TimeCursor<FiringId>>, RegistryError> {
        let document = self.0.registry.get::<TriggerDefinition>(session, reference, None).await?;
        let trigger = trigger_id(&document)?;
        Ok(self.0.store.firings(&session.realm).list(trigger, status, cursor, limit).await?)
    }

    /// Pauses or resumes a trigger, which is a change of its definition.
    pub async fn set_enabled(
        &self,
        session: &Session,
        reference: &str,
        enabled: bool,
    ) -> Result<SavedDefinition<TriggerDefinition>, RegistryError> {
        let document = self.0.registry.get::<TriggerDefinition>(session, reference, None).await?;
        if document.body.enabled == enabled {
            self.0.registry.may_write(session, &document.body)?;
            return Ok(SavedDefinition { document, warnings: Vec::new() });
        }
        let patch = json!({ "enabled": enabled });
        self.0.registry.merge(session, reference, None, patch).await
    }

    /// Starts a run of a trigger now, also if the trigger is paused. `webhook` is the body that the expressions of a
    /// webhook read. Requires the permission to write the trigger, because the run acts as the principal of the trigger.
    pub async fn fire(&self, session: &Session, reference: &str, webhook: Value) -> Result<Firing, FireError> {
        let document = self.0.registry.get::<TriggerDefinition>(session, reference, None).await?;
        self.0.registry.may_write(session, &document.body)?;
        let firing = self.new_firing(session.realm.realm, &document, fire::Cause::Test)?;
        self.0.store.firings(&session.realm).create(&firing).await?;
        let compiled = self.compile(document)?;
        let webhook = json!({ "id": firing.cause, "timestamp": firing.fired_at, "body": webhook });
        self.start_firing(&session.realm, &compiled, &firing, webhook).await
    }
}

/// Returns the id of a stored trigger.
fn trigger_id<T>(document: &Document<T>) -> Result<TriggerId, Unavailable> {
    let id: Result<TriggerId, _> = document.meta.id.parse();
    id.map_err(|error| Unavailable::new("a stored trigger has no valid id", error))
}

impl From<StoreError> for FireError {
    fn from(error: StoreError) -> Self {
        FireError::Unavailable(error.into())
    }
}
