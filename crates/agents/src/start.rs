//! Starts runs: determines the principal, the realm, the conversation and its history.

use std::sync::Arc;

use serde_json::{Map, Value};
use toolwright_authz::{Action, Resource};
use toolwright_models::estimate_tokens;
use toolwright_store::{Conversation, ConversationStatus, NewConversation, RunChange, Turn, WriteError};
use toolwright_types::{
    ConversationId, DocumentId, MemoryStrategy, Message, Principal, PrincipalName, RealmScope, RunId, RunStatus,
};

use super::error::StartError;
use super::memory::{self, HistoryWindow};
use super::spec::{RunDraft, RunOrigin};
use super::{AgentSource, Agents, CompiledAgent};
use toolwright_catalog::Session;
use toolwright_catalog::Unavailable;
use toolwright_runs::{RunHandle, RunLaunch, turns};

/// The maximum size of the context of a conversation, in bytes of JSON.
const MAX_CONTEXT_BYTES: usize = 1 << 20;

/// The maximum number of turns that are read from a conversation.
const MAX_TURNS: u32 = 1000;
/// The maximum length of a conversation title, which is taken from the user's message.
const MAX_TITLE_CHARS: usize = 80;

/// A request to run an agent.
#[derive(Debug, Clone, Default)]
pub struct AgentRequest {
    /// The message of the user.
    pub message: String,
    /// The conversation to continue. `None` starts a new conversation.
    pub conversation: Option<ConversationId>,
    /// Variables for the prompt.
    pub context: Map<String, Value>,
    /// The realm to act in. `None` means the realm of the session.
    pub realm: Option<String>,
    /// The principal to act as. `None` means the principal of the session.
    pub principal: Option<String>,
    /// The session id that the client uses. `None` means the id of the conversation.
    pub session: Option<String>,
    /// Whether the run is durable. `None` means the setting of the agent.
    pub durable: Option<bool>,
    /// The earlier messages, for a caller that stores the conversation itself.
    pub history: Vec<Message>,
    /// The id of the run. `None` means a new id.
    pub run: Option<RunId>,
}

/// A run that was started.
pub struct StartedRun {
    /// The run.
    pub run: RunId,
    /// The conversation of the run; `None` if the agent stores no conversations.
    pub conversation: Option<ConversationId>,
    /// The handle of the run, to watch the run or to wait for it.
    pub handle: Arc<RunHandle>,
}

/// Why a drafted run could not be launched.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LaunchError {
    /// The first entry could not be written.
    #[error(transparent)]
    Write(#[from] WriteError),
}

