//! The journals as a killed server left them, and what must never change in them.
//!
//! They are read from a copy: what is to be recovered is left for the next server.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;
use std::sync::Arc;

use serde_json::json;
use toolwright_machine::agent::Happened;
use toolwright_machine::journal::{self, Recorded, parts};
use toolwright_store::{Entry, Location, Options, Run, RunQuery, SealKey, Store};
use toolwright_types::{CallId, RunId, SystemClock, ToolEnvelope};

use super::report::Violations;
use super::server::Home;
use super::tap::{Kind, Passage, Tap, tag_in};

/// A run and its journal.
#[derive(Clone)]
pub struct Kept {
    pub row: Run,
    pub entries: Vec<Entry>,
}

/// What the dead servers left, one after the other.
#[derive(Default)]
pub struct History {
    /// The newest that is known of each run.
    pub runs: BTreeMap<RunId, Kept>,
    /// Steps whose outcome was written when a server died: how many requests had come to the CRM until then, and whose
    /// step it was.
    pub done: HashMap<String, (usize, RunId, CallId)>,
    /// Writes that a server left without an outcome when it died.
    pub left_open: BTreeSet<(RunId, CallId)>,
    /// Requests up to here have been looked at.
    looked_at: usize,
    pub violations: Violations,
}

impl History {
    /// Looks at what a dead server left.
    pub async fn look(&mut self, home: &Home, tap: &Tap) {
        let (passed, passages) = (tap.count(), tap.passages());
        let left = read(&home.data()).await;
        for run in self.runs.keys().filter(|run| !left.contains_key(run)) {
            self.violations.add(*run, None, "a run that was there is gone");
        }
        for (run, kept) in left {
            self.compare(run, &kept);
            let facts = Facts::of(&kept.entries);
            for outcome in &facts.outcomes {
                if let Some(tag) = tag_in(&outcome.input.to_string()) {
                    self.done.entry(tag).or_insert((passed, run, outcome.call_id.clone()));
                }
            }
            self.left_open.extend(facts.open.iter().map(|call| (run, call.clone())));
            self.runs.insert(run, kept);
        }
        self.intended_first(&passages[self.looked_at..passed]);
        self.looked_at = passed;
    }

    /// What was written stays as it is.
    fn compare(&mut self, run: RunId, kept: &Kept) {
        let Some(known) = self.runs.get(&run) else { return };
        if kept.entries.get(..known.entries.len()) != Some(&known.entries[..]) {
            self.violations.add(run, None, "entries that were written have changed or are gone");
        }
        if known.row.state.status.is_end() && kept.row.state != known.row.state {
            self.violations.add(run, None, format!("its end has changed: {:?}", kept.row.state));
        }
    }

    /// Every write that reached the CRM is intended in a journal.
    fn intended_first(&mut self, passages: &[Passage]) {
        let mut intended = BTreeSet::new();
        for (run, kept) in &self.runs {
            intended.extend(Facts::of(&kept.entries).intended.iter().map(|call| key_of(*run, call)));
        }
        for passage in passages.iter().filter(|passage| !matches!(passage.kind, Kind::Read | Kind::Verify)) {
            if !passage.key.as_ref().is_some_and(|key| intended.contains(key)) {
                let what = format!("a write reached the CRM that no journal intends: {passage:?}");
                match self.run_of(passage) {
                    Some(run) => self.violations.add(run, None, what),
                    None => self.violations.add_homeless(what),
                }
            }
        }
    }

    /// The run whose model asked for what came to the CRM.
    fn run_of(&self, passage: &Passage) -> Option<RunId> {
        let tag = format!("{}\"", passage.tag.as_ref()?);
        let asks = |kept: &Kept| kept.entries.iter().any(|entry| entry.body.contains(&tag));
        self.runs.iter().find(|(_, kept)| asks(kept)).map(|(run, _)| *run)
    }
}

/// What a journal says.
#[derive(Default)]
pub struct Facts {
    pub replies: u64,
    pub intended: BTreeSet<CallId>,
    /// Intended without an outcome.
    pub open: BTreeSet<CallId>,
    /// Receipts of calls that ended, in the order of the journal.
    pub outcomes: Vec<ToolEnvelope>,
    /// Calls that clients returned a result for, and that people decided on.
    pub returned: Vec<CallId>,
    pub decided: Vec<CallId>,
}

