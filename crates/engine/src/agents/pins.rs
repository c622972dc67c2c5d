//! What an agent's pins show, earlier runs included.

use indexmap::IndexMap;
use toolwright_machine::{PinError, resolve_pins};
use toolwright_store::RunQuery;
use toolwright_types::{OnMissing, RunStatus, ToolEnvelope};

use super::Agents;
use crate::Unavailable;
use crate::access::Session;
use crate::runs::Snapshot;

/// How many earlier runs are searched for a success.
const EARLIER_RUNS: u32 = 50;

/// The value of each pin, in the order of the pins.
pub type Pins = IndexMap<String, Option<ToolEnvelope>>;

impl Agents {
    /// What the pins of a run show. `stale_last_success` looks at the last runs of the same agent by the same
    /// principal in the same realm.
    pub async fn pins(&self, session: &Session, snapshot: &Snapshot) -> Result<Result<Pins, PinError>, Unavailable> {
        let pins = &snapshot.began.spec.pins;
        if pins.is_empty() {
            return Ok(Ok(Pins::new()));
        }
        let outputs = snapshot.run.outputs();
        let mut stale: IndexMap<String, ToolEnvelope> = IndexMap::new();
        if pins.iter().any(|pin| pin.on_missing == OnMissing::StaleLastSuccess) {
            for earlier in self.earlier(session, snapshot).await? {
                for envelope in earlier.in_order().rev().filter(|envelope| envelope.is_success()) {
                    stale.entry(envelope.name.to_ascii_lowercase()).or_insert_with(|| envelope.clone());
                }
            }
        }
        Ok(resolve_pins(&outputs, pins, |tool| stale.get(&tool.to_ascii_lowercase()).cloned()))
    }

    /// The outputs of earlier runs, the latest first.
    async fn earlier(
        &self,
        session: &Session,
        snapshot: &Snapshot,
    ) -> Result<Vec<toolwright_machine::AgentOutputs>, Unavailable> {
        let runs = self.0.store.runs(&session.realm);
        let Some(own) = runs.get(snapshot.run.id()).await? else { return Ok(Vec::new()) };
        let query = RunQuery {
            subject: Some(snapshot.began.agent.clone()),
            principal: Some(own.principal),
            status: RunStatus::ALL.into_iter().filter(|status| status.is_end()).collect(),
            limit: EARLIER_RUNS,
            ..RunQuery::default()
        };
        let mut outputs = Vec::new();
        for row in runs.list(&query).await?.items {
            if row.id != own.id && row.started_at <= own.started_at {
                match self.0.runs.outputs(&session.realm, row.id).await {
                    Ok(earlier) => outputs.push(earlier),
                    // One that cannot be read must not take the others with it.
                    Err(error) => tracing::warn!(run = %row.id, %error, "an earlier run is left out"),
                }
            }
        }
        Ok(outputs)
    }
}
