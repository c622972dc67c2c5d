//! How long runs are kept, and deleting them before.

use std::time::Duration;

use tokio_util::sync::CancellationToken;
use toolwright_authz::Action;
use toolwright_types::{RunId, RunStatus, Timestamp};

use super::signal::SignalError;
use super::{Inner, Runs};
use crate::Unavailable;
use crate::access::Session;

/// How often the server looks for what is too old.
const EVERY: Duration = Duration::from_secs(3600);
/// How many runs are looked up at once.
const AT_ONCE: u32 = 500;
/// For how long a part that no run names is kept: a run that names it may be about to be written.
const PARTS_KEPT: Duration = Duration::from_secs(24 * 3600);
/// Who deletes what is too old, as tombstones say it.
const BY: &str = "retention";

/// How long runs are kept after their end; for ever where nothing is said.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Retention {
    /// Those that completed.
    pub completed: Option<Duration>,
    /// All others.
    pub other: Option<Duration>,
}

impl Retention {
    fn of(self, status: RunStatus) -> Option<Duration> {
        if status == RunStatus::Completed { self.completed } else { self.other }
    }
}

impl Runs {
    /// Deletes a run that has ended, with its journal. A tombstone stays.
    pub async fn delete(&self, session: &Session, run: RunId) -> Result<(), SignalError> {
        self.permitted(session, run, Action::Write).await?;
        let by = session.principal.name.to_string();
        let deleted = self.0.store.runs(&session.realm).delete(run, &by, self.0.clock.now()).await;
        if deleted.map_err(Unavailable::from)? { Ok(()) } else { Err(SignalError::UnderWay(run.to_string())) }
    }

    /// Deletes what is too old, again and again until `stop`.
    pub(crate) async fn keep_tidy(self, retention: Retention, stop: CancellationToken) {
        loop {
            if let Err(error) = self.0.tidy(retention).await {
                tracing::warn!(error = &error as &dyn std::error::Error, "what is too old cannot be deleted");
            }
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(EVERY) => {}
            }
        }
    }
}

impl Inner {
    async fn tidy(&self, retention: Retention) -> Result<(), Unavailable> {
        let now = self.clock.now();
        let mut deleted = 0usize;
        for status in RunStatus::ALL.into_iter().filter(|status| status.is_end()) {
            let Some(age) = retention.of(status) else { continue };
            loop {
                let old = self.store.ended_before(status, earlier(now, age), AT_ONCE).await?;
                for (realm, run) in &old {
                    if let Some(realm) = self.store.tenancy().realm_by_id(*realm).await? {
                        self.store.runs(&realm).delete(*run, BY, now).await?;
                        deleted += 1;
                    }
                }
                if old.is_empty() {
                    break;
                }
            }
        }
        let parts = self.store.sweep_parts(earlier(now, PARTS_KEPT)).await?;
        if deleted > 0 || parts > 0 {
            tracing::info!(runs = deleted, parts, "deleted what was too old");
        }
        Ok(())
    }
}

fn earlier(now: Timestamp, age: Duration) -> Timestamp {
    let micros = i64::try_from(age.as_micros()).unwrap_or(i64::MAX);
    Timestamp::from_micros(now.as_micros().saturating_sub(micros))
}
