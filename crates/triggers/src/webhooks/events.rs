//! Selects the events of a webhook and writes them as JSON.

use std::collections::{HashMap, HashSet};

use serde_json::{Value, json};
use toolwright_store::{Event, NewDelivery};
use toolwright_types::{DeliveryId, DocumentId as _, RealmScope, Timestamp, WebhookDefinition, WebhookEvent};

use super::{DeliveryError, RealmWebhooks, Webhooks};

/// The maximum number of events that one query reads.
const PAGE_SIZE: u32 = 500;

/// The type of the event that a test sends.
pub(super) const TEST: &str = "TEST";

/// The events that a webhook selects.
#[derive(Debug)]
pub(super) struct SelectedEvents {
    types: HashSet<&'static str>,
    /// The statuses of runs. Empty means all.
    statuses: HashSet<String>,
    /// The names of agents, workflows and tools in lower case. Empty means all.
    subjects: HashSet<String>,
}

impl SelectedEvents {
    pub(super) fn new(webhook: &WebhookDefinition) -> Self {
        Self {
            types: webhook.events.iter().copied().map(WebhookEvent::as_str).collect(),
            statuses: webhook.statuses.iter().map(|status| status.as_str().to_owned()).collect(),
            subjects: webhook.subjects.iter().map(|name| name.to_ascii_lowercase()).collect(),
        }
    }

    /// Whether the webhook gets an event. The statuses select only events of runs. An approval is an event of its tool and
    /// of `subject`, the agent or workflow whose run made the call.
    fn contains(&self, event: &Event, subject: Option<&str>) -> bool {
        let is_run = event.run.is_none();
        let status = || event.status.as_ref().is_some_and(|status| self.statuses.contains(status));
        let names = event.ref_name.as_deref().into_iter().chain(subject);
        let is_selected = || names.map(str::to_ascii_lowercase).any(|name| self.subjects.contains(&name));
        self.types.contains(event.event_type.as_str())
            && (self.statuses.is_empty() || !is_run || status())
            && (self.subjects.is_empty() || is_selected())
    }
}

impl Webhooks {
    /// Creates the deliveries of the events after the last position of the realm.
    pub(super) async fn create_deliveries(&self, realm: &RealmWebhooks) -> Result<(), DeliveryError> {
        let (events, deliveries) = (self.0.store.events(&realm.realm), self.0.store.deliveries(&realm.realm));
        let Some(mut position) = deliveries.position().await? else {
            // The first webhook of the realm gets the events from now on.
            let newest = events.bounds().await?.newest;
            return Ok(deliveries.start(newest).await?);
        };
        loop {
            let page = events.read_after(position, PAGE_SIZE).await?;
            let next = match (page.lost, page.events.last()) {
                (true, _) => {
                    tracing::warn!(realm = %realm.realm.name, "events were deleted before webhooks were created for them");
                    events.bounds().await?.newest
                }
                (false, Some(last)) => last.position,
                (false, None) => return Ok(()),
            };
            let created_at = self.0.clock.now();
            let subjects = self.subjects(realm, &page.events).await?;
            let mut new = Vec::new();
            for event in page.events.iter().filter(|_| !page.lost) {
                let body = body(event, &realm.realm);
                let subject = event.run.as_ref().and_then(|run| subjects.get(run)).map(String::as_str);
                let selecting = realm.webhooks.iter().filter(|(_, selected)| selected.contains(event, subject));
                new.extend(selecting.map(|(webhook, _)| NewDelivery {
                    id: DeliveryId::generate(),
                    webhook: *webhook,
                    event_id: event.position.to_string(),
                    event_type: event.event_type.as_str().to_owned(),
                    body: body.clone(),
                    created_at,
                    retry_at: Some(created_at),
                }));
            }
            let is_full = u32::try_from(page.events.len()).is_ok_and(|count| count >= PAGE_SIZE);
            // Another server may have created the deliveries. It continues with the rest.
            if !deliveries.advance(position, next, &new).await? || !is_full {
                return Ok(());
            }
            position = next;
        }
    }

    /// Returns the agents and workflows of the runs whose calls wait for approval or are decided, if a webhook selects
    /// events by subject.
    async fn subjects(
        &self,
        realm: &RealmWebhooks,
        events: &[Event],
    ) -> Result<HashMap<String, String>, DeliveryError> {
        let mut subjects = HashMap::new();
        if realm.webhooks.iter().all(|(_, selected)| selected.subjects.is_empty()) {
            return Ok(subjects);
        }
        let runs = self.0.store.runs(&realm.realm);
        for run in events.iter().filter_map(|event| event.run.as_ref()) {
            let Ok(id) = run.parse() else { continue };
            if !subjects.contains_key(run)
                && let Some(found) = runs.get(id).await?
            {
                subjects.insert(run.clone(), found.subject);
            }
        }
        Ok(subjects)
    }
}

/// The body of a request: `type`, `timestamp` and `data`, as Standard Webhooks recommends. The data has the fields of the
/// event stream. It contains no inputs and outputs; the receiver reads them with its own permissions.
fn body(event: &Event, realm: &RealmScope) -> String {
    let mut data = json!({ "realm": realm.name, "kind": event.kind.as_str() });
    if let Value::Object(fields) = &mut data {
        let texts = [
            ("id", Some(&event.id)),
            ("runId", event.run.as_ref()),
            ("ref", event.ref_name.as_ref()),
            ("status", event.status.as_ref()),
        ];
        let present = texts.into_iter().filter_map(|(name, text)| Some((name.to_owned(), json!(text?))));
        fields.extend(present);
    }
    json!({ "type": event.event_type.as_str(), "timestamp": event.at, "data": data }).to_string()
}

/// The body of a test.
pub(super) fn test_body(now: Timestamp, realm: &RealmScope, webhook: &str) -> String {
    json!({ "type": TEST, "timestamp": now, "data": { "realm": realm.name, "webhook": webhook } }).to_string()
}
