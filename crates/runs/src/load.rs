//! Loads runs from their journals.

use std::sync::Arc;

use toolwright_machine::AgentRun;
use toolwright_machine::journal::{self, Checkpoint, RunStart, shared_parts};
use toolwright_store::{JournalEntry, JournalPosition};
use toolwright_tools::Schema;
use toolwright_types::{Owner, RealmScope, ResponseFormat, RunId};

use super::executor::{AnswerSchemas, RunExecutor, RunScope};
use super::journal::{FlushPolicy, RunJournal, with_body};
use super::plan_schema::PlanSchema;
use super::ports::LoadedRun;
use super::registry::{RunHandle, RunMeta, RunSnapshot};
use super::{Inner, command::CommandError};
use toolwright_catalog::RecordedTool;
use toolwright_catalog::Unavailable;

/// The number of entries that one query reads.
const PAGE: u32 = 1000;

/// The data that is needed to drive a run and that its journal does not contain.
struct RunLocation {
    scope: RunScope,
    end_persisted: bool,
}

/// A run and its entries.
pub(super) struct RunHistory {
    pub snapshot: Arc<RunSnapshot>,
    pub entries: Vec<Arc<JournalEntry>>,
}

impl RunHistory {
    pub(crate) fn meta(&self, home: &Arc<RealmScope>, owner: Owner) -> RunMeta {
        RunMeta { start: Arc::clone(&self.snapshot.start), home: Arc::clone(home), owner }
    }
}

impl Inner {
    /// Loads a run from memory if this server drives it, otherwise from the store.
    pub(super) async fn load(&self, home: &RealmScope, run: RunId) -> Result<RunHistory, CommandError> {
        let handle = self.registry.get(run).filter(|handle| handle.is_driven() && handle.meta().is_some());
        let entries = match handle {
            Some(handle) => handle.entries(),
            None => self.stored(home, run).await?,
        };
        if entries.is_empty() {
            return Err(CommandError::UnknownRun(run.to_string()));
        }
        let (start, machine) = self.restore_machine(home, run, &entries).await?;
        Ok(RunHistory { snapshot: Arc::new(RunSnapshot { start: Arc::new(start), run: machine }), entries })
    }

    /// Loads a run to drive it; `None` if it does not exist.
    pub(super) async fn load_run(
        &self,
        handle: &Arc<RunHandle>,
        home: &Arc<RealmScope>,
    ) -> Result<Option<LoadedRun>, Unavailable> {
        let entries = self.stored(home, handle.id).await?;
        if entries.is_empty() {
            return Ok(None);
        }
        let (start, run) = self.restore_machine(home, handle.id, &entries).await?;
        let start = Arc::new(start);
        let last = entries.last().map(|last| JournalPosition { n: last.n, hash: last.hash });
        let RunLocation { scope, end_persisted } = self.locate(&start, home, handle.id).await?;
        let meta = RunMeta { start: Arc::clone(&start), home: Arc::clone(home), owner: scope.owner };
        handle.set_history(meta, entries);
        let executor = Arc::new(self.build_executor(&start, scope).await?);
        let journal =
            RunJournal::new(self.writer.clone(), Arc::clone(handle), home.realm, last, FlushPolicy::of(start.durable));
        Ok(Some(LoadedRun { start, run, journal, executor, end_persisted }))
    }

    /// Restores the machine from its checkpoint and replays the entries after the checkpoint. Earlier entries are not
    /// replayed, so a new release can continue the run even if its machine would decide differently on these entries.
    async fn restore_machine(
        &self,
        home: &RealmScope,
        run: RunId,
        entries: &[Arc<JournalEntry>],
    ) -> Result<(RunStart, AgentRun), Unavailable> {
        let last = entries.last().map_or(0, |last| last.n);
        let stored = self.store.runs(home).checkpoint(run).await?.filter(|stored| stored.n <= last);
        let checkpoint = stored.and_then(|stored| match AgentRun::restore(&stored.body) {
            Ok(run) => Some(Checkpoint { n: stored.n, run }),
            Err(error) => {
                tracing::warn!(%run, error = &error as &dyn std::error::Error, "a checkpoint cannot be read; the whole journal is replayed");
                None
            }
        });
        journal::replay_from(checkpoint, parse_entries(entries)?)
            .map_err(|error| Unavailable::new("the journal cannot be replayed", error))
    }

