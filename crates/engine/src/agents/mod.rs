//! Agents: what one is made of, which tools it has, what it remembers, and how a run of it begins.

mod binding;
mod compare;
mod compiled;
mod definition;
mod delegate;
mod fork;
mod gram;
pub(crate) mod memory;
mod offer;
mod pins;
mod reference_data;
mod replay;
mod resolve;
mod spec;
mod split;
mod start;
mod summary;
mod toolset;
mod undo;

use std::sync::Arc;
use std::time::Duration;

use toolwright_authz::{Action, Resource, SecurityUri};
use toolwright_machine::{Guardrail, Limits};
use toolwright_store::Store;
use toolwright_tools::CompiledTool;
use toolwright_types::SideEffects;

pub use binding::{BindingError, Bindings, Library};
pub(crate) use compare::UnderWay;
pub use compare::{CompareError, Compared, Comparison, LiveReport, Over};
pub use compiled::CompiledAgent;
pub(crate) use delegate::Delegation;
pub use fork::{Changes, ForkError};
pub use gram::{AgentPattern, AgentSource, ExecutionModel, PatternError};
pub use memory::TurnBody;
pub use pins::Pins;
pub use replay::{Original, Replay, TrialError, With};
pub(crate) use resolve::{Known, Resolver};
pub(crate) use spec::call_context;
pub use start::{AgentRequest, StartError, Started};
pub use toolset::{Member, Toolset};
pub(crate) use toolset::{ToolRef, asks_for, excluded_by_name};
pub use undo::{Kept, Undo, UndoError, Undone};

use crate::access::{Access, Session, execution_target};
use crate::identity::Identity;
use crate::llm::ModelShop;
use crate::runs::Runs;

/// What holds for agents that do not say, and what none may exceed.
#[derive(Debug, Clone)]
pub struct AgentSettings {
    /// Limits of agents that name none.
    pub defaults: Limits,
    /// Limits that hold for every run.
    pub platform: Limits,
    /// Whether runs commit each step, unless the agent says.
    pub durable: bool,
    /// How long a person has to decide.
    pub approval_wait: Duration,
    /// How long a client has to return a result.
    pub client_wait: Duration,
    /// How many runs may be under way at once.
    pub most_running: usize,
}

impl Default for AgentSettings {
    fn default() -> Self {
        Self {
            defaults: Limits::default(),
            platform: Limits::platform(),
            durable: false,
            approval_wait: Duration::from_secs(24 * 60 * 60),
            client_wait: Duration::from_secs(60 * 60),
            most_running: 10_000,
        }
    }
}

/// Runs agents. Cheap to clone.
#[derive(Clone)]
pub struct Agents(Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) resolver: Resolver,
    pub(crate) models: ModelShop,
    pub(crate) runs: Runs,
    pub(crate) identity: Identity,
    pub(crate) access: Access,
    pub(crate) store: Store,
    pub(crate) settings: AgentSettings,
    pub(crate) trials: UnderWay,
}

impl Agents {
    pub(crate) fn new(inner: Inner) -> Self {
        Self(Arc::new(inner))
    }

    /// The tools an agent has for this session, and what its model would be shown for `message`.
    pub async fn tools(&self, session: &Session, agent: &str, message: &str) -> Result<AgentTools, StartError> {
        let agent = self.find(session, agent).await?;
        self.0.access.require(
            session,
            Action::Read,
            Resource::Agent { name: agent.document.meta.ref_name.as_str() },
        )?;
        let (principal, _) = self.effective(session, &agent, None).await?;
        let tools = self.0.resolver.tools(&agent, &session.realm, &principal).await?;
        let definition = &agent.document.body;
        let effects = definition.policy.side_effects.unwrap_or(SideEffects::Writes);
        let shown = tools.offered(definition.max_tools_in_context, effects, message);
        let shown = shown.into_iter().map(|tool| tool.name).collect();
        Ok(AgentTools {
            tools,
            shown,
            asks_first: agent.document.body.requires_approval,
            guardrails: agent.guardrails.clone(),
        })
    }

    pub(crate) fn downgrade(&self) -> std::sync::Weak<Inner> {
        Arc::downgrade(&self.0)
    }

    async fn find(&self, session: &Session, agent: &str) -> Result<Arc<CompiledAgent>, StartError> {
        let found = self.0.resolver.catalog.agent(&session.realm, agent).await?;
        found.ok_or_else(|| StartError::UnknownAgent { agent: agent.to_owned(), realm: session.realm.name.to_string() })
    }

    /// Says no when as many runs are under way as this server allows.
    fn has_room(&self) -> Result<(), StartError> {
        let running = self.0.runs.running();
        if running < self.0.settings.most_running { Ok(()) } else { Err(StartError::TooMany(running)) }
    }

    /// Lets the session run an agent that can be run, or says why not.
    fn may_run(&self, session: &Session, agent: &CompiledAgent) -> Result<(), StartError> {
        let definition = &agent.document.body;
        self.0.access.require(session, Action::Execute, Resource::Agent { name: definition.ref_name.as_str() })?;
        // Its own URI is a second permission, never a replacement of the first.
        if let Some(uri) = definition.security_uri.as_deref().and_then(|text| text.parse::<SecurityUri>().ok())
            && let Some(target) = execution_target(&uri)
        {
            self.0.access.require(session, Action::Execute, target)?;
        }
        if definition.enabled { Ok(()) } else { Err(StartError::Disabled(definition.ref_name.to_string())) }
    }
}

/// What an agent has to work with.
pub struct AgentTools {
    /// All of it.
    pub tools: Arc<Toolset>,
    /// The names of what its model is shown.
    pub shown: Vec<String>,
    asks_first: bool,
    guardrails: Vec<Guardrail>,
}

impl AgentTools {
    /// Whether a person is asked before this tool is called: because of the tool, the agent or a guardrail.
    pub fn needs_approval(&self, tool: &CompiledTool) -> bool {
        let name = tool.definition.ref_name.as_str();
        tool.definition.requires_confirmation
            || (self.asks_first && tool.effects == SideEffects::Writes)
            || self.guardrails.iter().any(|guardrail| guardrail.wants_confirmation(name, tool.effects))
    }
}
