//! Runs: driven, watched, steered, and found again after a restart.
//!
//! A run is a machine and a journal. Whoever drives it performs the machine's effects; everything anyone wants to know
//! about it is read from the journal.

mod bundles;
mod conduct;
mod custody;
mod direct;
mod driver;
mod effects;
mod form;
mod journal;
pub(crate) mod lease;
mod live;
mod load;
mod planned;
mod ports;
mod retention;
mod signal;
#[cfg(test)]
mod simulation;
mod steps;
pub(crate) mod turns;
mod upkeep;
mod verify;
mod watch;

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use toolwright_authz::{Action, Resource};
use toolwright_machine::AgentOutputs;
use toolwright_machine::agent::{ClientResult, Decision};
use toolwright_machine::journal::{Began, Entry};
pub use toolwright_store::{PendingWait, Run, RunCursor, RunKind, RunQuery, WaitCursor, WaitKind, WaitQuery};
use toolwright_store::{Store, WriteError, Writer};
use toolwright_tools::Executor;
use toolwright_types::{
    CallId, Clock, ConversationId, Principal, PrincipalId, RealmScope, RunId, RunStatus, Timestamp,
};

pub use bundles::{ExportError, Verification};
pub(crate) use conduct::Conduct;
pub use conduct::{ConductError, Conductor};
pub(crate) use custody::NewRunPlan;
pub use direct::Called;
pub(crate) use direct::DirectCall;
use effects::Bound;
pub(crate) use effects::Crew;
use form::Forms;
use journal::state_of;
use lease::Lease;
use live::Hub;
pub use live::Snapshot;
pub(crate) use live::{Birth, LiveRun};
pub(crate) use planned::Planned;
use ports::Host;
pub use retention::Retention;
pub use signal::SignalError;
use signal::Wish;
pub use steps::{Alarm, News, Orders, Step};
pub use watch::{Seen, Watch};

use crate::Unavailable;
use crate::access::{Access, Session};
use crate::agents::{Resolver, ToolRef, Toolset, call_context};
use crate::blobs::BlobStore;
use crate::catalog::choose;
use crate::llm::ModelShop;

/// Runs of every kind. Cheap to clone.
#[derive(Clone)]
pub struct Runs(Arc<Inner>);

pub(crate) struct Inner {
    pub store: Store,
    pub lease: Arc<Lease>,
    pub writer: Writer,
    pub executor: Executor,
    pub blobs: BlobStore,
    pub models: ModelShop,
    pub resolver: Resolver,
    pub access: Access,
    pub clock: Arc<dyn Clock>,
    pub hub: Hub,
    pub drivers: TaskTracker,
    pub stop: CancellationToken,
    /// What is to be said to runs that could not be driven on, because their journals could not be written.
    pub lost: Mutex<HashMap<RunId, (Arc<RealmScope>, Wish)>>,
    /// Told when a run begins to wait, because its time may come before that of any other.
    pub put_down: Arc<Notify>,
    /// How journals of direct calls begin.
    pub forms: Forms,
    /// Whoever drives durable runs, if this server does not.
    pub conduct: Option<Conduct>,
}

/// A run, and all there is to know about it.
pub struct RunRecord {
    /// The row of the list.
    pub row: Run,
    /// What it began with, and where its machine stands.
    pub snapshot: Arc<Snapshot>,
}

impl Runs {
    pub(crate) fn new(inner: Inner) -> Self {
        Self(Arc::new(inner))
    }

    /// How many runs are under way.
    pub fn running(&self) -> usize {
        self.0.drivers.len()
    }

    /// One of the session's runs.
    pub async fn get(&self, session: &Session, run: RunId) -> Result<RunRecord, SignalError> {
        let row = self.permitted(session, run, Action::Read).await?;
        let loaded = self.0.load(&session.realm, run).await?;
        let last = loaded.entries.last().map_or(row.state.updated_at, |entry| entry.at);
        // The row of a run that is driven is as old as its last rest.
        let state = state_of(&loaded.snapshot.run, last.max(row.state.updated_at), row.state.mark, row.state.driven);
        Ok(RunRecord { row: Run { state, ..row }, snapshot: loaded.snapshot })
    }