    /// Builds the executor of a run that is already stored.
    pub(super) async fn build_executor(&self, start: &RunStart, scope: RunScope) -> Result<RunExecutor, Unavailable> {
        let policy = &start.spec.policy;
        let known = policy.enabled_tools.iter().map(|name| RecordedTool {
            name,
            version_req: start.version_requirements.get(name).map(String::as_str),
            delegate: start.delegates.contains(name),
            definition: start.tool_definitions.iter().find(|tool| tool.ref_name.as_str() == name.as_str()),
        });
        let tools = Arc::new(self.resolver.restore_toolset(&scope.realm, known.collect()).await?);
        let answer = match &start.spec.request.response_format {
            ResponseFormat::Structured(schema) => Schema::compile_large(schema.clone()).await.ok().map(Arc::new),
            ResponseFormat::Text | ResponseFormat::Json => None,
        };
        let plan = match &start.spec.plan {
            Some(plan) => {
                let schema = Schema::compile_large(plan.schema.clone()).await.ok();
                schema.map(|schema| Arc::new(PlanSchema::new(Arc::new(schema))))
            }
            None => None,
        };
        Ok(self.new_executor(start, scope, tools, AnswerSchemas { answer, plan }).await)
    }

    /// Returns the realm, the principal and the owner of a run, and whether its end is stored. The first entry names
    /// the realm. The row of the run has the rest.
    async fn locate(&self, start: &RunStart, home: &Arc<RealmScope>, run: RunId) -> Result<RunLocation, Unavailable> {
        let gone = |what: &'static str| Unavailable::new(what, "no row");
        let row = self.store.runs(home).get(run).await?.ok_or_else(|| gone("the run does not exist"))?;
        let tenancy = self.store.tenancy();
        let principal = tenancy.principal_by_id(row.principal).await?;
        let principal = principal.ok_or_else(|| gone("the principal of the run does not exist"))?;
        Ok(RunLocation {
            scope: RunScope {
                realm: self.acting_realm(start, home).await?,
                principal: Arc::new(principal),
                owner: row.owner,
            },
            end_persisted: row.state.status.is_terminal(),
        })
    }

    /// The realm that a run acts in.
    pub(super) async fn acting_realm(
        &self,
        start: &RunStart,
        home: &Arc<RealmScope>,
    ) -> Result<Arc<RealmScope>, Unavailable> {
        let name = &start.spec.policy.realm;
        if *name == home.name.as_str() {
            return Ok(Arc::clone(home));
        }
        let named =
            name.parse().map_err(|error| Unavailable::new("the realm of the run has an invalid name", error))?;
        let found = self.store.tenancy().realm(home.org, &named).await?;
        Ok(Arc::new(found.ok_or_else(|| Unavailable::new("the realm of the run does not exist", "no row"))?))
    }

    /// Reads one page of the entries after entry `known`.
    pub(super) async fn entries_after(
        &self,
        home: &RealmScope,
        run: RunId,
        known: u64,
    ) -> Result<Vec<Arc<JournalEntry>>, Unavailable> {
        let page = self.store.runs(home).entries(run, known, PAGE).await?;
        self.with_shared_parts(home, page.into_iter().map(Arc::new).collect()).await
    }

    /// Restores the shared parts of the entries.
    pub(super) async fn with_shared_parts(
        &self,
        home: &RealmScope,
        mut entries: Vec<Arc<JournalEntry>>,
    ) -> Result<Vec<Arc<JournalEntry>>, Unavailable> {
        // Only the first entry has shared parts.
        let Some(first) = entries.first_mut().filter(|first| first.n == 1) else { return Ok(entries) };
        let broken = |error| Unavailable::new("the shared parts of a journal cannot be restored", error);
        let named: Vec<String> = shared_parts::referenced_parts(&first.body).map_err(broken)?.into_values().collect();
        if !named.is_empty() {
            let found = self.store.runs(home).shared_parts(&named).await?;
            let body = shared_parts::restore(&first.body, |hash| found.get(hash).cloned()).map_err(broken)?;
            *first = Arc::new(with_body(first, body));
        }
        Ok(entries)
    }

    async fn stored(&self, home: &RealmScope, run: RunId) -> Result<Vec<Arc<JournalEntry>>, Unavailable> {
        let entries = self.raw_entries(home, run).await?;
        self.with_shared_parts(home, entries.into_iter().map(Arc::new).collect()).await
    }

    /// All entries as they are stored, without their shared parts.
    pub(super) async fn raw_entries(&self, home: &RealmScope, run: RunId) -> Result<Vec<JournalEntry>, Unavailable> {
        let mut entries: Vec<JournalEntry> = Vec::new();
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

pub(super) fn parse_entries(entries: &[Arc<JournalEntry>]) -> Result<Vec<journal::Entry>, Unavailable> {
    let parsed = entries.iter().map(|entry| journal::Entry::parse(entry.n, entry.at, &entry.body)).collect();
    let unreadable = |error| Unavailable::new("the journal cannot be read by this release", error);
    Result::<_, journal::UnreadableEntry>::map_err(parsed, unreadable)
}
