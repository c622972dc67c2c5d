//! Reads single runs, lists of runs and lists of waits, and watches runs.

use std::sync::Arc;

use toolwright_authz::{Action, Resource};
use toolwright_catalog::{Session, Unavailable};
use toolwright_store::Owners;
use toolwright_types::{Owner, PrincipalId, RunId, TrialId};

use super::command::CommandError;
use super::journal::state_of;
use super::{
    PendingWait, Run, RunCursor, RunHandle, RunQuery, RunRecord, RunWatch, Runs, TrialQuery, TrialSummary, WaitCursor,
    WaitQuery,
};

impl Runs {
    /// Returns a run that the session may read.
    pub async fn get(&self, session: &Session, run: RunId) -> Result<RunRecord, CommandError> {
        let row = self.permitted(session, run, Action::Read).await?;
        let loaded = self.0.load(&session.realm, run).await?;
        let last = loaded.entries.last().map_or(row.state.updated_at, |entry| entry.at);
        // The row of a driven run can be older than its journal. So the state is computed from the machine instead.
        let state = state_of(
            &loaded.snapshot.run,
            last.max(row.state.updated_at),
            row.state.journal_position,
            row.state.driven,
        );
        Ok(RunRecord { row: Run { state, ..row }, snapshot: loaded.snapshot })
    }

    /// A page of runs. Without the permission to read all runs, only runs that the principal started are listed.
    pub async fn list(
        &self,
        session: &Session,
        query: RunQuery,
    ) -> Result<toolwright_store::Page<Run, RunCursor>, Unavailable> {
        Ok(self.0.store.runs(&session.realm).list(self.visible_owners(session), &query).await?)
    }

    /// The number of runs. Without the permission to read all runs, only runs that the principal started are counted.
    pub async fn count(&self, session: &Session, query: RunQuery) -> Result<u64, Unavailable> {
        Ok(self.0.store.runs(&session.realm).count(self.visible_owners(session), &query).await?)
    }

    /// A page of trials. Without the permission to read all runs, only trials that the principal started are listed.
    pub async fn trials(
        &self,
        session: &Session,
        query: &TrialQuery,
    ) -> Result<toolwright_store::Page<TrialSummary, TrialId>, Unavailable> {
        Ok(self.0.store.runs(&session.realm).trials(self.visible_owners(session), query).await?)
    }

    /// A page of waits. If the session may not read all runs, the page contains only waits of the runs that its
    /// principal started.
    pub async fn waits(
        &self,
        session: &Session,
        query: WaitQuery,
    ) -> Result<toolwright_store::Page<PendingWait, WaitCursor>, Unavailable> {
        Ok(self.0.store.runs(&session.realm).waits(self.visible_owners(session), &query).await?)
    }

    /// Watches a run, starting after the entry with the number `after`.
    pub async fn watch(&self, session: &Session, run: RunId, after: u64) -> Result<RunWatch, CommandError> {
        let row = self.permitted(session, run, Action::Read).await?;
        let handle = self.0.registry.get_or_insert(run);
        // A run that is being recovered already has a driver, but its metadata may not be loaded yet.
        if !handle.is_driven() || handle.meta().is_none() {
            let loaded = self.0.load(&session.realm, run).await?;
            handle.set_history(loaded.meta(&session.realm, row.owner), loaded.entries);
        }
        Ok(RunWatch::new(Arc::clone(&self.0), handle, after))
    }

    /// Watches a run that was just started.
    pub fn watch_handle(&self, handle: &Arc<RunHandle>) -> RunWatch {
        RunWatch::new(Arc::clone(&self.0), Arc::clone(handle), 0)
    }

    /// Returns the owners whose runs the session may list.
    pub(super) fn visible_owners(&self, session: &Session) -> Owners {
        if self.sees_all(session) { Owners::All } else { Owners::Only(Owner::of(&session.principal)) }
    }

    fn sees_all(&self, session: &Session) -> bool {
        // No principal has the id 0. So a session that may read the runs of this owner may read all runs.
        let any_owner = Resource::Run { owner: PrincipalId::from_bits(0) };
        self.0.access.require(session, Action::Read, any_owner).is_ok()
    }

    /// Returns the row of a run if the session may perform `action` on the run. If the session may not read the run,
    /// the error is the same as for a run that does not exist.
    pub(super) async fn permitted(&self, session: &Session, run: RunId, action: Action) -> Result<Run, CommandError> {
        let unknown = || CommandError::UnknownRun(run.to_string());
        let found = self.0.store.runs(&session.realm).get(run).await.map_err(Unavailable::from)?;
        let row = match found {
            Some(row) => row,
            None => match self.just_written(session, run).await? {
                Some(row) => row,
                None => return Err(self.gone(session, run).await?.unwrap_or_else(unknown)),
            },
        };
        let resource = Resource::Run { owner: row.owner.id() };
        if self.0.access.require(session, Action::Read, resource).is_err() {
            return Err(unknown());
        }
        self.0.access.require(session, action, resource)?;
        Ok(row)
    }

    /// Waits until the writer has committed its queued changes of this run, and reads the row again. The row can still
    /// be in the queue if the run has just started, or if the run is a direct call that only reads: such a call does
    /// not wait for the commit.
    async fn just_written(&self, session: &Session, run: RunId) -> Result<Option<Run>, Unavailable> {
        self.0.writer.commit(run, Vec::new()).await?;
        Ok(self.0.store.runs(&session.realm).get(run).await?)
    }

    /// Returns the error for a deleted run, if the run was deleted and the session may see all runs.
    async fn gone(&self, session: &Session, run: RunId) -> Result<Option<CommandError>, CommandError> {
        if !self.sees_all(session) {
            return Ok(None);
        }
        let found = self.0.store.runs(&session.realm).tombstone(run).await.map_err(Unavailable::from)?;
        Ok(found.map(|tombstone| CommandError::Deleted(Box::new(tombstone))))
    }
}