    /// A page of runs: the session's own, or everyone's if it may see them.
    pub async fn list(
        &self,
        session: &Session,
        mut query: RunQuery,
    ) -> Result<toolwright_store::Page<Run, RunCursor>, Unavailable> {
        if !self.sees_all(session) {
            query.owner = Some(session.principal.id);
        }
        Ok(self.0.store.runs(&session.realm).list(&query).await?)
    }

    /// How many runs there are: the session's own, or everyone's if it may see them.
    pub async fn count(&self, session: &Session, mut query: RunQuery) -> Result<u64, Unavailable> {
        if !self.sees_all(session) {
            query.owner = Some(session.principal.id);
        }
        Ok(self.0.store.runs(&session.realm).count(&query).await?)
    }

    /// A page of what runs wait for: the session's own, or everyone's if it may see them.
    pub async fn waits(
        &self,
        session: &Session,
        mut query: WaitQuery,
    ) -> Result<toolwright_store::Page<PendingWait, WaitCursor>, Unavailable> {
        if !self.sees_all(session) {
            query.owner = Some(session.principal.id);
        }
        Ok(self.0.store.runs(&session.realm).waits(&query).await?)
    }

    /// Watches a run from after entry `after` on.
    pub async fn watch(&self, session: &Session, run: RunId, after: u64) -> Result<Watch, SignalError> {
        let row = self.permitted(session, run, Action::Read).await?;
        let live = self.0.hub.get_or_insert(run);
        // Also while it is being taken up: then nobody here knows yet how it began.
        if !live.is_driven() || live.birth().is_none() {
            let loaded = self.0.load(&session.realm, run).await?;
            live.recall(loaded.birth(&session.realm, row.owner), loaded.entries);
        }
        Ok(Watch::new(Arc::clone(&self.0), live, after))
    }

    /// Watches a run that has just been started.
    pub fn watch_started(&self, started: &crate::agents::Started) -> Watch {
        Watch::new(Arc::clone(&self.0), Arc::clone(&started.live), 0)
    }

    /// Where a run that has just been started stands when it first ends or waits.
    pub async fn outcome(&self, started: &crate::agents::Started) -> Option<Arc<Snapshot>> {
        self.settled(&started.live).await
    }

    /// Decides on a call that waits for an approval.
    pub async fn decide(
        &self,
        session: &Session,
        run: RunId,
        call_id: CallId,
        decision: Decision,
    ) -> Result<Steered, SignalError> {
        if !matches!(decision, Decision::Deny { .. }) {
            self.still_enabled(session, run).await?;
        }
        let by = session.principal.name.to_string();
        self.signal(session, run, Wish::Decide { call_id, decision, by }).await
    }

    /// Returns what a client made of its calls.
    pub async fn return_results(
        &self,
        session: &Session,
        run: RunId,
        results: Vec<(CallId, ClientResult)>,
    ) -> Result<Steered, SignalError> {
        self.signal(session, run, Wish::Return(results)).await
    }

    /// Stops a run, and every run that it started.
    pub async fn cancel(&self, session: &Session, run: RunId) -> Result<Steered, SignalError> {
        let message = Some(format!("cancelled by `{}`", session.principal.name));
        self.signal(session, run, Wish::Cancel { message }).await
    }

    /// An agent that was switched off does nothing more, whoever agrees to it.
    async fn still_enabled(&self, session: &Session, run: RunId) -> Result<(), SignalError> {
        let row = self.permitted(session, run, Action::Execute).await?;
        if row.kind != RunKind::Agent {
            return Ok(());
        }
        match self.0.resolver.catalog.agent(&session.realm, &row.subject).await? {
            Some(agent) if !agent.document.body.enabled => Err(SignalError::Disabled(row.subject)),
            _ => Ok(()),
        }
    }

