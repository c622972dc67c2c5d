//! A recorded run against something new: what is replaced is really called, the rest is answered as it was.

use std::collections::BTreeSet;
use std::sync::Arc;

use toolwright_authz::{Action, Resource};
use toolwright_machine::AgentRun;
use toolwright_machine::journal::bundle::{Bundle, InvalidBundle};
use toolwright_machine::journal::diff::{Difference, differences};
use toolwright_machine::journal::recording::{RecordedReply, Recording, compared};
use toolwright_machine::journal::{self, Entry, Recorded, ReplayError};
use toolwright_types::{DocumentId, RunId, Trial, TrialKind};

use super::binding::{Binder, Bindings, Library};
use super::fork::{PLANNED, acting_realm, is_planned};
use super::spec::Origin;
use super::{Agents, BindingError, Changes, CompiledAgent, ForkError, StartError, Started};
use crate::Unavailable;
use crate::access::Session;
use crate::runs::{NewRunPlan, SignalError, Snapshot};

/// The run that is replayed.
#[derive(Debug, Clone)]
pub enum Original {
    /// One of this server's.
    Run(RunId),
    /// One in a file, from anywhere.
    Bundle(String),
}

/// What is new. Whatever is absent is as it was.
#[derive(Debug, Clone, Default)]
pub struct With {
    /// Implementations of tools.
    pub tools: Bindings,
    /// The model, as `provider/model` or, with the same provider, as `model`.
    pub model: Option<String>,
    /// The instructions.
    pub prompt: Option<String>,
}

/// A replay that has begun.
pub struct Replay {
    /// The run that was recorded, as it ended.
    pub recorded: Box<AgentRun>,
    /// The run that replays it.
    pub started: Started,
}

/// What a replay came to.
pub struct Replayed {
    /// Where it stands.
    pub snapshot: Arc<Snapshot>,
    /// Where it differs from what was recorded: status, answer, calls, tokens, cost.
    pub differences: Vec<Difference>,
    /// How many of the model's replies were recorded.
    pub recorded_replies: usize,
    /// How often the model was asked.
    pub asked: usize,
}

