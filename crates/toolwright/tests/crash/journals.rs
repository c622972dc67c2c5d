//! Reads the journals that a killed server left in its data folder, and checks that recorded entries never change.
//!
//! The journals are read from a copy of the data folder, so that reading does not change the data that the next server
//! recovers.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};
use toolwright_machine::agent::EventKind;
use toolwright_machine::journal::{self, EntryBody, shared_parts};
use toolwright_store::{JournalEntry, Location, Owners, Run, RunQuery, SealKey, Store, StoreOptions};
use toolwright_types::{CallId, ErrorCode, RunId, SystemClock, ToolEnvelope};

use super::proxy::{CrmProxy, ProxiedRequest, RequestKind, find_tag};
use super::report::Violations;
use super::server::ServerConfig;
use super::workload;

/// A run and its journal.
#[derive(Clone)]
pub(crate) struct StoredRun {
    pub row: Run,
    pub entries: Vec<JournalEntry>,
}

/// The state that the killed servers left, merged over all kills of a round.
#[derive(Default)]
pub(crate) struct History {
    /// The state of each run after the last kill.
    pub runs: BTreeMap<RunId, StoredRun>,
    /// Calls whose outcome was in the journal when a server died, by tag. The value is the number of CRM requests
    /// before that kill, the run id and the call id.
    pub completed: HashMap<String, (usize, RunId, CallId)>,
    /// Writes that had an intent but no outcome in the journal when a server died.
    pub open_writes: BTreeSet<(RunId, CallId)>,
    /// Number of CRM requests already checked.
    checked_requests: usize,
    pub violations: Violations,
}

impl History {
    /// Reads and checks the data that a killed server left.
    pub(crate) async fn inspect(&mut self, config: &ServerConfig, proxy: &CrmProxy) {
        let (request_count, requests) = (proxy.request_count(), proxy.requests());
        let left = read_runs(&config.data()).await;
        for run in self.runs.keys().filter(|run| !left.contains_key(run)) {
            self.violations.add(*run, None, "a run disappeared");
        }
        for (run, stored) in left {
            self.compare(run, &stored);
            let summary = JournalSummary::new(&stored.entries);
            // A step with retries repeats a call that the CRM refused.
            for outcome in summary.outcomes.iter().filter(|outcome| !is_refused(outcome)) {
                if let Some(tag) = find_tag(&outcome.input.to_string()) {
                    self.completed.entry(tag).or_insert((request_count, run, outcome.call_id.clone()));
                }
            }
            self.open_writes.extend(summary.open.iter().map(|call| (run, call.clone())));
            self.runs.insert(run, stored);
        }
        self.check_intents(&requests[self.checked_requests..request_count]);
        self.checked_requests = request_count;
    }

    /// Checks that the entries and the final state that a run had at the previous kill have not changed.
    fn compare(&mut self, run: RunId, stored: &StoredRun) {
        let Some(known) = self.runs.get(&run) else { return };
        if stored.entries.get(..known.entries.len()) != Some(&known.entries[..]) {
            self.violations.add(run, None, "recorded entries changed or disappeared");
        }
        if known.row.state.status.is_terminal() && stored.row.state != known.row.state {
            self.violations.add(run, None, format!("its final state changed: {:?}", stored.row.state));
        }
    }

    /// Checks that every write that reached the CRM has an intent in a journal.
    fn check_intents(&mut self, requests: &[ProxiedRequest]) {
        let mut intended = BTreeSet::new();
        for (run, stored) in &self.runs {
            intended
                .extend(JournalSummary::new(&stored.entries).intended.iter().map(|call| idempotency_key(*run, call)));
        }
        for request in
            requests.iter().filter(|request| !matches!(request.kind, RequestKind::Read | RequestKind::Verify))
        {
            if !request.key.as_ref().is_some_and(|key| intended.contains(key)) {
                let description = format!("a write without an intent reached the CRM: {request:?}");
                match self.find_run(request) {
                    Some(run) => self.violations.add(run, None, description),
                    None => self.violations.add_global(description),
                }
            }
        }
    }

    /// Returns the run whose call sent a request, found by the tag of the request.
    fn find_run(&self, request: &ProxiedRequest) -> Option<RunId> {
        let tag = format!("{}\"", request.tag.as_ref()?);
        let contains_tag = |stored: &StoredRun| stored.entries.iter().any(|entry| entry.body.contains(&tag));
        self.runs.iter().find(|(_, stored)| contains_tag(stored)).map(|(run, _)| *run)
    }
}

/// The contents of a journal that the checks use.
#[derive(Default)]
pub(crate) struct JournalSummary {
    pub replies: u64,
    pub intended: BTreeSet<CallId>,
    /// Calls with an intent and without an outcome.
    pub open: BTreeSet<CallId>,
    /// Envelopes of the ended calls in journal order, followed by the envelopes with an unknown outcome.
    pub outcomes: Vec<ToolEnvelope>,
    /// Calls with a result from the client.
    pub returned: Vec<CallId>,
    /// Calls with a decision.
    pub decided: Vec<CallId>,
    /// The data of the received signals.
    pub signals: Vec<Value>,
}

