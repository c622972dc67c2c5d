//! Records drift: differences between a tool's output schema and the output that the tool returned.
//!
//! A call adds its drift to a queue, and a background task writes the queue to the store. So a call never waits for the
//! store.

use std::collections::HashMap;

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
pub use toolwright_store::{Drift, DriftQuery};
use toolwright_store::{DriftSource, NewDrift, Store};
use toolwright_tools::CompiledTool;
use toolwright_tools::ports;
use toolwright_types::{
    DriftId, RealmId, RealmScope, RefName, SchemaDifference, ToolDefinition, ToolType, json::hex_digest,
};

use toolwright_catalog::Session;
use toolwright_catalog::registry::{Registry, RegistryError};

/// The capacity of the queue. Drift that does not fit is dropped.
const QUEUE_CAPACITY: usize = 1_000;

/// Queues drift for the writer. Cheap to clone.
#[derive(Clone)]
pub(crate) struct DriftRecorder(mpsc::Sender<(RealmScope, NewDrift)>);

/// Writes queued drift to the store.
pub(crate) struct DriftWriter {
    store: Store,
    queue: mpsc::Receiver<(RealmScope, NewDrift)>,
}

/// Creates a recorder and the writer that stores the drift from this recorder.
pub(crate) fn channel(store: Store) -> (DriftRecorder, DriftWriter) {
    let (sender, queue) = mpsc::channel(QUEUE_CAPACITY);
    (DriftRecorder(sender), DriftWriter { store, queue })
}

impl DriftRecorder {
    /// Adds the drift of a tool to the queue without waiting.
    pub(crate) fn send(
        &self,
        realm: &RealmScope,
        tool: &ToolDefinition,
        source: DriftSource,
        differences: &[SchemaDifference],
    ) {
        let Ok(differences) = serde_json::to_value(differences) else { return };
        let drift = NewDrift {
            tool: tool.ref_name.clone(),
            version: tool.version.to_string(),
            source,
            fingerprint: hex_digest(&differences),
            differences,
            count: 1,
        };
        if self.0.try_send((realm.clone(), drift)).is_err() {
            tracing::debug!(tool = %tool.ref_name, "drift was dropped because the queue is full");
        }
    }
}

impl ports::DriftSink for DriftRecorder {
    fn record(&self, realm: &RealmScope, tool: &CompiledTool, differences: &[SchemaDifference]) {
        self.send(realm, &tool.definition, DriftSource::Output, differences);
    }
}

impl DriftWriter {
    /// Writes drift until `stop` is cancelled. Then writes the drift that is still in the queue.
    pub(crate) async fn run(mut self, stop: CancellationToken) {
        let mut batch = Vec::new();
        while stop
            .run_until_cancelled(self.queue.recv_many(&mut batch, QUEUE_CAPACITY))
            .await
            .is_some_and(|count| count > 0)
        {
            self.write_batch(std::mem::take(&mut batch)).await;
        }
        while let Ok(drift) = self.queue.try_recv() {
            batch.push(drift);
        }
        self.write_batch(batch).await;
    }

    /// Writes a batch. Equal differences of the same tool are written as one finding with a count.
    async fn write_batch(&self, batch: Vec<(RealmScope, NewDrift)>) {
        let mut counted: HashMap<(RealmId, String, String), (RealmScope, NewDrift)> = HashMap::new();
        for (realm, drift) in batch {
            let key = (realm.realm, drift.tool.key(), drift.fingerprint.clone());
            let count = drift.count;
            counted.entry(key).and_modify(|(_, known)| known.count += count).or_insert((realm, drift));
        }
        for (realm, drift) in counted.into_values() {
            if let Err(error) = self.store.drifts(&realm).record(drift).await {
                tracing::warn!(%error, "could not write drift");
            }
        }
    }
}

/// Lists recorded drift and lets users accept it. Cheap to clone.
#[derive(Clone)]
pub struct DriftReports {
    store: Store,
    registry: Registry,
}

impl DriftReports {
    pub(crate) fn new(store: Store, registry: Registry) -> Self {
        Self { store, registry }
    }

    /// Returns a page of recorded drift in the realm of the session, newest first.
    pub async fn list(&self, session: &Session, query: &DriftQuery) -> Result<Vec<Drift>, RegistryError> {
        self.registry.may_enter(session)?;
        Ok(self.store.drifts(&session.realm).list(query).await?)
    }

    /// Marks recorded drift as accepted. The session needs the permission to write the tool.
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
