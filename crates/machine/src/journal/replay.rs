//! Replays entries: computes the state of a run from its journal.

use super::{Entry, EntryBody, RunStart};
use crate::agent::{AgentRun, Event, EventError};

/// Entries that do not form a valid journal.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The first entry is not the start of a run.
    #[error("the first entry of the journal must be the start of a run")]
    MissingStart,
    /// An entry is missing or duplicated.
    #[error("expected entry {expected}, found entry {found}")]
    Gap {
        /// The expected number.
        expected: u64,
        /// The number found.
        found: u64,
    },
    /// The machine rejected an entry.
    #[error("the run rejected entry {n}")]
    Rejected {
        /// The entry.
        n: u64,
        /// The reason.
        #[source]
        source: EventError,
    },
}

/// The state of a run after one of its entries. Recovery starts from this state and does not apply earlier events
/// again. Recovery therefore works even if the current release would decide differently on earlier events.
#[derive(Debug, Clone, PartialEq)]
pub struct Checkpoint {
    /// The number of the last entry that the state includes.
    pub n: u64,
    /// The machine after this entry.
    pub run: AgentRun,
}

/// Replays a journal one entry at a time, so that the caller does not need all entries in memory.
#[derive(Debug)]
pub struct Replayer {
    start: RunStart,
    run: AgentRun,
    last: u64,
    /// Entries up to this number are part of the checkpoint and are not applied.
    checkpointed: u64,
}

impl Replayer {
    /// Starts a replay. `first` is the first entry of the journal. With a checkpoint, the machine starts in the state
    /// of the checkpoint.
    pub fn new(first: Entry, checkpoint: Option<Checkpoint>) -> Result<Self, ReplayError> {
        let EntryBody::Started(start) = first.body else {
            return Err(ReplayError::MissingStart);
        };
        let (checkpointed, run) = match checkpoint {
            Some(Checkpoint { n, run }) => (n, run),
            None => (first.n, AgentRun::new(start.spec.clone(), first.at)),
        };
        Ok(Self { start: *start, run, last: first.n, checkpointed })
    }

    /// Skips the entries up to the checkpoint: the next entry to apply is the one after the checkpoint.
    pub fn skip_to_checkpoint(mut self) -> Self {
        self.last = self.last.max(self.checkpointed);
        self
    }

    /// Replays the next entry. Entries up to the checkpoint are checked for gaps but not applied.
    pub fn apply(&mut self, entry: Entry) -> Result<(), ReplayError> {
        if entry.n != self.last + 1 {
            return Err(ReplayError::Gap { expected: self.last + 1, found: entry.n });
        }
        self.last = entry.n;
        if self.last <= self.checkpointed {
            return Ok(());
        }
        if let EntryBody::Event(kind) = entry.body {
            // In a live run, an effect is issued before its answer arrives. The replay does the same.
            self.run.mark_issued();
            let n = self.last;
            self.run.apply(Event { at: entry.at, kind }).map_err(|source| ReplayError::Rejected { n, source })?;
        }
        Ok(())
    }

    /// The number of the last replayed entry.
    pub fn last(&self) -> u64 {
        self.last
    }

    /// The machine after the last replayed entry.
    pub fn run(&self) -> &AgentRun {
        &self.run
    }

    /// Returns the start of the run and the state of its machine. All open effects are marked as not issued.
    pub fn finish(mut self) -> (RunStart, AgentRun) {
        self.run.reissue_effects();
        (self.start, self.run)
    }
}

/// Replays entries and returns the start of the run and the state of its machine. All open effects are marked as not
/// issued.
pub fn replay(entries: impl IntoIterator<Item = Entry>) -> Result<(RunStart, AgentRun), ReplayError> {
    replay_from(None, entries)
}

/// Replays entries from a checkpoint, if there is one. Entries up to the checkpoint are checked for gaps but not
/// applied.
pub fn replay_from(
    checkpoint: Option<Checkpoint>,
    entries: impl IntoIterator<Item = Entry>,
) -> Result<(RunStart, AgentRun), ReplayError> {
    let mut entries = entries.into_iter();
    let mut replayer = Replayer::new(entries.next().ok_or(ReplayError::MissingStart)?, checkpoint)?;
    for entry in entries {
        replayer.apply(entry)?;
    }
    Ok(replayer.finish())
}
