//! Fires the schedules that are due, and repeats firings whose server has failed.
//!
//! Every server with the same database runs this loop. The store lets one of them advance a schedule, so a time fires
//! once. The firing is stored before its run starts; if the server fails in between, another server starts the run with
//! the same id.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio_util::sync::CancellationToken;
use toolwright_catalog::CompiledTrigger;
use toolwright_store::{Firing, FiringStatus, NewFiring, ScheduledTrigger};
use toolwright_types::DocumentId as _;
use toolwright_types::{Document, FiringId, RealmScope, RunId, Timestamp, TriggerDefinition};

use crate::fire::Cause;
use crate::incoming::decode;
use crate::{FireError, Triggers, trigger_id};

/// How often the server looks for schedules that are due.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// The maximum number of schedules or firings that one query returns.
const BATCH_SIZE: i64 = 50;
/// The maximum number of attempts to start the run of a scheduled firing.
const MAX_ATTEMPTS: i64 = 10;
/// How often old firings are deleted.
const DELETE_EVERY_MICROS: i64 = 3600 * 1_000_000;
/// How long firings are kept. The id of a webhook is remembered for the same time.
const KEPT_MICROS: i64 = 30 * 24 * 3600 * 1_000_000;

/// What one server remembers between two rounds of the loop.
#[derive(Debug, Default)]
pub struct SchedulerState {
    /// The generation of the definitions for which all schedules are computed.
    generation: Option<i64>,
    deleted_at: Option<Timestamp>,
}