/// Why a run was not replayed. Nothing was written.
#[derive(Debug, thiserror::Error)]
pub enum TrialError {
    /// The recorded run cannot be read.
    #[error(transparent)]
    Run(#[from] SignalError),
    /// The bundle is none.
    #[error(transparent)]
    Bundle(#[from] InvalidBundle),
    /// What is recorded makes no run.
    #[error("the recorded run cannot be replayed by this release: {0}")]
    Journal(#[from] ReplayError),
    /// There is no agent in it.
    #[error("{PLANNED}")]
    Planned,
    /// The session could not start its agent.
    #[error(transparent)]
    Start(#[from] StartError),
    /// A tool cannot be replaced by what was named.
    #[error(transparent)]
    Binding(#[from] BindingError),
    /// The model cannot be the one that was named.
    #[error("{0}")]
    Model(String),
    /// The prompt cannot be the one that was given.
    #[error("{0}")]
    Prompt(String),
    /// The database failed.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

/// A journal that can be replayed.
#[derive(Clone)]
pub(super) struct Tape {
    pub run: RunId,
    pub entries: Vec<Entry>,
    /// Whether somebody else may have written it.
    pub foreign: bool,
}

/// How a tape is played.
pub(super) struct Staging<'a> {
    /// The implementations that are new.
    pub library: &'a Library,
    /// Further tools that are called, although their answers are recorded.
    pub called: &'a BTreeSet<String>,
    pub words: Words,
    pub mark: Trial,
}

/// What a model is told anew, and which.
#[derive(Default)]
pub(super) struct Words {
    model: Option<String>,
    prompt: Option<String>,
}

impl Tape {
    /// The agent whose run it is.
    pub fn agent(&self) -> Option<&str> {
        match self.entries.first().map(|first| &first.what) {
            Some(Recorded::Began(began)) => Some(&began.agent),
            _ => None,
        }
    }
}

impl Agents {
    /// Replays a run against something new. Nothing that it does leaves the server but reads, and what is asked of models.
    ///
    /// Who replays it acts as if they had started its agent, as that is today.
    pub async fn replay(&self, session: &Session, original: Original, with: With) -> Result<Replay, TrialError> {
        let tape = self.tape(session, original).await?;
        let mark = Trial { of: Some(tape.run), ..Trial::new(TrialKind::Replay, "replay") };
        let library = Library::Given { name: mark.arm.clone(), tools: with.tools };
        let words = Words { model: with.model, prompt: with.prompt };
        self.play(session, tape, Staging { library: &library, called: &BTreeSet::new(), words, mark }).await
    }

    /// What became of a replay, held against what was recorded. Waits for it.
    pub async fn replayed(&self, session: &Session, replay: Replay) -> Result<Replayed, TrialError> {
        let Replay { recorded, started } = replay;
        let lost = || Unavailable::new("the replay was lost")("its journal failed".into());
        let snapshot = started.live.settled().await.ok_or_else(lost)?;
        let (_, entries) = self.0.runs.journal_of(session, started.run).await?;
        let known = snapshot.began.recording.as_deref();
        let replies = Recording::of(&entries)?.replies;
        let was_recorded = |reply: &&RecordedReply| known.is_some_and(|known| known.answers(&reply.asked));
        let recorded_replies = replies.iter().filter(was_recorded).count();
        let differences = differences(&compared(&recorded), &compared(&snapshot.run));
        Ok(Replayed { asked: replies.len() - recorded_replies, recorded_replies, differences, snapshot })
    }

    /// The journal of a run, or of a bundle.
    pub(super) async fn tape(&self, session: &Session, original: Original) -> Result<Tape, TrialError> {
        match original {
            Original::Run(run) => {
                let (_, entries) = self.0.runs.journal_of(session, run).await?;
                Ok(Tape { run, entries, foreign: false })
            }
            Original::Bundle(text) => {
                let bundle = Bundle::read(&text)?;
                let foreign = !self.0.runs.wrote(session, &bundle).await?;
                Ok(Tape { run: bundle.run, entries: bundle.journal()?, foreign })
            }
        }
    }

    /// Begins a run that is answered from a tape.
    pub(super) async fn play(&self, session: &Session, tape: Tape, staging: Staging<'_>) -> Result<Replay, TrialError> {
        let Staging { library, called, words: Words { model, prompt }, mark } = staging;
        if is_planned(&tape.entries) {
            return Err(TrialError::Planned);
        }
        let recording = Recording::of(&tape.entries)?;
        let (was, recorded) = journal::replay(tape.entries.iter().cloned())?;
        let agent = self.find(session, &was.agent).await?;
        self.may_run(session, &agent)?;
        self.may_play(session, &agent, &tape)?;
        if prompt.is_some() || model.is_some() {
            // What an agent is told is its author's to say.
            self.may_change(session, &agent)?;
        }
        self.has_room()?;
        let Tape { entries, foreign, .. } = tape;
        let (principal, _) = self.effective(session, &agent, None).await?;
        let mut first: Vec<Entry> = entries.into_iter().take(1).collect();
        let realm = self.target_realm(session, &agent, acting_realm(&first)).await?;
        let tools = self.0.resolver.tools(&agent, &realm, &principal).await?;
        let binder = Binder { agent: &agent, tools: &tools, realm: &realm, principal: &principal };
        let bound = self.bind(session, &binder, library).await?;
        let origin = Origin {
            run: RunId::generate(),
            realm: Arc::clone(&realm),
            home: Arc::clone(&session.realm),
            owner: (session.principal.id, session.principal.name.to_string()),
            principal: Arc::clone(&principal),
            parent: None,
            conversation: None,
            session: None,
        };
        if foreign && let Some(Recorded::Began(began)) = first.first_mut().map(|first| &mut first.what) {
            // Keys, addresses and implementations come from those who may write them here.
            (began.carried, began.bound) = (Vec::new(), Bindings::new());
            began.model = agent.document.body.llm_config.clone();
            began.fallback.clone_from(&agent.document.body.fallback_model);
            began.spec.request.extra = self.0.models.extra(&began.model);
        }
        let said = |error: ForkError| error.to_string();
        let replaced_model = model.is_some();
        let prompt = Changes { prompt, durable: Some(false), ..Changes::default() };
        prompt.apply(&mut first, |_| {}).map_err(|error| TrialError::Prompt(said(error)))?;
        let model = Changes { model, ..Changes::default() };
        let renew = |began: &mut journal::Began| self.renew(began, &agent, &origin, &tools);
        model.apply(&mut first, renew).map_err(|error| TrialError::Model(said(error)))?;
        let Some(Recorded::Began(mut began)) = first.pop().map(|first| first.what) else {
            return Err(ReplayError::NoBeginning.into());
        };
        self.check_model(&agent, &realm, &began)?;
        let replaced_tools: BTreeSet<String> = bound.keys().chain(called).cloned().collect();
        began.bound.extend(bound);
        began.trial = Some(mark);
        began.forked_from = None;
        began.spec.policy.captures = true;
        began.recording = Some(Arc::new(Recording { replaced_tools, replaced_model, ..recording }));
        let id = origin.run;
        let crew = self.0.runs.recruit(&began, realm, Arc::clone(&principal)).await?;
        let plan = NewRunPlan {
            crew: Arc::new(crew),
            home: Arc::clone(&session.realm),
            owner: session.principal.id,
            principal: principal.id,
            changes: Vec::new(),
            began: *began,
            prefix: Vec::new(),
        };
        let live = self.0.runs.begin(plan).await.map_err(Unavailable::from)?;
        Ok(Replay { recorded: Box::new(recorded), started: Started { run: id, conversation: None, live } })
    }

    /// Lets the session have a tape played, or says why not: nobody knows who wrote a foreign one.
    pub(super) fn may_play(&self, session: &Session, agent: &CompiledAgent, tape: &Tape) -> Result<(), TrialError> {
        if tape.foreign { self.may_change(session, agent) } else { Ok(()) }
    }

    fn may_change(&self, session: &Session, agent: &CompiledAgent) -> Result<(), TrialError> {
        let resource = Resource::Agent { name: agent.document.meta.ref_name.as_str() };
        Ok(self.0.access.require(session, Action::Write, resource).map_err(StartError::from)?)
    }

    fn check_model(
        &self,
        agent: &CompiledAgent,
        realm: &toolwright_types::RealmScope,
        began: &journal::Began,
    ) -> Result<(), TrialError> {
        let model = self.0.models.chosen(&began.model).map_err(|error| TrialError::Model(error.to_string()))?;
        if agent.own_cost_limit().is_some() && self.0.models.price(realm, &began.model).is_none() {
            let why = format!("the price of `{}` is not known, so a limit on cost could not be kept", model.model);
            return Err(TrialError::Model(why));
        }
        Ok(())
    }
}
