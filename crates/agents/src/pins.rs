//! Determines the values of a run's pins, which may be outputs of earlier runs.

use indexmap::IndexMap;
use toolwright_machine::{PinError, resolve_pins};
use toolwright_store::{Owners, RunQuery};
use toolwright_types::{OnMissing, RunStatus, ToolEnvelope};

use super::Agents;
use toolwright_catalog::Session;
use toolwright_catalog::Unavailable;
use toolwright_runs::RunSnapshot;

/// The maximum number of earlier runs that are searched for a successful output.
const EARLIER_RUNS: u32 = 50;

/// The value of each pin by name, in the order of the agent's definition.
pub type Pins = IndexMap<String, Option<ToolEnvelope>>;

impl Agents {
    /// Determines the values of a run's pins. A pin with `stale_last_success` may use the last successful output of an
    /// earlier run. Only runs of the same agent, owner, principal and realm are searched, latest first. The principal
    /// alone is not sufficient: an agent with a `principalRef` acts as one principal for all its callers, and a pin
    /// must not contain the results of another caller.
    pub async fn pins(&self, session: &Session, snapshot: &RunSnapshot) -> Result<Result<Pins, PinError>, Unavailable> {
        let pins = &snapshot.start.spec.pins;
        if pins.is_empty() {
            return Ok(Ok(Pins::new()));
        }
        let outputs = snapshot.run.outputs();
        let mut stale: IndexMap<String, ToolEnvelope> = IndexMap::new();
        if pins.iter().any(|pin| pin.on_missing == OnMissing::StaleLastSuccess) {
            for earlier in self.earlier_outputs(session, snapshot).await? {
                for envelope in earlier.in_order().rev().filter(|envelope| envelope.is_success()) {
                    stale.entry(envelope.name.to_ascii_lowercase()).or_insert_with(|| envelope.clone());
                }
            }
        }
        Ok(resolve_pins(&outputs, pins, |tool| stale.get(&tool.to_ascii_lowercase()).cloned()))
    }

    /// Returns the outputs of earlier runs, latest first.
    async fn earlier_outputs(
        &self,
        session: &Session,
        snapshot: &RunSnapshot,
    ) -> Result<Vec<toolwright_machine::AgentOutputs>, Unavailable> {
        let runs = self.0.store.runs(&session.realm);
        let Some(own) = runs.get(snapshot.run.id()).await? else { return Ok(Vec::new()) };
        let query = RunQuery {
            subject: Some(snapshot.start.subject.clone()),
            principal: Some(own.principal),
            status: RunStatus::ALL.into_iter().filter(|status| status.is_terminal()).collect(),
            limit: EARLIER_RUNS,
            ..RunQuery::default()
        };
        let mut outputs = Vec::new();
        for row in runs.list(Owners::Only(own.owner), &query).await?.items {
            if row.id != own.id && row.started_at <= own.started_at {
                match self.0.runs.outputs(&session.realm, row.id).await {
                    Ok(earlier) => outputs.push(earlier),
                    // A run that cannot be read is skipped, so that the outputs of the other runs can be used.
                    Err(error) => tracing::warn!(run = %row.id, %error, "earlier run skipped: cannot be read"),
                }
            }
        }
        Ok(outputs)
    }
}
