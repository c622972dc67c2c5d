//! How a run begins: who acts where, in which conversation, with which history.

use std::sync::Arc;

use serde_json::{Map, Value};
use toolwright_authz::{Action, Resource};
use toolwright_models::estimate_tokens;
use toolwright_store::{Change, Conversation, ConversationStatus, NewConversation, Turn, WriteError};
use toolwright_types::{
    ConversationId, DocumentId, MemoryStrategy, Message, Principal, PrincipalName, RealmScope, RunId, RunStatus,
};

use super::memory::{self, Kept};
use super::spec::{Draft, Origin};
use super::{AgentSource, Agents, CompiledAgent, PatternError};
use crate::Unavailable;
use crate::access::{Denied, Session};
use crate::runs::{LiveRun, NewRunPlan, turns};

/// More turns than this are not read, whatever an agent remembers.
const MOST_TURNS: u32 = 1000;
/// The longest title that is taken from what the user said.
const TITLE: usize = 80;

/// A wish to run an agent.
#[derive(Debug, Clone, Default)]
pub struct AgentRequest {
    /// What the user says.
    pub message: String,
    /// The conversation to go on with; a new one when absent.
    pub conversation: Option<ConversationId>,
    /// Variables for the prompt.
    pub context: Map<String, Value>,
    /// The realm to act in; the session's when absent.
    pub realm: Option<String>,
    /// The principal to act as; the session's when absent.
    pub principal: Option<String>,
    /// The client's session; the conversation when absent.
    pub session: Option<String>,
    /// Whether each step is committed before the next; as the agent says when absent.
    pub durable: Option<bool>,
    /// What was said before, for a caller that keeps the conversation itself.
    pub history: Vec<Message>,
}

/// A run that has begun.
pub struct Started {
    /// The run.
    pub run: RunId,
    /// Its conversation, if it is kept.
    pub conversation: Option<ConversationId>,
    pub(crate) live: Arc<LiveRun>,
}

/// Why a run that was ready did not begin.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LaunchError {
    /// Its beginning could not be written.
    #[error(transparent)]
    Write(#[from] WriteError),
}

