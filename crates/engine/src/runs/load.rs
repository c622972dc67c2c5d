//! Runs read back from their journals.

use std::sync::Arc;

use toolwright_machine::AgentRun;
use toolwright_machine::journal::{self, Began, Checkpoint, parts};
use toolwright_store::{Entry, Mark};
use toolwright_tools::Schema;
use toolwright_types::{Principal, PrincipalId, RealmScope, ResponseFormat, RunId};

use super::effects::Crew;
use super::journal::{Pace, RunJournal, with_body};
use super::live::{Birth, LiveRun, Snapshot};
use super::ports::Performer;
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
    pub crew: Arc<dyn Performer>,
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
        let (began, machine) = self.rebuild(home, run, &entries).await?;
        Ok(Loaded { snapshot: Arc::new(Snapshot { began: Arc::new(began), run: machine }), entries })
    }

    /// Everything it takes to drive a run on; none if there is no such run.
    pub(super) async fn revive(
        &self,
        live: &Arc<LiveRun>,
        home: &Arc<RealmScope>,
    ) -> Result<Option<Revived>, Unavailable> {
        let entries = self.stored(home, live.id).await?;
        if entries.is_empty() {
            return Ok(None);
        }
        let (began, run) = self.rebuild(home, live.id, &entries).await?;
        let began = Arc::new(began);
        let last = entries.last().map(|last| Mark { n: last.n, hash: last.hash });
        let Place { realm, principal, owner, parted } = self.place(&began, home, live.id).await?;
        live.recall(Birth { began: Arc::clone(&began), home: Arc::clone(home), owner }, entries);
        let crew = Arc::new(self.recruit(&began, realm, principal).await?);
        let journal = RunJournal::new(self.writer.clone(), Arc::clone(live), home.realm, last, Pace::of(began.durable));
        Ok(Some(Revived { began, run, journal, crew, parted }))
    }

    /// The run that these entries made. One that goes on is taken from its checkpoint: a release that would decide
    /// otherwise today need not understand what an earlier one did before.
    async fn rebuild(
        &self,
        home: &RealmScope,
        run: RunId,
        entries: &[Arc<Entry>],
    ) -> Result<(Began, AgentRun), Unavailable> {
        let last = entries.last().map_or(0, |last| last.n);
        let stored = self.store.runs(home).checkpoint(run).await?.filter(|stored| stored.n <= last);
        let checkpoint = stored.and_then(|stored| match AgentRun::restore(&stored.body) {
            Ok(run) => Some(Checkpoint { n: stored.n, run }),
            Err(error) => {
                tracing::warn!(%run, error = &error as &dyn std::error::Error, "a checkpoint cannot be read; the run is told everything again");
                None
            }
        });
        journal::replay_from(checkpoint, parsed(entries)?)
            .map_err(|error| Unavailable::new("the journal does not make a run")(Box::new(error)))
    }

    /// What performs the effects of a run that was begun before.
    pub(super) async fn recruit(
        &self,
        began: &Began,
        realm: Arc<RealmScope>,
        principal: Arc<Principal>,
    ) -> Result<Crew, Unavailable> {
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
        Ok(self.crew(began, realm, principal, tools, answer).await)
    }

    /// Where a run acts, as whom, and for whom.
    async fn place(&self, began: &Began, home: &Arc<RealmScope>, run: RunId) -> Result<Place, Unavailable> {
        let gone = |what: &'static str| Unavailable::new(what)("no row".into());
        let row = self.store.runs(home).get(run).await?.ok_or_else(|| gone("the run is gone"))?;
        let tenancy = self.store.tenancy();
        let principal = tenancy.principal_by_id(row.principal).await?;
        let principal = principal.ok_or_else(|| gone("the run's principal is gone"))?;
        Ok(Place {
            realm: self.acting_realm(began, home).await?,
            principal: Arc::new(principal),
            owner: row.owner,
            parted: row.state.status.is_end(),
        })
    }

    /// The realm that a run acts in.
    pub(super) async fn acting_realm(
        &self,
        began: &Began,
        home: &Arc<RealmScope>,
    ) -> Result<Arc<RealmScope>, Unavailable> {
        let name = &began.spec.policy.realm;
        if *name == home.name.as_str() {
            return Ok(Arc::clone(home));
        }
        let named = name.parse().map_err(|error| Unavailable::new("the run's realm has no name")(Box::new(error)))?;
        let found = self.store.tenancy().realm(home.org, &named).await?;
        Ok(Arc::new(found.ok_or_else(|| Unavailable::new("the run's realm is gone")("no row".into()))?))
    }

    /// Entries that were written after `known`.
    pub(super) async fn news(&self, home: &RealmScope, run: RunId, known: u64) -> Result<Vec<Arc<Entry>>, Unavailable> {
        let page = self.store.runs(home).entries(run, known, PAGE).await?;
        self.whole(home, page.into_iter().map(Arc::new).collect()).await
    }

    /// The entries with their parts in them.
    async fn whole(&self, home: &RealmScope, mut entries: Vec<Arc<Entry>>) -> Result<Vec<Arc<Entry>>, Unavailable> {
        // Only a beginning has any.
        let Some(first) = entries.first_mut().filter(|first| first.n == 1) else { return Ok(entries) };
        let broken = |error| Unavailable::new("a journal cannot be put together")(Box::new(error));
        let named: Vec<String> = parts::named_in(&first.body).map_err(broken)?.into_values().collect();
        if !named.is_empty() {
            let found = self.store.runs(home).parts(&named).await?;
            let body = parts::put_back(&first.body, |hash| found.get(hash).cloned()).map_err(broken)?;
            *first = Arc::new(with_body(first, body));
        }
        Ok(entries)
    }

    async fn stored(&self, home: &RealmScope, run: RunId) -> Result<Vec<Arc<Entry>>, Unavailable> {
        let entries = self.raw(home, run).await?;
        self.whole(home, entries.into_iter().map(Arc::new).collect()).await
    }

    /// All entries as they are written, their parts not in them.
    pub(super) async fn raw(&self, home: &RealmScope, run: RunId) -> Result<Vec<Entry>, Unavailable> {
        let mut entries: Vec<Entry> = Vec::new();
        loop {
            let after = entries.last().map_or(0, |last| last.n);
            let page = self.store.runs(home).entries(run, after, PAGE).await?;
            let read = page.len();
            entries.extend(page);
            if read < usize::try_from(PAGE).unwrap_or(usize::MAX) {
                return Ok(entries);
            }
        }
    }
}

pub(super) fn parsed(entries: &[Arc<Entry>]) -> Result<Vec<journal::Entry>, Unavailable> {
    let parsed = entries.iter().map(|entry| journal::Entry::read(entry.n, entry.at, &entry.body)).collect();
    let unreadable = |error| Unavailable::new("the journal cannot be read by this release")(Box::new(error));
    Result::<_, journal::UnreadableEntry>::map_err(parsed, unreadable)
}
