//! Reads parts of runs for people: pages of a journal, the state after an entry, trees of child runs, and the
//! differences between two journals. Nothing here loads a whole journal into memory.

mod compare;
mod page;
mod state;
mod tree;

use toolwright_authz::Action;
use toolwright_catalog::{Session, Unavailable};
use toolwright_machine::AgentRun;
use toolwright_machine::journal::{self, Checkpoint, Replayer};
use toolwright_store::JournalEntry;
use toolwright_types::{PrincipalId, RealmScope, RunId};

use super::command::CommandError;
use super::{Inner, Run, RunQuery, Runs};
pub use compare::{AlignedEntry, Divergence, JournalComparison};
pub use page::{InspectedEntry, JournalPage};
pub use state::StateAt;
pub use tree::{RunNode, RunTree};

/// The maximum number of entries that a replay reads with one query.
const REPLAY_PAGE: u32 = 500;

/// Why a part of a run cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum InspectError {
    /// The run cannot be read.
    #[error(transparent)]
    Run(#[from] CommandError),
    /// The run has no such entry.
    #[error("must be an entry of the run, between 1 and {entries}, got {at}")]
    NoEntry {
        /// The requested entry.
        at: u64,
        /// The number of entries.
        entries: u64,
    },
}

impl From<Unavailable> for InspectError {
    fn from(error: Unavailable) -> Self {
        InspectError::Run(error.into())
    }
}

impl Runs {
    /// Restricts a query to the runs that act as the principal with this name. If there is no such principal, the query
    /// matches nothing.
    pub async fn acting_as(&self, session: &Session, query: RunQuery, name: &str) -> Result<RunQuery, Unavailable> {
        let found = match name.parse() {
            Ok(name) => self.0.store.tenancy().principal(session.realm.org, &name).await?,
            Err(_) => None,
        };
        // No principal has the id 0.
        let principal = found.map_or(PrincipalId::from_bits(0), |principal| principal.id);
        Ok(RunQuery { principal: Some(principal), ..query })
    }

    /// Returns the row of a run if the session may read the run. Also commits the entries that are only in memory, so
    /// that they can be read from the store.
    async fn inspected(&self, session: &Session, run: RunId) -> Result<Run, CommandError> {
        let row = self.permitted(session, run, Action::Read).await?;
        if self.0.registry.get(run).is_some() {
            self.0.writer.commit(run, Vec::new()).await.map_err(Unavailable::from)?;
        }
        Ok(row)
    }
}

impl Inner {
    /// Replays the journal of a run up to the last entry of `range`, a page of entries at a time. If there is a
    /// checkpoint at the first entry of `range` or before it, the replay starts at the checkpoint, otherwise at the
    /// first entry of the journal. `each` is called with the number of an entry and the machine after it: first for the
    /// entry at which the replay starts, then for each replayed entry. Returns `None` if the run has no entries.
    ///
    /// The time is proportional to the number of replayed entries.
    async fn replay_to(
        &self,
        home: &RealmScope,
        run: RunId,
        range: std::ops::RangeInclusive<u64>,
        mut each: impl FnMut(u64, &AgentRun),
    ) -> Result<Option<Replayer>, Unavailable> {
        let (from, to) = range.into_inner();
        let runs = self.store.runs(home);
        let first = runs.entries(run, 0, 1).await?;
        let first = self.with_shared_parts(home, first.into_iter().map(std::sync::Arc::new).collect()).await?;
        let Some(first) = first.first() else { return Ok(None) };
        let stored = runs.checkpoint(run).await?.filter(|stored| stored.n <= from);
        // A checkpoint of a newer release cannot be read. Then the whole journal is replayed.
        let checkpoint = stored.and_then(|stored| {
            let run = AgentRun::restore(&stored.body).ok()?;
            Some(Checkpoint { n: stored.n, run })
        });
        let mut replayer = Replayer::new(parse(first)?, checkpoint).map_err(not_replayable)?.skip_to_checkpoint();
        each(replayer.last(), replayer.run());
        while replayer.last() < to {
            let page = runs.entries(run, replayer.last(), REPLAY_PAGE).await?;
            if page.is_empty() {
                break;
            }
            for entry in page.iter().take_while(|entry| entry.n <= to) {
                replayer.apply(parse(entry)?).map_err(not_replayable)?;
                each(replayer.last(), replayer.run());
            }
        }
        Ok(Some(replayer))
    }
}

fn parse(entry: &JournalEntry) -> Result<journal::Entry, Unavailable> {
    journal::Entry::parse(entry.n, entry.at, &entry.body)
        .map_err(|error| Unavailable::new("the journal cannot be read by this release", error))
}

fn not_replayable(error: journal::ReplayError) -> Unavailable {
    Unavailable::new("the journal cannot be replayed", error)
}