impl JournalSummary {
    pub(crate) fn new(entries: &[JournalEntry]) -> Self {
        let mut summary = Self::default();
        for entry in parse_entries(entries) {
            match entry.body {
                EntryBody::Event(EventKind::Intended { call_id }) => {
                    summary.open.insert(call_id.clone());
                    summary.intended.insert(call_id);
                }
                EntryBody::Event(EventKind::CallEnded { envelope, .. }) => {
                    summary.outcomes.push(*envelope);
                }
                EntryBody::Event(EventKind::ModelReplied { .. }) => summary.replies += 1,
                EntryBody::Event(EventKind::ClientReturned { call_id, .. }) => summary.returned.push(call_id),
                EntryBody::Event(EventKind::ApprovalDecided { call_id, .. }) => summary.decided.push(call_id),
                EntryBody::Event(EventKind::SignalReceived { payload, .. }) => summary.signals.push(payload),
                EntryBody::Started(_) | EntryBody::Event(_) => {}
            }
        }
        summary.outcomes.extend(unknown_outcomes(entries));
        for envelope in &summary.outcomes {
            summary.open.remove(&envelope.call_id);
        }
        summary
    }
}

/// Returns the envelopes of calls with an unknown outcome. The machine creates these envelopes, so no journal entry
/// contains them.
fn unknown_outcomes(entries: &[JournalEntry]) -> Vec<ToolEnvelope> {
    let Ok((_, run)) = journal::replay(parse_entries(entries)) else { return Vec::new() };
    let ended = |entry: &journal::Entry| match &entry.body {
        EntryBody::Event(EventKind::CallEnded { envelope, .. }) => Some(envelope.call_id.clone()),
        _ => None,
    };
    let ended: BTreeSet<CallId> = parse_entries(entries).filter_map(|entry| ended(&entry)).collect();
    let unknown = |envelope: &&ToolEnvelope| {
        let details = envelope.error.as_ref().and_then(|error| error.details.as_ref());
        details.is_some_and(|details| details["reason"] == "outcome_unknown") && !ended.contains(&envelope.call_id)
    };
    run.envelopes_after(0).filter(unknown).cloned().collect()
}

/// Returns whether a call failed because the CRM was unavailable.
pub(crate) fn is_refused(envelope: &ToolEnvelope) -> bool {
    let refusable = find_tag(&envelope.input.to_string()).is_some_and(|tag| workload::is_refused_once(&tag));
    refusable && envelope.error.as_ref().is_some_and(|error| error.code == ErrorCode::ProviderError)
}

/// Parses stored entries into entries of the machine.
pub(crate) fn parse_entries(entries: &[JournalEntry]) -> impl Iterator<Item = journal::Entry> {
    entries.iter().map(|entry| journal::Entry::parse(entry.n, entry.at, &entry.body).unwrap())
}

/// Computes the idempotency key of a call from the run id and the call id, as the documentation specifies.
pub(crate) fn idempotency_key(run: RunId, call: &CallId) -> String {
    let mut key = toolwright_types::json::hex_digest(&json!([run.to_string(), call.as_str()]));
    key.truncate(32);
    key
}

/// Reads all runs of a data folder with their journals.
pub(crate) async fn read_runs(data: &Path) -> BTreeMap<RunId, StoredRun> {
    let copy = tempfile::tempdir().unwrap();
    for file in std::fs::read_dir(data).unwrap() {
        let path = file.unwrap().path();
        if path.is_file() {
            std::fs::copy(&path, copy.path().join(path.file_name().unwrap())).unwrap();
        }
    }
    let options = StoreOptions {
        url: Location::Sqlite(copy.path().join("toolwright.db")),
        sync: toolwright_store::SyncMode::Disk,
        clock: Arc::new(SystemClock),
        seal: SealKey::from_file(copy.path().join("seal.key")).unwrap(),
    };
    let store = Store::open(options).await.unwrap();
    let stored = read_store(&store).await;
    store.close().await;
    stored
}

async fn read_store(store: &Store) -> BTreeMap<RunId, StoredRun> {
    let org = store.tenancy().ensure_org(&"default".parse().unwrap()).await.unwrap();
    let realm = store.tenancy().realm(org, &"default".parse().unwrap()).await.unwrap().unwrap();
    let runs = store.runs(&realm);
    let mut stored = BTreeMap::new();
    let mut query = RunQuery { limit: 1000, ..RunQuery::default() };
    loop {
        let page = runs.list(Owners::All, &query).await.unwrap();
        for row in page.items {
            // One page is enough, because no run of the workload has more than 1,000 entries.
            let mut entries = runs.entries(row.id, 0, 1000).await.unwrap();
            if let Some(first) = entries.first_mut() {
                let hashes: Vec<String> = shared_parts::referenced_parts(&first.body).unwrap().into_values().collect();
                let parts = runs.shared_parts(&hashes).await.unwrap();
                first.body = shared_parts::restore(&first.body, |hash| parts.get(hash).cloned()).unwrap();
            }
            stored.insert(row.id, StoredRun { row, entries });
        }
        match page.next {
            Some(next) => query.cursor = Some(next),
            None => return stored,
        }
    }
}
