//! Drift: what systems return and what their tools say they return. Noticed in the path of a call, written beside it.

use std::collections::HashMap;

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
pub use toolwright_store::{Drift, DriftQuery};
use toolwright_store::{DriftSource, NewDrift, Store};
use toolwright_tools::CompiledTool;
use toolwright_tools::ports;
use toolwright_types::{Difference, DriftId, RealmId, RealmScope, RefName, ToolDefinition, ToolType, json::hex_digest};

use crate::access::Session;
use crate::registry::{Registry, RegistryError};

/// How many sightings may wait to be written; beyond that they are not counted.
const WAITING: usize = 1_000;

/// Where sightings are handed in. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Lookout(mpsc::Sender<(RealmScope, NewDrift)>);

/// Writes sightings down.
pub(crate) struct Scribe {
    store: Store,
    seen: mpsc::Receiver<(RealmScope, NewDrift)>,
}

/// A lookout, and the scribe that it tells.
pub(crate) fn watch(store: Store) -> (Lookout, Scribe) {
    let (sender, seen) = mpsc::channel(WAITING);
    (Lookout(sender), Scribe { store, seen })
}

impl Lookout {
    /// Hands in that a tool differs from what was said of it. Never waits.
    pub fn tell(&self, realm: &RealmScope, tool: &ToolDefinition, source: DriftSource, differences: &[Difference]) {
        let Ok(differences) = serde_json::to_value(differences) else { return };
        let seen = NewDrift {
            tool: tool.ref_name.clone(),
            version: tool.version.to_string(),
            source,
            fingerprint: hex_digest(&differences),
            differences,
            count: 1,
        };
        if self.0.try_send((realm.clone(), seen)).is_err() {
            tracing::debug!(tool = %tool.ref_name, "drift was seen and not counted: too much of it waits");
        }
    }
}

impl ports::Drifts for Lookout {
    fn noticed(&self, realm: &RealmScope, tool: &CompiledTool, differences: &[Difference]) {
        self.tell(realm, &tool.definition, DriftSource::Output, differences);
    }
}

impl Scribe {
    /// Writes until `stop`, and then what was handed in before.
    pub async fn write(mut self, stop: CancellationToken) {
        let mut batch = Vec::new();
        while stop.run_until_cancelled(self.seen.recv_many(&mut batch, WAITING)).await.is_some_and(|count| count > 0) {
            self.write_down(std::mem::take(&mut batch)).await;
        }
        while let Ok(one) = self.seen.try_recv() {
            batch.push(one);
        }
        self.write_down(batch).await;
    }

    /// What was seen several times is one write.
    async fn write_down(&self, batch: Vec<(RealmScope, NewDrift)>) {
        let mut counted: HashMap<(RealmId, String, String), (RealmScope, NewDrift)> = HashMap::new();
        for (realm, seen) in batch {
            let key = (realm.realm, seen.tool.key(), seen.fingerprint.clone());
            let count = seen.count;
            counted.entry(key).and_modify(|(_, known)| known.count += count).or_insert((realm, seen));
        }
        for (realm, seen) in counted.into_values() {
            if let Err(error) = self.store.drifts(&realm).record(seen).await {
                tracing::warn!(%error, "drift could not be written down");
            }
        }
    }
}

/// Shows findings, and lets people say that they know. Cheap to clone.
#[derive(Clone)]
pub struct Findings {
    store: Store,
    registry: Registry,
}

impl Findings {
    pub(crate) fn new(store: Store, registry: Registry) -> Self {
        Self { store, registry }
    }

    /// A page of findings, the newest first, of tools that the session may see.
    pub async fn list(&self, session: &Session, query: &DriftQuery) -> Result<Vec<Drift>, RegistryError> {
        self.registry.may_enter(session)?;
        Ok(self.store.drifts(&session.realm).list(query).await?)
    }

    /// Notes that a finding is known. Whoever may write the tool may say so.
    pub async fn accept(&self, session: &Session, id: DriftId) -> Result<Drift, RegistryError> {
        let drifts = self.store.drifts(&session.realm);
        let missing = || RegistryError::NotFound {
            kind: "finding",
            reference: id.to_string(),
            realm: session.realm.name.to_string(),
        };
        let found = drifts.get(id).await?.ok_or_else(missing)?;
        let name: RefName = found.tool.parse().map_err(|_| missing())?;
        let tool = match self.registry.find::<ToolDefinition>(session, &name).await? {
            Some(tool) => tool.body,
            None => ToolDefinition::new(name, ToolType::ExternalRest),
        };
        self.registry.may_replace(session, None, &tool)?;
        drifts.accept(id, session.principal.name.as_str()).await?;
        drifts.get(id).await?.ok_or_else(missing)
    }
}