    /// What was run, and the whole journal of it.
    pub(crate) async fn journal_of(&self, session: &Session, run: RunId) -> Result<(String, Vec<Entry>), SignalError> {
        let row = self.permitted(session, run, Action::Execute).await?;
        if let Some((n, why)) = self.verify(session, run).await?.broken {
            return Err(SignalError::Broken { n, why });
        }
        let loaded = self.0.load(&session.realm, run).await?;
        Ok((row.subject, load::parsed(&loaded.entries)?))
    }

    /// What performs the effects of a run that was begun before.
    pub(crate) async fn recruit(
        &self,
        began: &Began,
        realm: Arc<RealmScope>,
        principal: Arc<Principal>,
    ) -> Result<Crew, Unavailable> {
        self.0.recruit(began, realm, principal).await
    }

    /// The run of a conversation that has not ended.
    pub(crate) async fn unfinished_of(
        &self,
        realm: &RealmScope,
        conversation: ConversationId,
    ) -> Result<Option<(RunId, RunStatus)>, Unavailable> {
        let status = RunStatus::ALL.into_iter().filter(|status| !status.is_end()).collect();
        let query = RunQuery { conversation: Some(conversation), status, limit: 1, ..RunQuery::default() };
        let page = self.0.store.runs(realm).list(&query).await?;
        Ok(page.items.first().map(|run| (run.id, run.state.status)))
    }

    /// What a run left behind.
    pub(crate) async fn outputs(&self, home: &RealmScope, run: RunId) -> Result<AgentOutputs, Unavailable> {
        match self.0.load(home, run).await {
            Ok(loaded) => Ok(loaded.snapshot.run.outputs()),
            Err(SignalError::Unavailable(error)) => Err(error),
            Err(_) => Ok(AgentOutputs::default()),
        }
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.0.clock.now()
    }

    /// What never changes about a run that is in memory.
    pub(crate) fn birth(&self, run: RunId) -> Option<Birth> {
        self.0.hub.get(run)?.birth().cloned()
    }

    /// Where a run stands when it is next at rest; none if there is no such run.
    pub(crate) async fn rest_of(&self, home: &RealmScope, run: RunId) -> Result<Option<Arc<Snapshot>>, Unavailable> {
        if let Some(live) = self.0.hub.get(run).filter(|live| live.is_driven())
            && let Some(snapshot) = live.settled().await
        {
            return Ok(Some(snapshot));
        }
        if let Some(snapshot) = self.0.rest_of_conducted(home, &self.0.hub.get_or_insert(run)).await? {
            return Ok(Some(snapshot));
        }
        match self.0.load(home, run).await {
            Ok(loaded) => Ok(Some(loaded.snapshot)),
            Err(SignalError::Unavailable(error)) => Err(error),
            Err(_) => Ok(None),
        }
    }

    /// Where a run that was begun here stands when it next ends or waits; none when it was lost.
    pub(crate) async fn settled(&self, live: &Arc<LiveRun>) -> Option<Arc<Snapshot>> {
        let home = Arc::clone(&live.birth()?.home);
        self.0.settled(live, &home).await
    }

    /// What performs the effects of a run.
    pub(crate) async fn crew(
        &self,
        began: &Began,
        realm: Arc<RealmScope>,
        principal: Arc<Principal>,
        tools: Arc<Toolset>,
        answer: Option<Arc<toolwright_tools::Schema>>,
    ) -> Crew {
        self.0.crew(began, realm, principal, tools, answer).await
    }

    /// Writes the beginning of a run, and drives it from then on.
    pub(crate) async fn begin(&self, plan: NewRunPlan) -> Result<Arc<LiveRun>, WriteError> {
        match &self.0.conduct {
            Some(conduct) if plan.began.durable => Box::pin(conduct.begin(&self.0.host(), plan)).await,
            _ => Box::pin(custody::begin(&self.0.host(), plan)).await,
        }
    }

    /// Goes on beside the runs until it ends, or runs are ended because the server stops.
    pub(crate) fn accompany(&self, task: impl Future<Output = ()> + Send + 'static) {
        let stop = self.0.stop.clone();
        self.0.drivers.spawn(async move {
            let _ = stop.run_until_cancelled(task).await;
        });
    }

