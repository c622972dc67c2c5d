//! Starts, forks, replays, compares and undoes runs of agents.
//!
//! This crate determines the tools, the prompt and the conversation history of a run. The crate `toolwright_runs`
//! drives the run.

mod agentic;
mod binding;
mod compare;
mod composite;
pub mod conversations;
mod cost;
mod delegate;
mod error;
mod exposed;
mod fork;
mod gram;
pub mod memory;
mod pins;
mod prompt_context;
mod reference_rendering;
mod replay;
mod spec;
mod split;
mod start;
mod summary;
mod trial_list;
mod undo;
mod workflow;
mod writes;

use std::sync::Arc;
use std::time::Duration;

use toolwright_authz::{Action, Resource, SecurityUri};
use toolwright_machine::{Guardrail, Limits};
use toolwright_store::Store;
use toolwright_tools::CompiledTool;
use toolwright_types::{SideEffects, ToolStatus};

use agentic::PlanSchemas;
pub use agentic::{AgenticResult, PromptPreview, PromptReply, agentic_result};
pub use binding::{BindingError, Bindings, LibrarySelection};
use compare::ActiveTrials;
pub use compare::{CompareError, CompareRequest, ComparisonCases, ComparisonReport, LiveTrialReport};
pub use composite::RoutedCall;
pub use conversations::Conversations;
pub use cost::{CostEstimate, CostModel, CostTerm, DelegateCost};
pub use delegate::DelegateBackend;
pub use error::{PatternError, StartError};
pub use fork::{ForkChanges, ForkError, NearestEntries, RepeatedWrite};
pub use gram::{AgentPattern, AgentSource, ExecutionModel};
pub use pins::Pins;
pub use replay::{ReplayChanges, ReplaySource, StartedReplay, TrialError};
pub use start::{AgentRequest, StartedRun, check_context_size};
pub use trial_list::{TrialFilter, TrialItem, TrialPage};
pub use undo::{Compensation, IrreversibleCall, UndoError, UndoPreview};
pub use workflow::{RerunError, RerunSteps, StartedWorkflow, WorkflowRequest};

use toolwright_catalog::{
    Access, CompiledAgent, Identity, ModelRegistry, Resolver, Session, Toolset, Unavailable, execution_target,
};
use toolwright_runs::Runs;

/// Defaults and platform limits of agents.
#[derive(Debug, Clone)]
pub struct AgentSettings {
    /// The limits that apply if the agent's definition does not set them.
    pub defaults: Limits,
    /// Limits that no run may exceed.
    pub platform: Limits,
    /// Whether runs are durable by default.
    pub durable: bool,
    /// How long a run waits for an approval.
    pub approval_wait: Duration,
    /// How long a run waits for the result of a client tool.
    pub client_wait: Duration,
    /// The maximum number of concurrent runs.
    pub max_running: usize,
}

impl Default for AgentSettings {
    fn default() -> Self {
        Self {
            defaults: Limits::default(),
            platform: Limits::platform(),
            durable: false,
            approval_wait: Duration::from_secs(24 * 60 * 60),
            client_wait: Duration::from_secs(60 * 60),
            max_running: 10_000,
        }
    }
}

/// Starts runs of agents. Cheap to clone.
#[derive(Clone)]
pub struct Agents(Arc<Inner>);

/// The services that [`Agents`] needs.
pub struct AgentServices {
    /// Resolves the tools of agents.
    pub resolver: Resolver,
    /// Provides the models of agents.
    pub models: ModelRegistry,
    /// Starts and drives runs.
    pub runs: Runs,
    /// Resolves principals and realms.
    pub identity: Identity,
    /// Checks permissions.
    pub access: Access,
    /// Stores conversations and definitions.
    pub store: Store,
}

struct Inner {
    resolver: Resolver,
    models: ModelRegistry,
    runs: Runs,
    identity: Identity,
    access: Access,
    store: Store,
    settings: AgentSettings,
    trials: ActiveTrials,
    plan_schemas: PlanSchemas,
}

impl Agents {
    /// Creates the service.
    pub fn new(dependencies: AgentServices, settings: AgentSettings) -> Self {
        let AgentServices { resolver, models, runs, identity, access, store } = dependencies;
        let (trials, plan_schemas) = (ActiveTrials::default(), PlanSchemas::default());
        Self(Arc::new(Inner { resolver, models, runs, identity, access, store, settings, trials, plan_schemas }))
    }

