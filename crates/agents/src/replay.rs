//! Replays a recorded run with changes. Changed tools and models are called. All other outputs and replies come from
//! the recording.

use std::collections::BTreeSet;
use std::sync::Arc;

use toolwright_authz::{Action, Resource};
use toolwright_machine::AgentRun;
use toolwright_machine::agent::ForkState;
use toolwright_machine::journal::bundle::{Bundle, InvalidBundle};
use toolwright_machine::journal::diff::{ValueDifference, differences};
use toolwright_machine::journal::recording::{RecordedReply, Recording, comparison_summary};
use toolwright_machine::journal::{self, Entry, EntryBody, ReplayError};
use toolwright_types::{RunId, Trial, TrialKind};

use super::binding::{BindingContext, Bindings, LibrarySelection};
use super::fork::{acting_realm, uses_no_model};
use super::spec::RunOrigin;
use super::{Agents, BindingError, CompiledAgent, ForkChanges, ForkError, StartError, StartedRun};
use toolwright_catalog::Session;
use toolwright_catalog::Unavailable;
use toolwright_runs::{CommandError, RunLaunch, RunSnapshot};

/// The recorded run to replay.
#[derive(Debug, Clone)]
pub enum ReplaySource {
    /// A run of this server.
    Run(RunId),
    /// The text of a bundle, which another server may have exported.
    Bundle(String),
}

/// The changes of a replay. A field that is `None` keeps the recorded value.
#[derive(Debug, Clone, Default)]
pub struct ReplayChanges {
    /// The implementations that replace tools.
    pub tools: Bindings,
    /// The model, as `provider/model`, or as `model` for the same provider.
    pub model: Option<String>,
    /// The system prompt.
    pub prompt: Option<String>,
}

/// A replay that was started.
pub struct StartedReplay {
    /// The final state of the recorded run.
    pub recorded: Box<AgentRun>,
    /// The run that replays the recording.
    pub started: StartedRun,
}

/// The result of a replay.
pub struct ReplayReport {
    /// The state of the run that replayed the recording.
    pub snapshot: Arc<RunSnapshot>,
    /// The differences from the recording: status, answer, calls, tokens, cost.
    pub differences: Vec<ValueDifference>,
    /// The number of model replies that came from the recording.
    pub recorded_replies: usize,
    /// The number of model replies that came from a model.
    pub live_replies: usize,
}

