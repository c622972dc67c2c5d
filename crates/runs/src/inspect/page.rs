//! Pages of a journal.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::Value;
use toolwright_catalog::{Session, Unavailable};
use toolwright_machine::agent::{EventKind, ForkState};
use toolwright_machine::journal::{Entry, EntryBody};
use toolwright_store::{JournalPageQuery, JournalRow};
use toolwright_types::{CallId, RealmScope, RunId, Timestamp};

use super::{InspectError, parse};
use crate::{Inner, Run, Runs};

/// A page of a journal.
pub struct JournalPage {
    /// The entries.
    pub entries: Vec<InspectedEntry>,
    /// The number of the first entry of the next page; `None` on the last page.
    pub next: Option<u64>,
}

/// An entry of a journal with its call, its start time, and whether the run can be forked after the entry.
pub struct InspectedEntry {
    /// The entry.
    pub entry: Entry,
    /// The content as JSON, with its shared parts.
    pub body: Value,
    /// The id of the call to which the event of the entry applies; `None` if it does not apply to exactly one call.
    pub call_id: Option<CallId>,
    /// The tool of the call.
    pub tool: Option<String>,
    /// The start time of the operation that ends with this entry.
    pub started_at: Option<Timestamp>,
    /// The reason why the run cannot be forked after this entry; `None` if it can.
    pub fork_obstacle: Option<&'static str>,
}

impl Runs {
    /// Returns one page of the journal of a run. One query reads the entries of the page and their neighbours.
    ///
    /// The fork state after an entry is stored with the next entry. The last entry of a run that has not ended has no
    /// next entry. For this entry, the entries after the last checkpoint are replayed, which are about fifty at most.
    /// Entries of earlier builds, and journals that are stored as one text in the row of the run, have no stored fork
    /// states. In these cases the journal is replayed up to the end of the page.
    pub async fn journal_page(
        &self,
        session: &Session,
        run: RunId,
        query: JournalPageQuery,
    ) -> Result<JournalPage, InspectError> {
        let row = self.inspected(session, run).await?;
        let limit = query.limit;
        let query = JournalPageQuery { limit: limit.saturating_add(1), ..query };
        let mut rows = self.0.store.runs(&session.realm).journal_page(run, &query).await.map_err(Unavailable::from)?;
        let page_size = usize::try_from(limit).unwrap_or(usize::MAX);
        let next = rows.get(page_size).map(|row| row.entry.n);
        rows.truncate(page_size);
        let states = self.0.fork_states(&session.realm, &row, &rows).await?;
        let now = self.now();
        let mut entries = Vec::with_capacity(rows.len());
        for row in rows {
            let fork_obstacle = states.get(&row.entry.n).and_then(|state| state.obstacle(now));
            entries.push(InspectedEntry { fork_obstacle, ..self.0.inspect(&session.realm, row).await? });
        }
        Ok(JournalPage { entries, next })
    }
}

impl Inner {
    async fn inspect(&self, home: &RealmScope, row: JournalRow) -> Result<InspectedEntry, Unavailable> {
        let JournalRow { entry, started_at, .. } = row;
        let notes = entry.notes.clone();
        let restored = self.with_shared_parts(home, vec![Arc::new(entry)]).await?;
        let stored = restored.first().ok_or_else(|| Unavailable::new("an entry cannot be read", "no entry"))?;
        let entry = parse(stored)?;
        let body = serde_json::from_str(&stored.body)
            .map_err(|error| Unavailable::new("the journal cannot be read by this release", error))?;
        let (call_id, tool) = call_of(&entry).unwrap_or((notes.call_id, notes.tool));
        Ok(InspectedEntry { entry, body, call_id, tool, started_at, fork_obstacle: None })
    }

    /// Returns the fork state after each entry of a page, by entry number.
    async fn fork_states(
        &self,
        home: &RealmScope,
        run: &Run,
        rows: &[JournalRow],
    ) -> Result<HashMap<u64, ForkState>, Unavailable> {
        let mut states: HashMap<u64, ForkState> =
            rows.iter().filter_map(|row| Some((row.entry.n, stored_state(run, row)?))).collect();
        let mut missing = rows.iter().map(|row| row.entry.n).filter(|n| !states.contains_key(n));
        if let Some(first) = missing.next() {
            let last = missing.next_back().unwrap_or(first);
            let mut replayed = HashMap::new();
            let collect = |n: u64, machine: &_| {
                if n >= first {
                    replayed.insert(n, ForkState::of(machine));
                }
            };
            self.replay_to(home, run.id, first..=last, collect).await?;
            for (n, state) in replayed {
                states.entry(n).or_insert(state);
            }
        }
        Ok(states)
    }
}

/// Returns the fork state after an entry; `None` if it is not stored.
fn stored_state(run: &Run, row: &JournalRow) -> Option<ForkState> {
    let parse = |text: &Option<String>| text.as_deref().and_then(|text| text.parse().ok());
    let ends_run = run.state.status.is_terminal() && row.entry.n == run.state.journal_position.n;
    match parse(&row.fork_state) {
        Some(state) => Some(state),
        None if ends_run => match parse(&row.entry.notes.fork_state)? {
            ForkState::NoModel => Some(ForkState::NoModel),
            _ => Some(ForkState::Ended),
        },
        None => None,
    }
}

/// Returns the call id and the tool from the envelope in an entry; `None` if the entry has no envelope.
fn call_of(entry: &Entry) -> Option<(Option<CallId>, Option<String>)> {
    match &entry.body {
        EntryBody::Event(
            EventKind::CallEnded { envelope, .. } | EventKind::HandedToClient { pending: envelope, .. },
        ) => Some((Some(envelope.call_id.clone()), Some(envelope.name.clone()))),
        _ => None,
    }
}
