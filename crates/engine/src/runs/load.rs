//! Runs read back from their journals.

use std::collections::HashMap;
use std::sync::Arc;

use toolwright_machine::AgentRun;
use toolwright_machine::agent::Happened;
use toolwright_machine::journal::{self, Began, Recorded};
use toolwright_store::Entry;
use toolwright_tools::Schema;
use toolwright_types::{CallId, Principal, PrincipalId, RealmScope, ResponseFormat, RunId, Timestamp};

use super::effects::Crew;
use super::journal::RunJournal;
use super::live::{Birth, LiveRun, Snapshot};
use super::{Inner, signal::SignalError};
use crate::Unavailable;
use crate::agents::Known;

/// How many entries are read at once.
const PAGE: u32 = 1000;

/// Everything it takes to drive a run on.
pub(super) struct Revived {
    pub began: Arc<Began>,
    pub run: AgentRun,
    pub journal: RunJournal,
    pub crew: Crew,
    /// Writes that may or may not have been made.
    pub open_intents: HashMap<CallId, Timestamp>,
    /// Whether its end is written with all that belongs to it. A server may have died between the last entry and that.
    pub parted: bool,
}

/// What the row of a run adds to its journal.
struct Place {
    realm: Arc<RealmScope>,
    principal: Arc<Principal>,
    owner: PrincipalId,
    parted: bool,
}

/// A run as its journal tells it.
pub(super) struct Loaded {
    pub snapshot: Arc<Snapshot>,
    pub entries: Vec<Arc<Entry>>,
}

impl Loaded {
    pub fn birth(&self, home: &Arc<RealmScope>, owner: PrincipalId) -> Birth {
        Birth { began: Arc::clone(&self.snapshot.began), home: Arc::clone(home), owner }
    }
}

impl Inner {
    /// The run, from memory if it is driven here, else from the store: another server may have gone on with it.
    pub(super) async fn load(&self, home: &RealmScope, run: RunId) -> Result<Loaded, SignalError> {
        let live = self.hub.get(run).filter(|live| live.is_driven() && live.birth().is_some());
        let entries = match live {
            Some(live) => live.entries(),
            None => self.stored(home, run).await?,
        };
        if entries.is_empty() {
            return Err(SignalError::UnknownRun(run.to_string()));
        }
        let (began, machine) = replay(&entries)?;
        Ok(Loaded { snapshot: Arc::new(Snapshot { began: Arc::new(began), run: machine }), entries })
    }

    /// Everything it takes to drive a run on.
    pub(super) async fn revive(&self, live: &Arc<LiveRun>, home: &Arc<RealmScope>) -> Result<Revived, Unavailable> {
        let entries = self.stored(home, live.id).await?;
        let entries_of_journal = parsed(&entries)?;
        let open_intents = open_intents(&entries_of_journal);
        let (began, run) = journal::replay(entries_of_journal)
            .map_err(|error| Unavailable::new("the journal does not make a run")(Box::new(error)))?;
        let began = Arc::new(began);
        let next = entries.last().map_or(1, |last| last.n + 1);
        let Place { realm, principal, owner, parted } = self.place(&began, home, live.id).await?;
        live.recall(Birth { began: Arc::clone(&began), home: Arc::clone(home), owner }, entries);
        let policy = &began.spec.policy;
        let known = policy.enabled_tools.iter().map(|name| Known {
            name,
            wanted: began.wanted.get(name).map(String::as_str),
            delegate: began.delegates.contains(name),
            carried: began.carried.iter().find(|tool| tool.ref_name.as_str() == name.as_str()),
        });
        let tools = Arc::new(self.resolver.again(&realm, known.collect()).await?);
        let answer = match &began.spec.request.response_format {
            ResponseFormat::Structured(schema) => Schema::compile(schema.clone()).ok().map(Arc::new),
            ResponseFormat::Text | ResponseFormat::Json => None,
        };
        let crew = self.crew(&began, realm, principal, tools, answer).await;
        let journal = RunJournal::new(self.writer.clone(), Arc::clone(live), next, began.durable);
        Ok(Revived { began, run, journal, crew, open_intents, parted })
    }

    /// Where a run acts, as whom, and for whom.
    async fn place(&self, began: &Began, home: &Arc<RealmScope>, run: RunId) -> Result<Place, Unavailable> {
        let gone = |what: &'static str| Unavailable::new(what)("no row".into());
        let row = self.store.runs(home).get(run).await?.ok_or_else(|| gone("the run is gone"))?;
        let tenancy = self.store.tenancy();
        let principal = tenancy.principal_by_id(row.principal).await?;
        let principal = principal.ok_or_else(|| gone("the run's principal is gone"))?;
        let (principal, owner, parted) = (Arc::new(principal), row.owner, row.state.status.is_end());
        let name = &began.spec.policy.realm;
        if *name == home.name.as_str() {
            return Ok(Place { realm: Arc::clone(home), principal, owner, parted });
        }
        let named = name.parse().map_err(|error| Unavailable::new("the run's realm has no name")(Box::new(error)))?;
        let realm = tenancy.realm(home.org, &named).await?.ok_or_else(|| gone("the run's realm is gone"))?;
        Ok(Place { realm: Arc::new(realm), principal, owner, parted })
    }

    /// Entries that were written after `known`.
    pub(super) async fn news(&self, home: &RealmScope, run: RunId, known: u64) -> Result<Vec<Arc<Entry>>, Unavailable> {
        let page = self.store.runs(home).entries(run, known, PAGE).await?;
        Ok(page.into_iter().map(Arc::new).collect())
    }

    async fn stored(&self, home: &RealmScope, run: RunId) -> Result<Vec<Arc<Entry>>, Unavailable> {
        let mut entries: Vec<Arc<Entry>> = Vec::new();
        loop {
            let after = entries.last().map_or(0, |last| last.n);
            let page = self.store.runs(home).entries(run, after, PAGE).await?;
            let read = page.len();
            entries.extend(page.into_iter().map(Arc::new));
            if read < usize::try_from(PAGE).unwrap_or(usize::MAX) {
                return Ok(entries);
            }
        }
    }
}

/// Writes that were intended and of which no outcome is written, and when they were intended.
fn open_intents(entries: &[journal::Entry]) -> HashMap<CallId, Timestamp> {
    let mut open = HashMap::new();
    for entry in entries {
        match &entry.what {
            Recorded::Intended { call_id } => drop(open.insert(call_id.clone(), entry.at)),
            Recorded::Happened(Happened::CallEnded { envelope, .. }) => drop(open.remove(&envelope.call_id)),
            Recorded::Happened(Happened::CallHandedOver { pending, .. }) => drop(open.remove(&pending.call_id)),
            Recorded::Began(_) | Recorded::Happened(_) => {}
        }
    }
    open
}

fn parsed(entries: &[Arc<Entry>]) -> Result<Vec<journal::Entry>, Unavailable> {
    let parsed = entries.iter().map(|entry| journal::Entry::read(entry.n, entry.at, &entry.body)).collect();
    let unreadable = |error| Unavailable::new("the journal cannot be read by this release")(Box::new(error));
    Result::<_, journal::UnreadableEntry>::map_err(parsed, unreadable)
}

fn replay(entries: &[Arc<Entry>]) -> Result<(Began, AgentRun), Unavailable> {
    journal::replay(parsed(entries)?)
        .map_err(|error| Unavailable::new("the journal does not make a run")(Box::new(error)))
}