impl Facts {
    pub fn of(entries: &[Entry]) -> Self {
        let mut facts = Self::default();
        for entry in parsed(entries) {
            match entry.what {
                Recorded::Happened(Happened::Intended { call_id }) => {
                    facts.open.insert(call_id.clone());
                    facts.intended.insert(call_id);
                }
                Recorded::Happened(Happened::CallEnded { envelope, .. }) => {
                    facts.outcomes.push(*envelope);
                }
                Recorded::Happened(Happened::ModelReplied { .. }) => facts.replies += 1,
                Recorded::Happened(Happened::ClientReturned { call_id, .. }) => facts.returned.push(call_id),
                Recorded::Happened(Happened::Approval { call_id, .. }) => facts.decided.push(call_id),
                Recorded::Began(_) | Recorded::Happened(_) => {}
            }
        }
        facts.outcomes.extend(told_as_unknown(entries));
        for envelope in &facts.outcomes {
            facts.open.remove(&envelope.call_id);
        }
        facts
    }
}

/// Calls of which nobody knew whether they were made: the machine closes them, so their receipts are in no entry.
fn told_as_unknown(entries: &[Entry]) -> Vec<ToolEnvelope> {
    let Ok((_, run)) = journal::replay(parsed(entries)) else { return Vec::new() };
    let ended = |entry: &journal::Entry| match &entry.what {
        Recorded::Happened(Happened::CallEnded { envelope, .. }) => Some(envelope.call_id.clone()),
        _ => None,
    };
    let ended: BTreeSet<CallId> = parsed(entries).filter_map(|entry| ended(&entry)).collect();
    let unknown = |envelope: &&ToolEnvelope| {
        let details = envelope.error.as_ref().and_then(|error| error.details.as_ref());
        details.is_some_and(|details| details["reason"] == "outcome_unknown") && !ended.contains(&envelope.call_id)
    };
    run.receipts_after(0).filter(unknown).cloned().collect()
}

/// The entries as the machine reads them.
pub fn parsed(entries: &[Entry]) -> impl Iterator<Item = journal::Entry> {
    entries.iter().map(|entry| journal::Entry::read(entry.n, entry.at, &entry.body).unwrap())
}

/// The key that goes out with a call, derived as the documentation says: from the run and the call, and nothing else.
pub fn key_of(run: RunId, call: &CallId) -> String {
    let mut key = toolwright_types::json::hex_digest(&json!([run.to_string(), call.as_str()]));
    key.truncate(32);
    key
}

/// All runs of a data folder, with their journals.
pub async fn read(data: &Path) -> BTreeMap<RunId, Kept> {
    let copy = tempfile::tempdir().unwrap();
    for file in std::fs::read_dir(data).unwrap() {
        let path = file.unwrap().path();
        if path.is_file() {
            std::fs::copy(&path, copy.path().join(path.file_name().unwrap())).unwrap();
        }
    }
    let options = Options {
        url: Location::Sqlite(copy.path().join("toolwright.db")),
        sync: toolwright_store::Promise::Disk,
        clock: Arc::new(SystemClock),
        seal: SealKey::from_file(copy.path().join("seal.key")).unwrap(),
    };
    let store = Store::open(options).await.unwrap();
    let kept = read_store(&store).await;
    store.close().await;
    kept
}

async fn read_store(store: &Store) -> BTreeMap<RunId, Kept> {
    let org = store.tenancy().ensure_org(&"default".parse().unwrap()).await.unwrap();
    let realm = store.tenancy().realm(org, &"default".parse().unwrap()).await.unwrap().unwrap();
    let runs = store.runs(&realm);
    let mut kept = BTreeMap::new();
    let mut query = RunQuery { limit: 1000, ..RunQuery::default() };
    loop {
        let page = runs.list(&query).await.unwrap();
        for row in page.items {
            // No run of the workload has more.
            let mut entries = runs.entries(row.id, 0, 1000).await.unwrap();
            if let Some(first) = entries.first_mut() {
                let named: Vec<String> = parts::named_in(&first.body).unwrap().into_values().collect();
                let found = runs.parts(&named).await.unwrap();
                first.body = parts::put_back(&first.body, |hash| found.get(hash).cloned()).unwrap();
            }
            kept.insert(row.id, Kept { row, entries });
        }
        match page.next {
            Some(next) => query.cursor = Some(next),
            None => return kept,
        }
    }
}
