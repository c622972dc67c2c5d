//! What the server does for runs that nobody drives: their time comes, or their server has gone.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use toolwright_machine::agent::Event;
use toolwright_machine::agent::Happened;
use toolwright_machine::journal::Recorded;
use toolwright_store::Change;
use toolwright_types::Timestamp;

use super::journal::{LOOK_AFTER_US, Safety, state_of};
use super::load::Revived;
use super::signal::{SignalError, Wish};
use super::{Inner, Runs, turns};
use crate::Unavailable;

/// The longest sleep: another server may have put down a run whose time comes sooner.
const LONGEST_SLEEP: Duration = Duration::from_secs(5);
/// How many runs are woken at once.
const AT_ONCE: u32 = 200;

impl Runs {
    /// Goes on with the durable runs that a lost server left in the middle, and ends the others. What those intended and
    /// nobody saw the outcome of is told in their receipts.
    pub(crate) async fn take_up_abandoned(&self) -> Result<(), Unavailable> {
        let (mut resumed, mut ended) = (0usize, 0usize);
        for (realm, row) in self.0.store.abandoned_runs(self.0.clock.now()).await? {
            // One that began here just now may not know yet whose it is.
            if self.0.hub.get(row.id).is_some_and(|live| live.is_driven()) {
                continue;
            }
            if row.durable {
                resumed += 1;
                let (shared, live) = (Arc::clone(&self.0), self.0.hub.get_or_insert(row.id));
                self.0.drivers.spawn(async move {
                    let sent = shared.send(&live, &Arc::new(realm), Wish::Wake).await;
                    // Another server may have been faster.
                    if let Err(error) = sent.or_else(SignalError::unless_elsewhere) {
                        tracing::error!(run = %live.id, error = &error as &dyn std::error::Error, "a run cannot be gone on with");
                    }
                });
                continue;
            }
            if !self.0.take(row.id).await? {
                continue;
            }
            ended += 1;
            if let Err(error) = self.0.end_interrupted(&realm, row.id).await {
                tracing::error!(run = %row.id, error = &error as &dyn std::error::Error, "an interrupted run cannot be ended");
            }
        }
        if resumed + ended > 0 {
            tracing::warn!(resumed, ended, "a server that is gone left runs in the middle");
        }
        Ok(())
    }

    /// Wakes runs whose time has come, and where servers share a database takes up what lost ones left, until `stop`.
    pub(crate) async fn keep_time(self, shared: bool, stop: CancellationToken) {
        // A run may have ended whose server died before it could tell the one that waits for it. At first that one does
        // not have to wait until it would look by itself.
        let mut ahead = LOOK_AFTER_US;
        loop {
            if shared && let Err(error) = self.take_up_abandoned().await {
                tracing::warn!(error = &error as &dyn std::error::Error, "cannot see which runs are abandoned");
            }
            let pause = match self.0.wake_due(std::mem::take(&mut ahead)).await {
                Ok(pause) => pause,
                Err(error) => {
                    tracing::warn!(error = &error as &dyn std::error::Error, "cannot see which runs are due");
                    LONGEST_SLEEP
                }
            };
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(pause) => {}
                () = self.0.put_down.notified() => {}
            }
        }
    }
}

impl Inner {
    /// Wakes what is due within so many microseconds, and says when to look again.
    async fn wake_due(self: &Arc<Self>, ahead: i64) -> Result<Duration, Unavailable> {
        let by = Timestamp::from_micros(self.clock.now().as_micros().saturating_add(ahead));
        for (realm, row) in self.store.due_runs(by, AT_ONCE).await? {
            let live = self.hub.get_or_insert(row.id);
            let sent = self.send(&live, &Arc::new(realm), Wish::Wake).await;
            if let Err(error) = sent.or_else(SignalError::unless_elsewhere) {
                tracing::warn!(run = %row.id, error = &error as &dyn std::error::Error, "a run that is due cannot be woken");
            }
        }
        let Some(next) = self.store.next_wake().await? else { return Ok(LONGEST_SLEEP) };
        let micros = next.as_micros().saturating_sub(self.clock.now().as_micros());
        // Never at once: a run that cannot be woken must not keep the server busy.
        let pause = Duration::from_micros(u64::try_from(micros).unwrap_or(0)).max(Duration::from_millis(100));
        Ok(pause.min(LONGEST_SLEEP))
    }

    async fn end_interrupted(
        self: &Arc<Self>,
        realm: &toolwright_types::RealmScope,
        run: toolwright_types::RunId,
    ) -> Result<(), Unavailable> {
        let live = self.hub.get_or_insert(run);
        let home = Arc::new(realm.clone());
        let Revived { began, run: mut machine, mut journal, .. } = self.revive(&live, &home).await?;
        let at = self.clock.now();
        // One that had ended only lacks what belongs to its end.
        if machine.ending().is_none() {
            let message = "the server stopped while the run was under way".to_owned();
            let what = Happened::Failed { reason: "interrupted".into(), message };
            let recorded = journal.append(at, Recorded::Happened(what), Safety::Now).await?;
            if let Recorded::Happened(what) = recorded {
                let ended = machine.apply(Event { at, what });
                ended.map_err(|error| Unavailable::new("the run does not take its end")(Box::new(error)))?;
            }
        }
        let mut changes =
            vec![Change::Settle { state: state_of(&machine, at, journal.mark(), false), waits: Vec::new() }];
        changes.extend(turns::of_run(&began, realm.realm, &machine, at));
        journal.settle(changes).await?;
        journal.reveal();
        self.cancel_children(&live, &home, &began).await;
        self.tell_parent(&began, &home);
        Ok(())
    }
}