/// Why an agent was not run. Nothing was written.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// There is none of this name.
    #[error("there is no agent `{agent}` in realm `{realm}`")]
    UnknownAgent { agent: String, realm: String },
    /// It is switched off.
    #[error("agent `{0}` is disabled")]
    Disabled(String),
    /// Not permitted.
    #[error(transparent)]
    Denied(#[from] Denied),
    /// The realm is not one it may act in.
    #[error("agent `{agent}` may not act in realm `{realm}`; its `allowedRealms` or your permissions do not have it")]
    Realm { agent: String, realm: String },
    /// There is no such principal.
    #[error("there is no principal `{0}`")]
    UnknownPrincipal(String),
    /// There is no such conversation, or not for this principal.
    #[error("there is no conversation `{0}`")]
    UnknownConversation(String),
    /// The conversation is with another agent.
    #[error("conversation `{conversation}` is with agent `{agent}`")]
    OtherAgent { conversation: ConversationId, agent: String },
    /// The conversation was put away.
    #[error("conversation `{0}` is {1}; set its status to ACTIVE to go on with it")]
    Closed(ConversationId, &'static str),
    /// Another run of the conversation has not ended.
    #[error("run `{run}` of this conversation has not ended ({status}); wait for it, answer it or cancel it")]
    Busy { run: RunId, status: RunStatus },
    /// The prompt cannot be rendered with this context.
    #[error("the agent's prompt cannot be rendered: {0}")]
    Prompt(String),
    /// The agent's model is none that this server knows.
    #[error("the agent's model cannot be used: {0}")]
    Model(String),
    /// The agent's pattern is none that can be run.
    #[error(transparent)]
    Pattern(#[from] PatternError),
    /// Too many runs are under way.
    #[error("{0} runs are under way, which is as many as this server allows; try again later")]
    TooMany(usize),
    /// The database failed.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

impl From<toolwright_store::Unavailable> for StartError {
    fn from(error: toolwright_store::Unavailable) -> Self {
        StartError::Unavailable(error.into())
    }
}

impl Agents {
    /// Begins a run and leaves it to itself: it goes on when the caller goes away.
    pub async fn start<'a>(
        &self,
        session: &Session,
        agent: impl Into<AgentSource<'a>>,
        request: AgentRequest,
    ) -> Result<Started, StartError> {
        let agent = self.ready(session, agent.into()).await?;
        self.may_run(session, &agent)?;
        self.has_room()?;
        let realm = self.target_realm(session, &agent, request.realm.as_deref()).await?;
        let (principal, _) = self.effective(session, &agent, request.principal.as_deref()).await?;
        let talk = self.talk(session, &agent, request.conversation).await?;
        let origin = Origin {
            run: RunId::generate(),
            realm,
            home: Arc::clone(&session.realm),
            owner: (session.principal.id, session.principal.name.to_string()),
            principal,
            parent: None,
            conversation: talk.as_ref().map(|talk| talk.id),
            session: request.session.or_else(|| talk.as_ref().map(|talk| talk.id.to_string())),
        };
        let mut context = request.context;
        if let Some(Value::Object(shared)) = talk.as_ref().and_then(Talk::shared_context) {
            for (name, value) in shared {
                context.entry(name.as_str()).or_insert_with(|| value.clone());
            }
        }
        let mut draft = Box::pin(self.draft(&agent, origin, context, request.message)).await?;
        if let Some(durable) = request.durable {
            draft.began.durable = durable;
        }
        draft.insert_history(request.history, None);
        let mut changes = Vec::new();
        if let Some(talk) = &talk {
            changes.extend(Box::pin(self.remember(&agent, talk, &mut draft)).await);
            changes.extend(talk.changes(session, &agent, &draft));
        }
        let conversation = draft.origin.conversation;
        let run = draft.origin.run;
        let shadow = Box::pin(self.shadow_of(&agent, &mut draft)).await;
        match self.launch(draft, changes).await {
            Ok(live) => {
                if let Some(shadow) = shadow {
                    Box::pin(self.cast(shadow)).await;
                }
                Ok(Started { run, conversation, live })
            }
            // Somebody else spoke in the same moment and was first.
            Err(LaunchError::Write(WriteError::Conflict(_)))
                if talk.as_ref().is_some_and(|talk| talk.known.is_some()) =>
            {
                let (run, status) = match talk {
                    Some(talk) => {
                        self.0.runs.unfinished_of(&session.realm, talk.id).await?.unwrap_or((run, RunStatus::Running))
                    }
                    None => (run, RunStatus::Running),
                };
                Err(StartError::Busy { run, status })
            }
            Err(LaunchError::Write(error)) => Err(Unavailable::from(error).into()),
        }
    }

    /// Writes the beginning of a run and starts to drive it.
    pub(super) async fn launch(&self, draft: Draft, changes: Vec<Change>) -> Result<Arc<LiveRun>, LaunchError> {
        let Draft { origin, crew, began, .. } = draft;
        let plan = NewRunPlan {
            prefix: Vec::new(),
            began,
            crew: Arc::new(crew),
            home: origin.home,
            owner: origin.owner.0,
            principal: origin.principal.id,
            changes,
        };
        Ok(self.0.runs.begin(plan).await?)
    }

    /// Who the agent acts as: its service account, else whoever the caller may act as, else the caller.
    pub(super) async fn effective(
        &self,
        session: &Session,
        agent: &CompiledAgent,
        wanted: Option<&str>,
    ) -> Result<(Arc<Principal>, bool), StartError> {
        let own = session.principal.name.as_str();
        let wanted = wanted.filter(|name| *name != own && *name != session.principal.id.to_string());
        if let Some(name) = wanted {
            self.0.access.require(session, Action::ActAs, Resource::Principal { name })?;
        }
        let named = agent.document.body.principal_ref.as_deref().or(wanted);
        let Some(name) = named.filter(|name| *name != own) else {
            return Ok((Arc::clone(&session.principal), false));
        };
        let unknown = || StartError::UnknownPrincipal(name.to_owned());
        let parsed: PrincipalName = name.parse().map_err(|_| unknown())?;
        let found = self.0.store.tenancy().principal(session.principal.org, &parsed).await?;
        Ok((Arc::new(found.ok_or_else(unknown)?), true))
    }

    pub(super) async fn target_realm(
        &self,
        session: &Session,
        agent: &CompiledAgent,
        wanted: Option<&str>,
    ) -> Result<Arc<RealmScope>, StartError> {
        let here = &session.realm;
        let Some(name) = wanted.filter(|name| *name != here.name.as_str() && *name != here.realm.to_string()) else {
            return Ok(Arc::clone(here));
        };
        let refused = || StartError::Realm { agent: agent.document.meta.ref_name.to_string(), realm: name.to_owned() };
        if !agent.document.body.allowed_realms.contains(name) {
            return Err(refused());
        }
        self.0.identity.enter(&session.principal, name).await.map_err(|_| refused())
    }

    /// The conversation to go on with, or a new one; none if the agent keeps none.
    async fn talk(
        &self,
        session: &Session,
        agent: &CompiledAgent,
        wanted: Option<ConversationId>,
    ) -> Result<Option<Talk>, StartError> {
        let Some(id) = wanted else {
            let kept = agent.document.body.memory_config.persist_conversation.unwrap_or(true);
            return Ok(kept.then(|| Talk { id: ConversationId::generate(), known: None }));
        };
        let unknown = || StartError::UnknownConversation(id.to_string());
        let found = self.0.store.conversations(&session.realm).get(id).await?.ok_or_else(unknown)?;
        let resource = Resource::Conversation { owner: found.owner };
        self.0.access.require(session, Action::Execute, resource).map_err(|_| unknown())?;
        if !found.agent.eq_ignore_ascii_case(agent.document.meta.ref_name.as_str()) {
            return Err(StartError::OtherAgent { conversation: id, agent: found.agent });
        }
        if found.status != ConversationStatus::Active {
            return Err(StartError::Closed(id, found.status.as_str()));
        }
        if let Some((run, status)) = self.0.runs.unfinished_of(&session.realm, id).await? {
            return Err(StartError::Busy { run, status });
        }
        let turns = self.0.store.conversations(&session.realm).last_turns(id, MOST_TURNS).await?;
        Ok(Some(Talk { id, known: Some((found, turns)) }))
    }

    /// Puts what the agent remembers between its instructions and what the user says now.
    async fn remember(&self, agent: &Arc<CompiledAgent>, talk: &Talk, draft: &mut Draft) -> Option<Change> {
        let (conversation, turns) = talk.known.as_ref()?;
        let definition = &agent.document.body;
        let config = &definition.memory_config;
        let room = definition.llm_config.max_input_tokens.map(|most| most.saturating_sub(draft.tokens()));
        if config.strategy != MemoryStrategy::Summary {
            draft.insert_history(memory::keep(turns, config, room).messages, None);
            return None;
        }
        let known = turns.iter().take_while(|turn| turn.index < conversation.summarised_turns).count();
        let fresh = turns.get(known..).unwrap_or_default();
        let room = room.map(|room| room.saturating_sub(conversation.summary.as_deref().map_or(0, estimate_tokens)));
        let Kept { messages, dropped } = memory::keep(fresh, config, room);
        let mut summary = conversation.summary.clone();
        let mut change = None;
        if dropped > 0 {
            let old = fresh.get(..dropped).unwrap_or_default();
            match self.summarise(agent, &draft.origin, summary.as_deref(), old).await {
                Ok(text) => {
                    change = old.last().map(|last| Change::Summarise {
                        realm: draft.origin.home.realm,
                        conversation: talk.id,
                        summary: text.clone(),
                        summarised_turns: last.index + 1,
                    });
                    summary = Some(text);
                }
                Err(why) => draft.warn(format!("{dropped} turns were left out: no summary could be made: {why}")),
            }
        }
        draft.insert_history(messages, summary.as_deref());
        change
    }
}

/// A conversation that a run takes part in.
struct Talk {
    id: ConversationId,
    /// What there is of it already.
    known: Option<(Conversation, Vec<Turn>)>,
}

impl Talk {
    /// What its runs share.
    fn shared_context(&self) -> Option<&Value> {
        self.known.as_ref().map(|(conversation, _)| &conversation.shared_context)
    }

    fn changes(&self, session: &Session, agent: &CompiledAgent, draft: &Draft) -> Vec<Change> {
        let at = draft.at;
        let said = Message::User { content: draft.message.clone() };
        let title = title(&draft.message);
        let opened = self.known.is_none().then(|| Change::OpenConversation {
            realm: session.realm.realm,
            conversation: NewConversation {
                id: self.id,
                agent: agent.document.meta.ref_name.to_string(),
                owner: session.principal.id,
                title: title.clone(),
                created_at: at,
            },
        });
        let realm = session.realm.realm;
        let turns = vec![turns::of_user(draft.origin.run, &said, at)];
        opened
            .into_iter()
            .chain([Change::AddTurns { realm, conversation: self.id, turns, title_if_none: title }])
            .collect()
    }
}

/// The beginning of what the user said, in one line.
fn title(message: &str) -> Option<String> {
    let line = message.lines().map(str::trim).find(|line| !line.is_empty())?;
    let short: String = line.chars().take(TITLE).collect();
    Some(if short.len() < line.len() { format!("{}…", short.trim_end()) } else { short })
}
