//! Deletes runs: expired runs automatically, and other ended runs on request.

use std::time::Duration;

use tokio_util::sync::CancellationToken;
use toolwright_authz::Action;
use toolwright_types::{RunId, RunStatus, Timestamp};

use super::command::CommandError;
use super::{Inner, Runs};
use toolwright_catalog::Session;
use toolwright_catalog::Unavailable;

/// How often the server deletes expired runs.
const EVERY: Duration = Duration::from_secs(3600);
/// The number of expired runs that one query reads.
const PAGE_SIZE: u32 = 500;
/// How long a shared part that no run refers to is kept. It is not deleted at once, because a new run that refers to it
/// may not be committed yet.
const PARTS_KEPT: Duration = Duration::from_secs(24 * 3600);
/// The value of `deleted_by` in the tombstones of expired runs.
const BY: &str = "retention";

/// How long runs are kept after they end. `None` keeps them forever.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Retention {
    /// Completed runs.
    pub completed: Option<Duration>,
    /// Runs that ended with any other status.
    pub other: Option<Duration>,
}

impl Retention {
    fn of(self, status: RunStatus) -> Option<Duration> {
        if status == RunStatus::Completed { self.completed } else { self.other }
    }
}

impl Runs {
    /// Deletes a run that has ended, with its journal. A tombstone remains, which says who deleted the run and when.
    pub async fn delete(&self, session: &Session, run: RunId) -> Result<(), CommandError> {
        self.permitted(session, run, Action::Write).await?;
        let by = session.principal.name.to_string();
        let deleted = self.0.store.runs(&session.realm).delete(run, &by, self.0.clock.now()).await;
        if deleted.map_err(Unavailable::from)? { Ok(()) } else { Err(CommandError::NotEnded(run.to_string())) }
    }

    /// Deletes expired runs periodically, until `stop` is cancelled.
    pub async fn run_retention(self, retention: Retention, stop: CancellationToken) {
        loop {
            if let Err(error) = self.0.delete_expired(retention).await {
                tracing::warn!(error = &error as &dyn std::error::Error, "expired runs cannot be deleted");
            }
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(EVERY) => {}
            }
        }
    }
}

impl Inner {
    async fn delete_expired(&self, retention: Retention) -> Result<(), Unavailable> {
        let now = self.clock.now();
        let mut deleted = 0usize;
        for status in RunStatus::ALL.into_iter().filter(|status| status.is_terminal()) {
            let Some(age) = retention.of(status) else { continue };
            loop {
                let old = self.store.runs_ended_before(status, earlier(now, age), PAGE_SIZE).await?;
                let mut deleted_of_page = 0;
                for (realm, run) in &old {
                    if let Some(realm) = self.store.tenancy().realm_by_id(*realm).await? {
                        let was_deleted = self.store.runs(&realm).delete(*run, BY, now).await?;
                        deleted_of_page += usize::from(was_deleted);
                    }
                }
                deleted += deleted_of_page;
                // If no run of the page was deleted, either the page was empty or the next query would return the same
                // page.
                if deleted_of_page == 0 {
                    break;
                }
            }
        }
        let parts = self.store.delete_unreferenced_parts(earlier(now, PARTS_KEPT)).await?;
        if deleted > 0 || parts > 0 {
            tracing::info!(runs = deleted, parts, "deleted expired runs");
        }
        Ok(())
    }
}

fn earlier(now: Timestamp, age: Duration) -> Timestamp {
    let micros = i64::try_from(age.as_micros()).unwrap_or(i64::MAX);
    Timestamp::from_micros(now.as_micros().saturating_sub(micros))
}
