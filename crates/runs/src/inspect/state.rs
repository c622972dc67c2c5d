//! The state of a run after one of its entries.

use toolwright_catalog::Session;
use toolwright_machine::AgentRun;
use toolwright_machine::agent::ForkState;
use toolwright_machine::journal::RunStart;
use toolwright_types::RunId;

use super::InspectError;
use crate::Runs;

/// The state of a run after an entry.
pub struct StateAt {
    /// The number of the entry.
    pub at: u64,
    /// The first entry of the journal.
    pub start: RunStart,
    /// The state of the machine after the entry.
    pub run: AgentRun,
    /// The reason why the run cannot be forked after this entry; `None` if it can.
    pub fork_obstacle: Option<&'static str>,
}

impl Runs {
    /// Returns the state of a run after the entry `at`, or after the last entry if `at` is `None`.
    ///
    /// The state is computed by replaying entries: the entries between the last checkpoint and `at`, or all entries up
    /// to `at` if there is no checkpoint before it. The time is proportional to their number. The entries are read a
    /// page at a time.
    pub async fn state_at(&self, session: &Session, run: RunId, at: Option<u64>) -> Result<StateAt, InspectError> {
        let row = self.inspected(session, run).await?;
        let (to, written) = (at.unwrap_or(u64::MAX), row.state.journal_position.n);
        if let Some(at) = at.filter(|at| *at == 0 || (row.state.status.is_terminal() && *at > written)) {
            return Err(InspectError::NoEntry { at, entries: written });
        }
        let replayed = self.0.replay_to(&session.realm, run, to..=to, |_, _| ()).await?;
        let no_entry = |entries| InspectError::NoEntry { at: to, entries };
        let replayer = replayed.ok_or_else(|| no_entry(0))?;
        let last = replayer.last();
        if at.is_some_and(|at| at != last) {
            return Err(no_entry(last));
        }
        let (start, run) = replayer.finish();
        let fork_obstacle = ForkState::of(&run).obstacle(self.now());
        Ok(StateAt { at: last, start, run, fork_obstacle })
    }
}