impl Agents {
    /// Starts a run. The run continues if the caller disconnects.
    pub async fn start<'a>(
        &self,
        session: &Session,
        agent: impl Into<AgentSource<'a>>,
        request: AgentRequest,
    ) -> Result<StartedRun, StartError> {
        let agent = self.resolve_agent(session, agent.into()).await?;
        self.check_may_run(session, &agent)?;
        self.check_capacity()?;
        let realm = self.target_realm(session, &agent, request.realm.as_deref()).await?;
        let principal = self.effective_principal(session, &agent, request.principal.as_deref()).await?;
        let conversation = self.resolve_conversation(session, &agent, request.conversation).await?;
        let conversation_id = conversation.as_ref().map(|conversation| conversation.id);
        let origin = RunOrigin {
            conversation: conversation_id,
            session: request.session.or_else(|| conversation_id.map(|id| id.to_string())),
            ..RunOrigin::new(session, realm, principal).with_id(request.run)
        };
        let shared = conversation.as_ref().map(ConversationState::shared_context).unwrap_or_default();
        let context = merge_context(shared.clone(), request.context);
        let shares = (context != shared).then(|| Value::Object(context.clone()).to_string());
        check_context_size(shares.as_deref().unwrap_or_default()).map_err(StartError::Prompt)?;
        let mut draft = self.draft_run(&agent, origin, context, request.message).await?;
        if let Some(durable) = request.durable {
            draft.start.durable = durable;
        }
        draft.insert_history(request.history, None);
        let mut changes = Vec::new();
        if let Some(conversation) = &conversation {
            changes.extend(Box::pin(self.insert_memory(&agent, conversation, &mut draft)).await);
            changes.extend(conversation.changes(session, &agent, &draft));
            changes.extend(shares.map(|shared_context| RunChange::ShareContext {
                realm: session.realm.realm,
                conversation: conversation.id,
                shared_context,
            }));
        }
        let run = draft.origin.run;
        let shadow = Box::pin(self.shadow_of(&agent, &mut draft)).await;
        match self.launch(draft, changes).await {
            Ok(handle) => {
                if let Some(shadow) = shadow {
                    Box::pin(self.start_shadow_run(shadow)).await;
                }
                Ok(StartedRun { run, conversation: conversation_id, handle })
            }
            // A concurrent request started a run in the same conversation first.
            Err(LaunchError::Write(WriteError::Conflict(_)))
                if conversation.as_ref().is_some_and(|conversation| conversation.existing.is_some()) =>
            {
                let (run, status) = match conversation_id {
                    Some(id) => self.0.runs.open_run_of(&session.realm, id).await?.unwrap_or((run, RunStatus::Running)),
                    None => (run, RunStatus::Running),
                };
                Err(StartError::ConversationBusy { run, status })
            }
            Err(LaunchError::Write(error)) => Err(Unavailable::from(error).into()),
        }
    }

    /// Writes the first entry of a run and starts its driver.
    pub(super) async fn launch(
        &self,
        draft: Box<RunDraft>,
        changes: Vec<RunChange>,
    ) -> Result<Arc<RunHandle>, LaunchError> {
        let RunDraft { origin, executor, start, .. } = *draft;
        let plan = RunLaunch {
            prefix: Vec::new(),
            start,
            executor: Arc::new(executor),
            home: origin.home,
            owner: origin.owner.0,
            principal: origin.principal.id,
            changes,
        };
        Ok(self.0.runs.launch(plan).await?)
    }

    /// Returns the principal that the agent acts as: the agent's `principalRef`, otherwise the requested principal,
    /// otherwise the caller.
    pub(super) async fn effective_principal(
        &self,
        session: &Session,
        agent: &CompiledAgent,
        requested: Option<&str>,
    ) -> Result<Arc<Principal>, StartError> {
        let own = session.principal.name.as_str();
        let requested = requested.filter(|name| *name != own && *name != session.principal.id.to_string());
        if let Some(name) = requested {
            self.0.access.require(session, Action::ActAs, Resource::Principal { name })?;
        }
        let named = agent.document.body.principal_ref.as_deref().or(requested);
        let Some(name) = named.filter(|name| *name != own) else {
            return Ok(Arc::clone(&session.principal));
        };
        let unknown = || StartError::UnknownPrincipal(name.to_owned());
        let parsed: PrincipalName = name.parse().map_err(|_| unknown())?;
        let found = self.0.store.tenancy().principal(session.principal.org, &parsed).await?;
        Ok(Arc::new(found.ok_or_else(unknown)?))
    }

    /// Returns the realm in which the agent acts: the requested realm, otherwise the realm of the session.
    pub(super) async fn target_realm(
        &self,
        session: &Session,
        agent: &CompiledAgent,
        requested: Option<&str>,
    ) -> Result<Arc<RealmScope>, StartError> {
        let own = &session.realm;
        let Some(name) = requested.filter(|name| *name != own.name.as_str() && *name != own.realm.to_string()) else {
            return Ok(Arc::clone(own));
        };
        let refused = || StartError::Realm { agent: agent.document.meta.ref_name.to_string(), realm: name.to_owned() };
        if !agent.document.body.allowed_realms.contains(name) {
            return Err(refused());
        }
        self.0.identity.enter_realm(&session.principal, name).await.map_err(|_| refused())
    }

    /// Returns the conversation to continue or a new conversation; `None` if the agent stores no conversations.
    async fn resolve_conversation(
        &self,
        session: &Session,
        agent: &CompiledAgent,
        requested: Option<ConversationId>,
    ) -> Result<Option<ConversationState>, StartError> {
        let Some(id) = requested else {
            let persists = agent.document.body.memory_config.persist_conversation.unwrap_or(true);
            return Ok(persists.then(|| ConversationState { id: ConversationId::generate(), existing: None }));
        };
        let unknown = || StartError::UnknownConversation(id.to_string());
        let found = self.0.store.conversations(&session.realm).get(id).await?.ok_or_else(unknown)?;
        let resource = Resource::Conversation { owner: found.owner };
        self.0.access.require(session, Action::Execute, resource).map_err(|_| unknown())?;
        if !found.agent.eq_ignore_ascii_case(agent.document.meta.ref_name.as_str()) {
            return Err(StartError::OtherAgent { conversation: id, agent: found.agent });
        }
        if found.status != ConversationStatus::Active {
            return Err(StartError::ConversationClosed(id, found.status.as_str()));
        }
        if let Some((run, status)) = self.0.runs.open_run_of(&session.realm, id).await? {
            return Err(StartError::ConversationBusy { run, status });
        }
        let turns = self.0.store.conversations(&session.realm).last_turns(id, MAX_TURNS).await?;
        Ok(Some(ConversationState { id, existing: Some((found, turns)) }))
    }

    /// Inserts earlier turns of the conversation before the user's message, within the limits of the agent's memory
    /// configuration. Returns the change that stores a new summary, if one was created.
    async fn insert_memory(
        &self,
        agent: &Arc<CompiledAgent>,
        state: &ConversationState,
        draft: &mut RunDraft,
    ) -> Option<RunChange> {
        let (conversation, turns) = state.existing.as_ref()?;
        let definition = &agent.document.body;
        let config = &definition.memory_config;
        let budget = definition.llm_config.max_input_tokens.map(|max| max.saturating_sub(draft.tokens()));
        if config.strategy != MemoryStrategy::Summary {
            draft.insert_history(memory::select_history(turns, config, budget).messages, None);
            return None;
        }
        let summarised = turns.iter().take_while(|turn| turn.index < conversation.summarised_turns).count();
        let fresh = turns.get(summarised..).unwrap_or_default();
        let budget =
            budget.map(|budget| budget.saturating_sub(conversation.summary.as_deref().map_or(0, estimate_tokens)));
        let HistoryWindow { messages, dropped } = memory::select_history(fresh, config, budget);
        let mut summary = conversation.summary.clone();
        let mut change = None;
        if dropped > 0 {
            let old = fresh.get(..dropped).unwrap_or_default();
            match self.summarise(agent, &draft.origin, summary.as_deref(), old).await {
                Ok(text) => {
                    change = old.last().map(|last| RunChange::Summarise {
                        realm: draft.origin.home.realm,
                        conversation: state.id,
                        summary: text.clone(),
                        summarised_turns: last.index + 1,
                    });
                    summary = Some(text);
                }
                Err(why) => draft.warn(format!("{dropped} turns were omitted because summarising them failed: {why}")),
            }
        }
        draft.insert_history(messages, summary.as_deref());
        change
    }
}