impl Triggers {
    /// Fires schedules until `stop` is cancelled.
    pub async fn run_scheduler(self, stop: CancellationToken) {
        let mut state = SchedulerState::default();
        let mut changes = self.0.registry.catalog().generations();
        loop {
            // At shutdown, this future is dropped. A firing that was stored and not started is repeated later.
            match stop.run_until_cancelled(Box::pin(self.run_due(&mut state))).await {
                None => return,
                Some(Err(error)) => {
                    tracing::warn!(error = &error as &dyn std::error::Error, "schedules could not be fired");
                }
                Some(Ok(())) => {}
            }
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(POLL_INTERVAL) => {}
                Ok(()) = changes.changed() => {}
            }
        }
    }

    /// Computes changed schedules, fires the schedules that are due, and repeats interrupted firings.
    pub async fn run_due(&self, state: &mut SchedulerState) -> Result<(), FireError> {
        let generation = self.0.store.generation().await?;
        if state.generation != Some(generation) {
            self.compute_changed_schedules().await?;
            state.generation = Some(generation);
        }
        let now = self.0.clock.now();
        for due in self.0.store.schedules().due(now, BATCH_SIZE).await? {
            Box::pin(self.fire_schedule(due, now)).await?;
        }
        for firing in self.0.store.due_firings(now, BATCH_SIZE).await? {
            if let Some(claimed) = self.0.store.claim_firing(&firing, now).await? {
                self.repeat_firing(claimed).await?;
            }
        }
        if state.deleted_at.is_none_or(|at| now.as_micros() - at.as_micros() > DELETE_EVERY_MICROS) {
            let before = Timestamp::from_micros(now.as_micros().saturating_sub(KEPT_MICROS));
            self.0.store.delete_old_firings(before).await?;
            state.deleted_at = Some(now);
        }
        Ok(())
    }

    async fn compute_changed_schedules(&self) -> Result<(), FireError> {
        loop {
            let changed = self.0.store.schedules().changed(BATCH_SIZE).await?;
            let is_last = i64::try_from(changed.len()).is_ok_and(|count| count < BATCH_SIZE);
            for ScheduledTrigger { document, .. } in changed {
                let next =
                    self.compiled(&document).and_then(|trigger| trigger.schedule?.next_after(self.0.clock.now()));
                self.0.store.schedules().set(&document, next).await?;
            }
            if is_last {
                return Ok(());
            }
        }
    }

    /// Compiles a stored trigger. Returns `None` if it is paused, or not valid in this release.
    fn compiled(&self, document: &Document<Value>) -> Option<CompiledTrigger> {
        let invalid = |error: &dyn std::fmt::Display| {
            tracing::warn!(trigger = %document.meta.ref_name, %error, "a trigger is not valid and does not fire");
        };
        let decoded = decode::<TriggerDefinition>(document.clone()).inspect_err(|error| invalid(error)).ok()?;
        if !decoded.body.enabled {
            return None;
        }
        let compiled = CompiledTrigger::compile(decoded.body, self.0.clock.now());
        compiled.inspect_err(|error| invalid(error)).ok()
    }

    /// Advances a schedule that is due, and starts the runs of its firings.
    async fn fire_schedule(&self, due: ScheduledTrigger, now: Timestamp) -> Result<(), FireError> {
        let compiled = self.compiled(&due.document);
        let times = compiled.as_ref().and_then(|trigger| {
            Some(trigger.schedule.as_ref()?.due_times(due.next_at?, now, trigger.definition.missed_runs))
        });
        let Some(times) = times else {
            self.0.store.schedules().advance(&due, None, &[]).await?;
            return Ok(());
        };
        let firing = |cause| self.new_firing(due.realm, &due.document, cause);
        let mut firings: Vec<NewFiring> =
            times.fire.iter().map(|at| firing(Cause::Schedule(*at))).collect::<Result<_, _>>()?;
        let to_start = firings.clone();
        if let (true, Some(first)) = (times.skipped > 0, due.next_at) {
            firings.push(missed(&due, first, times.skipped, now)?);
        }
        let claimed = self.0.store.schedules().advance(&due, times.next, &firings).await?;
        let realm = self.0.store.tenancy().realm_by_id(due.realm).await?;
        if let (true, Some(realm)) = (claimed, realm) {
            let (realm, ready) = (Arc::new(realm), self.compile(decode(due.document)?)?);
            for firing in &to_start {
                // The error is stored with the firing.
                let _ = self.start_firing(&realm, &ready, firing, Value::Null).await;
            }
        }
        Ok(())
    }

    /// Starts the run of a firing whose server has failed, or whose start has failed for a temporary reason.
    async fn repeat_firing(&self, firing: Firing) -> Result<(), FireError> {
        let Some((realm, document)) = self.trigger(firing.trigger).await? else {
            let Some(realm) = self.0.store.tenancy().realm_by_id(firing.realm).await? else { return Ok(()) };
            return self.give_up(&realm, firing.id, "the trigger was deleted").await;
        };
        if firing.attempts > MAX_ATTEMPTS {
            let last = firing.error.unwrap_or_else(|| "every server that started the run has failed".to_owned());
            return self.give_up(&realm, firing.id, &last).await;
        }
        match self.compile(document) {
            // The error is stored with the firing.
            Ok(trigger) => drop(self.start_stored_firing(&realm, &trigger, firing, Value::Null).await),
            Err(error) => self.give_up(&realm, firing.id, &error.to_string()).await?,
        }
        Ok(())
    }

    async fn give_up(&self, realm: &RealmScope, firing: FiringId, reason: &str) -> Result<(), FireError> {
        Ok(self.0.store.firings(realm).finish(firing, FiringStatus::Failed, Some(reason), None).await?)
    }
}

/// The firing that records the missed times for which no run starts.
fn missed(due: &ScheduledTrigger, first: Timestamp, count: usize, now: Timestamp) -> Result<NewFiring, FireError> {
    Ok(NewFiring {
        id: FiringId::generate(),
        realm: due.realm,
        trigger: trigger_id(&due.document)?,
        cause: format!("missed since {first}"),
        fired_at: now,
        repeats: false,
        skipped: Some(match count {
            1 => format!("no server was running at the scheduled time {first}"),
            _ => format!("no server was running at {count} scheduled times since {first}"),
        }),
        run: RunId::generate(),
    })
}