    /// Returns the settings.
    pub fn settings(&self) -> &AgentSettings {
        &self.0.settings
    }

    /// Returns the tools of an agent for this session, and the names of the tools that would be offered to its model
    /// for `message`.
    pub async fn tools(&self, session: &Session, agent: &str, message: &str) -> Result<AgentTools, StartError> {
        let agent = self.find(session, agent).await?;
        self.0.access.require(
            session,
            Action::Read,
            Resource::Agent { name: agent.document.meta.ref_name.as_str() },
        )?;
        let principal = self.effective_principal(session, &agent, None).await?;
        let tools = self.0.resolver.tools(&agent, &session.realm, &principal).await?;
        let definition = &agent.document.body;
        let effects = definition.policy.side_effects.unwrap_or(SideEffects::Writes);
        let shown = tools.offered(definition.max_tools_in_context, effects, message);
        let shown = shown.into_iter().map(|tool| tool.name).collect();
        Ok(AgentTools {
            tools,
            shown,
            approval_required: agent.document.body.requires_approval,
            guardrails: agent.guardrails.clone(),
        })
    }

    fn downgrade(&self) -> std::sync::Weak<Inner> {
        Arc::downgrade(&self.0)
    }

    async fn find(&self, session: &Session, agent: &str) -> Result<Arc<CompiledAgent>, StartError> {
        let found = self.0.resolver.catalog.agent(&session.realm, agent).await?;
        match found {
            Some(found) => Ok(found),
            None => Err(self.not_found(session, agent).await?),
        }
    }

    /// Returns the error for an agent or a version that does not exist.
    async fn not_found(&self, session: &Session, agent: &str) -> Result<StartError, StartError> {
        if let Some((name, requirement)) = agent.split_once('@') {
            let versions = self.0.resolver.catalog.agent_versions(&session.realm, name).await?;
            if !versions.is_empty() {
                let available = versions.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
                let (agent, requirement) = (name.to_owned(), requirement.to_owned());
                return Ok(StartError::NoVersion { agent, requirement, available });
            }
        }
        Ok(StartError::UnknownAgent { agent: agent.to_owned(), realm: session.realm.name.to_string() })
    }

    /// Fails if the maximum number of concurrent runs is reached.
    fn check_capacity(&self) -> Result<(), StartError> {
        let running = self.0.runs.running();
        if running < self.0.settings.max_running { Ok(()) } else { Err(StartError::TooManyRuns(running)) }
    }

    /// Checks that the session may run the agent and that the agent is enabled.
    fn check_may_run(&self, session: &Session, agent: &CompiledAgent) -> Result<(), StartError> {
        let definition = &agent.document.body;
        self.0.access.require(session, Action::Execute, Resource::Agent { name: definition.ref_name.as_str() })?;
        // The security URI of the agent requires a second permission, in addition to the permission to run the agent.
        if let Some(uri) = definition.security_uri.as_deref().and_then(|text| text.parse::<SecurityUri>().ok())
            && let Some(target) = execution_target(&uri)
        {
            self.0.access.require(session, Action::Execute, target)?;
        }
        let name = || definition.ref_name.to_string();
        match (definition.enabled, definition.status) {
            (false, _) => Err(StartError::Disabled(name())),
            (true, ToolStatus::Blocked) => {
                Err(StartError::Blocked { agent: name(), version: definition.version.to_string() })
            }
            (true, _) => Ok(()),
        }
    }
}

/// The tools of an agent for one session.
pub struct AgentTools {
    /// All tools of the agent.
    pub tools: Arc<Toolset>,
    /// The names of the tools that are offered to the model.
    pub shown: Vec<String>,
    approval_required: bool,
    guardrails: Vec<Guardrail>,
}

impl AgentTools {
    /// Returns whether a call to this tool needs an approval. The tool or a guardrail may require it, and an agent may
    /// require it for all tools that write.
    pub fn needs_approval(&self, tool: &CompiledTool) -> bool {
        let name = tool.definition.ref_name.as_str();
        tool.definition.requires_confirmation
            || (self.approval_required && tool.effects == SideEffects::Writes)
            || self.guardrails.iter().any(|guardrail| guardrail.requires_confirmation_for(name, tool.effects))
    }
}