    /// Whether the server lets the runs under way finish and begins no others.
    pub(crate) fn stopping(&self) -> bool {
        self.0.drivers.is_closed()
    }

    /// Lets the runs under way finish for as long as `grace`, then ends them.
    pub(crate) async fn finish(&self, grace: Duration) {
        self.0.drivers.close();
        if tokio::time::timeout(grace, self.0.drivers.wait()).await.is_err() {
            tracing::warn!(runs = self.0.drivers.len(), "runs did not finish in time and are interrupted");
            self.0.stop.cancel();
            self.0.drivers.wait().await;
        }
    }

    fn sees_all(&self, session: &Session) -> bool {
        // Nobody's run is like anybody's: whoever may read it may read all.
        let anybody = Resource::Run { owner: PrincipalId::from_bits(0) };
        self.0.access.require(session, Action::Read, anybody).is_ok()
    }

    /// The row of a run, if the session may do `action` to it. Those it may not see do not exist.
    async fn permitted(&self, session: &Session, run: RunId, action: Action) -> Result<Run, SignalError> {
        let unknown = || SignalError::UnknownRun(run.to_string());
        let found = self.0.store.runs(&session.realm).get(run).await.map_err(Unavailable::from)?;
        let row = match found {
            Some(row) => row,
            None => match self.just_written(session, run).await? {
                Some(row) => row,
                None => return Err(self.gone(session, run).await?.unwrap_or_else(unknown)),
            },
        };
        let resource = Resource::Run { owner: row.owner };
        if self.0.access.require(session, Action::Read, resource).is_err() {
            return Err(unknown());
        }
        self.0.access.require(session, action, resource)?;
        Ok(row)
    }

    /// A run that was not written yet when it was first looked for: it has just begun, or it was a call that only read.
    async fn just_written(&self, session: &Session, run: RunId) -> Result<Option<Run>, Unavailable> {
        self.0.writer.commit(run, Vec::new()).await?;
        Ok(self.0.store.runs(&session.realm).get(run).await?)
    }

    /// What to say of a run that was deleted, to whoever may see everyone's.
    async fn gone(&self, session: &Session, run: RunId) -> Result<Option<SignalError>, SignalError> {
        if !self.sees_all(session) {
            return Ok(None);
        }
        let found = self.0.store.runs(&session.realm).tombstone(run).await.map_err(Unavailable::from)?;
        Ok(found.map(|tombstone| SignalError::Deleted(Box::new(tombstone))))
    }

    async fn signal(&self, session: &Session, run: RunId, wish: Wish) -> Result<Steered, SignalError> {
        let row = self.permitted(session, run, Action::Execute).await?;
        if row.state.status.is_end() {
            return Err(SignalError::Ended(row.state.status.to_string()));
        }
        let live = self.0.hub.get_or_insert(run);
        self.0.send(&live, &session.realm, wish).await?;
        Ok(Steered { shared: Arc::clone(&self.0), live, home: Arc::clone(&session.realm) })
    }
}

/// A run that took a signal and goes on.
pub struct Steered {
    shared: Arc<Inner>,
    live: Arc<LiveRun>,
    /// The realm that keeps it.
    home: Arc<RealmScope>,
}

impl Steered {
    /// Where the run stands when it next ends or waits; none when it was lost.
    pub async fn settled(self) -> Option<Arc<Snapshot>> {
        self.shared.settled(&self.live, &self.home).await
    }
}

impl Inner {
    /// Where a run stands when it next ends or waits; none when it was lost.
    async fn settled(&self, live: &LiveRun, home: &RealmScope) -> Option<Arc<Snapshot>> {
        if let Some(snapshot) = live.settled().await {
            return Some(snapshot);
        }
        let rest = self.rest_of_conducted(home, live).await;
        rest.unwrap_or_else(|error| {
            tracing::error!(run = %live.id, error = &error as &dyn std::error::Error, "a run cannot be read");
            None
        })
    }