/// The conversation of a new run.
struct ConversationState {
    id: ConversationId,
    /// The stored conversation and its turns; `None` for a new conversation.
    existing: Option<(Conversation, Vec<Turn>)>,
}

impl ConversationState {
    /// The context variables that all runs of the conversation use.
    fn shared_context(&self) -> Map<String, Value> {
        let stored = self.existing.as_ref().and_then(|(conversation, _)| conversation.shared_context.as_object());
        stored.cloned().unwrap_or_default()
    }

    fn changes(&self, session: &Session, agent: &CompiledAgent, draft: &RunDraft) -> Vec<RunChange> {
        let at = draft.at;
        let message = Message::User { content: draft.message.clone() };
        let title = title(&draft.message);
        let opened = self.existing.is_none().then(|| RunChange::OpenConversation {
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
        let turns = vec![turns::of_user(draft.origin.run, &message, at)];
        opened
            .into_iter()
            .chain([RunChange::AddTurns { realm, conversation: self.id, turns, title_if_none: title }])
            .collect()
    }
}

/// Checks the size of a context, which is JSON text. The size is limited, because the model reads the whole context in
/// every turn of the conversation.
pub fn check_context_size(context: &str) -> Result<(), String> {
    match context.len() {
        0..=MAX_CONTEXT_BYTES => Ok(()),
        bytes => {
            Err(format!("the context of the conversation must have at most {MAX_CONTEXT_BYTES} bytes, got {bytes}"))
        }
    }
}

/// Returns the shared context with the variables of a request: a variable of the request replaces the shared one, and
/// null removes it.
fn merge_context(mut shared: Map<String, Value>, request: Map<String, Value>) -> Map<String, Value> {
    for (name, value) in request {
        match value {
            Value::Null => drop(shared.shift_remove(&name)),
            value => drop(shared.insert(name, value)),
        }
    }
    shared
}

/// Returns the first line of the message, shortened to the maximum length of a title.
fn title(message: &str) -> Option<String> {
    let line = message.lines().map(str::trim).find(|line| !line.is_empty())?;
    let short: String = line.chars().take(MAX_TITLE_CHARS).collect();
    Some(if short.len() < line.len() { format!("{}…", short.trim_end()) } else { short })
}