/// Why a replay could not be started. Nothing was written.
#[derive(Debug, thiserror::Error)]
pub enum TrialError {
    /// The recorded run cannot be read.
    #[error(transparent)]
    Run(#[from] CommandError),
    /// The bundle is invalid.
    #[error(transparent)]
    Bundle(#[from] InvalidBundle),
    /// The journal cannot be replayed.
    #[error("the recorded run cannot be replayed by this release: {0}")]
    Journal(#[from] ReplayError),
    /// The run uses no model: it has predefined calls or a given plan.
    #[error("{}", ForkState::NO_MODEL)]
    PredefinedCalls,
    /// The agent cannot be started.
    #[error(transparent)]
    Start(#[from] StartError),
    /// A tool cannot be bound to the requested implementation.
    #[error(transparent)]
    Binding(#[from] BindingError),
    /// The requested model is invalid.
    #[error("{0}")]
    Model(String),
    /// The requested prompt is invalid.
    #[error("{0}")]
    Prompt(String),
    /// The database failed.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

/// The journal of a run to replay.
#[derive(Clone)]
pub(super) struct RecordedRun {
    pub run: RunId,
    pub entries: Vec<Entry>,
    /// Whether the journal comes from a bundle that was not exported from a run of this server.
    pub foreign: bool,
}

pub(super) struct ReplayOptions<'a> {
    /// The implementations that replace tools of the recorded run.
    pub library: &'a LibrarySelection,
    /// Tools that are called even if the recording has their outputs, in addition to the replaced tools.
    pub live_tools: &'a BTreeSet<String>,
    pub overrides: ModelOverrides,
    pub trial: Trial,
}

/// Replacements for the model and its prompt.
#[derive(Default)]
pub(super) struct ModelOverrides {
    model: Option<String>,
    prompt: Option<String>,
}

impl RecordedRun {
    /// Returns the name of the run's agent.
    pub(crate) fn agent(&self) -> Option<&str> {
        match self.entries.first().map(|first| &first.body) {
            Some(EntryBody::Started(start)) => Some(&start.subject),
            _ => None,
        }
    }
}

impl Agents {
    /// Replays a run with changes. Reads and model requests may be executed. Writes are captured: they are recorded and
    /// not executed.
    ///
    /// The caller needs the permission to start the agent.
    pub async fn replay(
        &self,
        session: &Session,
        source: ReplaySource,
        changes: ReplayChanges,
    ) -> Result<StartedReplay, TrialError> {
        let recorded_run = self.load_recorded_run(session, source).await?;
        let trial = Trial { of: Some(recorded_run.run), ..Trial::new(TrialKind::Replay, "replay") };
        let library = LibrarySelection::Inline { name: trial.arm.clone(), tools: changes.tools };
        let overrides = ModelOverrides { model: changes.model, prompt: changes.prompt };
        let options = ReplayOptions { library: &library, live_tools: &BTreeSet::new(), overrides, trial };
        Box::pin(self.start_replay(session, recorded_run, options)).await
    }

    /// Waits until a replay ends or is suspended, and compares it with the recorded run.
    pub async fn replay_report(&self, session: &Session, replay: StartedReplay) -> Result<ReplayReport, TrialError> {
        let StartedReplay { recorded, started } = replay;
        let lost = || Unavailable::new("the replay was lost", "its journal failed");
        let snapshot = started.handle.settled().await.ok_or_else(lost)?;
        let (_, entries) = self.0.runs.journal_of(session, started.run).await?;
        let recording = snapshot.start.recording.as_deref();
        let replies = Recording::from_entries(&entries)?.replies;
        let was_recorded =
            |reply: &&RecordedReply| recording.is_some_and(|recording| recording.answers(&reply.request_hash));
        let recorded_replies = replies.iter().filter(was_recorded).count();
        let differences = differences(&comparison_summary(&recorded), &comparison_summary(&snapshot.run));
        Ok(ReplayReport { live_replies: replies.len() - recorded_replies, recorded_replies, differences, snapshot })
    }

    /// Loads the journal of a run or of a bundle.
    pub(super) async fn load_recorded_run(
        &self,
        session: &Session,
        source: ReplaySource,
    ) -> Result<RecordedRun, TrialError> {
        match source {
            ReplaySource::Run(run) => {
                let (_, entries) = self.0.runs.journal_of(session, run).await?;
                Ok(RecordedRun { run, entries, foreign: false })
            }
            ReplaySource::Bundle(text) => {
                let bundle = Bundle::parse(&text)?;
                let foreign = !self.0.runs.wrote(session, &bundle).await?;
                Ok(RecordedRun { run: bundle.run, entries: bundle.journal()?, foreign })
            }
        }
    }

    /// Starts a run that uses the replies and envelopes of a recorded run.
    pub(super) async fn start_replay(
        &self,
        session: &Session,
        recorded_run: RecordedRun,
        options: ReplayOptions<'_>,
    ) -> Result<StartedReplay, TrialError> {
        let ReplayOptions { library, live_tools, overrides: ModelOverrides { model, prompt }, trial } = options;
        if uses_no_model(&recorded_run.entries) {
            return Err(TrialError::PredefinedCalls);
        }
        let recording = Recording::from_entries(&recorded_run.entries)?;
        let (start, recorded) = journal::replay(recorded_run.entries.iter().cloned())?;
        let agent = self.find(session, &start.subject).await?;
        self.check_may_run(session, &agent)?;
        self.check_may_replay(session, &agent, &recorded_run)?;
        if prompt.is_some() || model.is_some() {
            // Only a principal that may write the agent may change the prompt or the model.
            self.check_may_change(session, &agent)?;
        }
        self.check_capacity()?;
        let RecordedRun { entries, foreign, .. } = recorded_run;
        let principal = self.effective_principal(session, &agent, None).await?;
        let mut first: Vec<Entry> = entries.into_iter().take(1).collect();
        let realm = self.target_realm(session, &agent, acting_realm(&first)).await?;
        let tools = self.0.resolver.tools(&agent, &realm, &principal).await?;
        let context = BindingContext { agent: &agent, tools: &tools, realm: &realm, principal: &principal };
        let bound = self.bind(session, &context, library).await?;
        let origin = RunOrigin::new(session, Arc::clone(&realm), Arc::clone(&principal));
        if foreign && let Some(EntryBody::Started(start)) = first.first_mut().map(|first| &mut first.body) {
            // A foreign journal may contain any content. So the API key, the URLs and the implementations come from the
            // agent's definition.
            (start.tool_definitions, start.bindings) = (Vec::new(), Bindings::new());
            start.model = agent.document.body.llm_config.clone();
            start.fallback.clone_from(&agent.document.body.fallback_model);
            start.spec.request.extra = self.0.models.request_params(&start.model);
        }
        let message = |error: ForkError| error.to_string();
        let live_model = model.is_some();
        let prompt = ForkChanges { prompt, durable: Some(false), ..ForkChanges::default() };
        prompt.apply(&mut first, |_| {}).map_err(|error| TrialError::Prompt(message(error)))?;
        let model = ForkChanges { model, ..ForkChanges::default() };
        let reset_start = |start: &mut journal::RunStart| self.reset_start(start, &agent, &origin, &tools);
        model.apply(&mut first, reset_start).map_err(|error| TrialError::Model(message(error)))?;
        let Some(EntryBody::Started(mut start)) = first.pop().map(|first| first.body) else {
            return Err(ReplayError::MissingStart.into());
        };
        self.check_model(&agent, &realm, &start)?;
        let live_tools: BTreeSet<String> = bound.keys().chain(live_tools).cloned().collect();
        start.bindings.extend(bound);
        start.trial = Some(trial);
        start.forked_from = None;
        start.spec.policy.capture_writes = true;
        start.recording = Some(Arc::new(Recording { live_tools, live_model, ..recording }));
        let id = origin.run;
        let executor = self.0.runs.build_executor(&start, origin.scope()).await?;
        let plan = RunLaunch {
            executor: Arc::new(executor),
            home: Arc::clone(&session.realm),
            owner: origin.owner.0,
            principal: principal.id,
            changes: Vec::new(),
            start: *start,
            prefix: Vec::new(),
        };
        let handle = self.0.runs.launch(plan).await.map_err(Unavailable::from)?;
        Ok(StartedReplay { recorded: Box::new(recorded), started: StartedRun { run: id, conversation: None, handle } })
    }

    /// Checks that the session may replay a run. A journal that this server did not write may contain any
    /// prompt, so replaying it requires the permission to write the agent.
    pub(super) fn check_may_replay(
        &self,
        session: &Session,
        agent: &CompiledAgent,
        recorded_run: &RecordedRun,
    ) -> Result<(), TrialError> {
        if recorded_run.foreign { self.check_may_change(session, agent) } else { Ok(()) }
    }

    fn check_may_change(&self, session: &Session, agent: &CompiledAgent) -> Result<(), TrialError> {
        let resource = Resource::Agent { name: agent.document.meta.ref_name.as_str() };
        Ok(self.0.access.require(session, Action::Write, resource).map_err(StartError::from)?)
    }

    fn check_model(
        &self,
        agent: &CompiledAgent,
        realm: &toolwright_types::RealmScope,
        start: &journal::RunStart,
    ) -> Result<(), TrialError> {
        let model = self.0.models.model_ref(&start.model).map_err(|error| TrialError::Model(error.to_string()))?;
        if agent.cost_limit().is_some() && self.0.models.price(realm, &start.model).is_none() {
            let why = format!("the price of `{}` is unknown, so the cost limit cannot be enforced", model.model);
            return Err(TrialError::Model(why));
        }
        Ok(())
    }
}