    fn host(self: &Arc<Self>) -> Arc<dyn Host> {
        Arc::clone(self) as _
    }

    /// Sends a wish to whoever drives the run, or takes it up, and waits for the answer.
    fn send(
        self: &Arc<Self>,
        live: &Arc<LiveRun>,
        home: &Arc<RealmScope>,
        wish: Wish,
    ) -> BoxFuture<'static, Result<(), SignalError>> {
        let (shared, live, home) = (Arc::clone(self), Arc::clone(live), Arc::clone(home));
        Box::pin(async move {
            if shared.is_conducted(&live).await? {
                return shared.say(live.id, wish).await;
            }
            custody::send(&shared.host(), &live, &home, wish).await
        })
    }

    /// Ends the runs that a run has started and that nobody wants any more.
    async fn cancel_children(self: &Arc<Self>, live: &LiveRun, home: &Arc<RealmScope>, began: &Began) {
        if began.delegates.is_empty() {
            return;
        }
        let status = RunStatus::ALL.into_iter().filter(|status| !status.is_end()).collect();
        let query = RunQuery { parent: Some(live.id), status, limit: 1000, ..RunQuery::default() };
        let stored = match self.store.runs(home).list(&query).await {
            Ok(page) => page.items.into_iter().map(|run| run.id).collect(),
            Err(error) => {
                tracing::error!(run = %live.id, %error, "what the run has started cannot be listed");
                Vec::new()
            }
        };
        // Of those in memory the ones that are driven: their rows may not be written yet.
        let driven = |child: &RunId| self.hub.get(*child).is_some_and(|child| child.is_driven());
        let children: HashSet<RunId> = live.adopted().into_iter().filter(driven).chain(stored).collect();
        for child in children {
            let message = Some("the run that started this one has ended".to_owned());
            let child = self.hub.get_or_insert(child);
            // Most have ended already, and say so.
            let _ = self.send(&child, home, Wish::Cancel { message }).await;
        }
    }

    /// Tells the run that started this one that it has ended.
    fn tell_parent(self: &Arc<Self>, began: &Began, home: &Arc<RealmScope>) {
        if let (Some(parent), Some(call_id)) = (began.parent, began.parent_call.clone()) {
            let (shared, home) = (Arc::clone(self), Arc::clone(home));
            self.drivers.spawn(async move {
                let parent = shared.hub.get_or_insert(parent);
                // One that does not wait for it has learned it in another way.
                let _ = shared.send(&parent, &home, Wish::ChildEnded { call_id }).await;
            });
        }
    }

    /// The implementations that a run's tools are bound to, by the tools' names in lower case.
    async fn bound(&self, began: &Began, realm: &RealmScope) -> HashMap<String, Bound> {
        let mut bound = HashMap::new();
        for (tool, implementation) in &began.bound {
            let Some(ToolRef { name, wanted }) = ToolRef::parse(implementation) else { continue };
            // One that cannot be found now is not found either when it is called.
            let versions = self.resolver.catalog.versions(realm, name).await.unwrap_or_default();
            let limit = choose(&versions, wanted.as_ref()).map(|tool| tool.limits.total).unwrap_or_default();
            bound.insert(tool.to_ascii_lowercase(), Bound { tool: tool.clone(), name: name.to_owned(), wanted, limit });
        }
        bound
    }

    async fn crew(
        &self,
        began: &Began,
        realm: Arc<RealmScope>,
        principal: Arc<Principal>,
        tools: Arc<Toolset>,
        answer: Option<Arc<toolwright_tools::Schema>>,
    ) -> Crew {
        let model = self.models.model(&realm, &principal, &began.model, began.fallback.as_ref()).await;
        let cx = Arc::new(call_context(began, realm, principal, &tools));
        let bound = Box::pin(self.bound(began, &cx.realm)).await;
        let recording = began.recording.clone();
        Crew { executor: self.executor.clone(), blobs: self.blobs.clone(), model, tools, bound, recording, cx, answer }
    }
}
