//! Drafts a run: determines its prompt, tools, limits and policy from the agent's definition, the server's settings and
//! the request.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures::future::BoxFuture;
use serde_json::{Map, Value};
use toolwright_machine::agent::RunSpec;
use toolwright_machine::journal::RunStart;
use toolwright_machine::{Limits, Policy};
use toolwright_models::estimate_request_tokens;
use toolwright_tools::Allowance;
use toolwright_types::{
    CallId, ConversationId, CorrelationId, DocumentId as _, Message, ModelRequest, OfferedTool, Owner, Principal,
    RealmScope, RunId, SideEffects, Timestamp, ToolType, ToolUsagePlacement, UnknownOutcome,
};

use super::error::StartError;
use super::prompt_context::{PromptContext, PromptRequest};
use super::{Agents, CompiledAgent};
use toolwright_catalog::{Session, Toolset};
use toolwright_runs::{AnswerSchemas, RunExecutor, RunScope};

/// The identity of a new run: its id, realms, principals and parent.
pub(crate) struct RunOrigin {
    pub run: RunId,
    /// The realm in which the run acts.
    pub realm: Arc<RealmScope>,
    /// The realm that stores the run, which is the realm of the session that started it.
    pub home: Arc<RealmScope>,
    /// The principal who started the run.
    pub owner: (Owner, String),
    /// The principal whose permissions the run has.
    pub principal: Arc<Principal>,
    pub parent: Option<ParentRun>,
    pub conversation: Option<ConversationId>,
    pub session: Option<String>,
    /// The number of Toolwright servers that the request has passed through.
    pub hops: u8,
    /// The correlation id of the request that causes the run.
    pub correlation: Option<CorrelationId>,
}

impl RunOrigin {
    /// Creates the origin of a new run that the session starts, without a parent and without a conversation.
    pub(crate) fn new(session: &Session, realm: Arc<RealmScope>, principal: Arc<Principal>) -> Self {
        Self {
            run: RunId::generate(),
            realm,
            home: Arc::clone(&session.realm),
            owner: (Owner::of(&session.principal), session.principal.name.to_string()),
            principal,
            parent: None,
            conversation: None,
            session: None,
            hops: session.hops,
            correlation: session.correlation.clone(),
        }
    }

    /// Replaces the id of the run, if there is one.
    pub(crate) fn with_id(self, run: Option<RunId>) -> Self {
        Self { run: run.unwrap_or(self.run), ..self }
    }

    /// Adds the rules of the parent's policy to the policy of a child run, so that delegation cannot evade a guardrail.
    pub(crate) fn restrict(&self, policy: &mut Policy) {
        let Some(parent) = self.parent.as_ref().map(|parent| &parent.start.spec.policy) else { return };
        policy.side_effects = policy.side_effects.min(parent.side_effects);
        policy.requires_approval |= parent.requires_approval;
        policy.capture_writes |= parent.capture_writes;
        if parent.unknown_outcome == UnknownOutcome::Person {
            policy.unknown_outcome = UnknownOutcome::Person;
        }
        policy.guardrails.extend(parent.guardrails.iter().cloned());
    }

    /// Returns the realm in which the run acts, the principal that it acts as, and its owner.
    pub(crate) fn scope(&self) -> RunScope {
        RunScope { realm: Arc::clone(&self.realm), principal: Arc::clone(&self.principal), owner: self.owner.0 }
    }
}

/// The run whose call starts a child run.
pub(crate) struct ParentRun {
    pub start: Arc<RunStart>,
    /// The call that starts the child run.
    pub call: CallId,
    /// The part of the parent run's budget that the child run may use.
    pub allowance: Option<Allowance>,
}

/// A run that is ready to start.
pub(crate) struct RunDraft {
    pub origin: RunOrigin,
    pub executor: RunExecutor,
    pub start: RunStart,
    pub at: Timestamp,
    /// The message of the user.
    pub message: String,
}

impl RunDraft {
    /// Estimates the number of tokens of the model request.
    pub(crate) fn tokens(&self) -> u64 {
        estimate_request_tokens(&self.start.spec.request)
    }

    /// Inserts the history before the user's message, and appends the summary to the system message.
    pub(crate) fn insert_history(&mut self, history: Vec<Message>, summary: Option<&str>) {
        let messages = Arc::make_mut(&mut self.start.spec.request.messages);
        let last = messages.len().saturating_sub(1);
        messages.splice(last..last, history);
        if let Some(summary) = summary {
            self.append_to_system(&format!("Summary of the earlier conversation:\n{summary}"));
        }
    }

    /// Appends a paragraph to the system message.
    pub(crate) fn append_to_system(&mut self, text: &str) {
        let messages = Arc::make_mut(&mut self.start.spec.request.messages);
        match messages.first_mut() {
            Some(Message::System { content }) => {
                content.push_str("\n\n");
                content.push_str(text);
            }
            _ => messages.insert(0, Message::System { content: text.to_owned() }),
        }
    }

    pub(crate) fn warn(&mut self, warning: String) {
        self.start.warnings.push(warning);
    }
}

impl Agents {
    /// Drafts a run of `agent` for `message`, without conversation history. The future is boxed, because it is large.
    pub(super) fn draft_run<'a>(
        &'a self,
        agent: &'a Arc<CompiledAgent>,
        origin: RunOrigin,
        context: Map<String, Value>,
        message: String,
    ) -> BoxFuture<'a, Result<Box<RunDraft>, StartError>> {
        Box::pin(self.draft(agent, origin, context, message))
    }

    async fn draft(
        &self,
        agent: &Arc<CompiledAgent>,
        origin: RunOrigin,
        context: Map<String, Value>,
        message: String,
    ) -> Result<Box<RunDraft>, StartError> {
        let definition = &agent.document.body;
        let tools = self.0.resolver.tools(agent, &origin.realm, &origin.principal).await?;
        let request = PromptRequest { agent, tools: &tools, realm: &origin.realm, message: &message, context };
        let PromptContext { variables, appended, warnings: cut } = Box::pin(self.prompt_context(request)).await?;
        let rendered = agent.prompt.render(&variables).map_err(|error| StartError::Prompt(error.to_string()))?;
        let mut system = append_unused_context(rendered.text, &variables, &rendered.used);
        system.push_str(&appended);
        let missing =
            rendered.missing.iter().map(|name| format!("the prompt uses variable `{name}`, which the context lacks"));
        let model =
            self.0.models.model_ref(&definition.llm_config).map_err(|error| StartError::Model(error.to_string()))?;
        let mut policy = self.policy(agent, &origin);
        let mut shown = tools.offered(definition.max_tools_in_context, policy.side_effects, &message);
        let system = place_tool_usage(definition.tool_usage_placement, system, &tools, &mut shown);
        let mut messages: Vec<Message> = Vec::with_capacity(2);
        if !system.is_empty() {
            messages.push(Message::System { content: system });
        }
        messages.push(Message::User { content: message.clone() });
        policy.enabled_tools = tools.names(&shown).collect();
        let llm = &definition.llm_config;
        let request = ModelRequest {
            model: model.model,
            messages: Arc::new(messages),
            tools: Arc::new(shown),
            temperature: Some(llm.temperature.unwrap_or(self.0.models.defaults().temperature)),
            max_output_tokens: Some(llm.max_output_tokens.unwrap_or(self.0.models.defaults().max_output_tokens)),
            response_format: agent.response_format.clone(),
            parallel_tool_calls: definition.execution_config.parallel_tool_calls.unwrap_or(true),
            extra: self.0.models.request_params(llm),
            images: BTreeMap::new(),
        };
        let spec = self.run_spec(agent, &origin, request, policy);
        let depth = origin.parent.as_ref().map_or(0, |parent| parent.start.depth.saturating_add(1));
        // A child run of a durable run is durable too.
        let durable = definition.execution_config.durable.unwrap_or(self.0.settings.durable)
            || origin.parent.as_ref().is_some_and(|parent| parent.start.durable);
        let delegates = tools.members().iter().filter(|member| member.delegate);
        let starts_run = |kind| matches!(kind, ToolType::Agentic | ToolType::Composite);
        let agentic_tools = tools.members().iter().filter(|member| starts_run(member.tool.definition.tool_type));
        let version_requirements = tools.members().iter().filter_map(|member| {
            Some((member.tool.definition.ref_name.to_string(), member.version_req.as_ref()?.to_string()))
        });
        let (name, hash) = (definition.ref_name.as_str(), agent.document.meta.content_hash.as_str());
        let mut start = RunStart {
            agent_version: Some(definition.version.to_string()),
            owner: origin.owner.1.clone(),
            model: definition.llm_config.clone(),
            fallback: definition.fallback_model.clone(),
            delegates: delegates.map(|member| member.tool.definition.ref_name.to_string()).collect(),
            agentic_tools: agentic_tools.map(|member| member.tool.definition.ref_name.to_string()).collect(),
            version_requirements: version_requirements.collect(),
            tool_definitions: agent.inline_tools.iter().map(|tool| tool.definition.clone()).collect(),
            durable,
            depth,
            hops: origin.hops,
            correlation: origin.correlation.clone(),
            parent: origin.parent.as_ref().map(|parent| parent.start.spec.run),
            parent_call: origin.parent.as_ref().map(|parent| parent.call.clone()),
            conversation: origin.conversation,
            session: origin.session.clone(),
            warnings: agent.warnings.iter().cloned().chain(missing).chain(cut).collect(),
            ..RunStart::new(name, hash, origin.principal.name.as_str(), spec)
        };
        Box::pin(self.choose_arm(agent, &origin, &tools, &mut start)).await;
        let answers = AnswerSchemas { answer: agent.response_schema.clone(), plan: None };
        let executor = self.0.runs.new_executor(&start, origin.scope(), tools, answers).await;
        Ok(Box::new(RunDraft { origin, executor, start, at: self.0.runs.now(), message }))
    }

    fn run_spec(&self, agent: &CompiledAgent, origin: &RunOrigin, request: ModelRequest, policy: Policy) -> RunSpec {
        let (definition, settings) = (&agent.document.body, &self.0.settings);
        let mut spec = RunSpec::new(origin.run, request, policy);
        spec.limits = self.limits(agent, origin);
        spec.pins.clone_from(&definition.pins);
        spec.max_parallel_calls = definition.execution_config.max_parallel_calls.unwrap_or(spec.max_parallel_calls);
        spec.max_tools = (definition.max_tools_in_context > 0).then_some(definition.max_tools_in_context);
        spec.approval_wait_ms = u64::try_from(settings.approval_wait.as_millis()).ok();
        spec.client_wait_ms = u64::try_from(settings.client_wait.as_millis()).ok();
        spec
    }

    /// Returns the policy of a run. The caller must fill `enabled_tools`.
    pub(super) fn policy(&self, agent: &CompiledAgent, origin: &RunOrigin) -> Policy {
        let definition = &agent.document.body;
        let mut policy = Policy {
            enabled_tools: BTreeSet::new(),
            side_effects: definition.policy.side_effects.unwrap_or(SideEffects::Writes),
            requires_approval: definition.requires_approval,
            confirmed: false,
            unknown_outcome: definition.execution_config.on_unknown_outcome.unwrap_or_default(),
            capture_writes: false,
            realm: origin.realm.name.to_string(),
            guardrails: agent.guardrails.clone(),
        };
        origin.restrict(&mut policy);
        policy
    }

    pub(super) fn limits(&self, agent: &CompiledAgent, origin: &RunOrigin) -> Limits {
        let limits = agent.limits(self.0.settings.defaults, self.0.settings.platform);
        match origin.parent.as_ref().and_then(|parent| parent.allowance) {
            None => limits,
            Some(allowance) => limits.tightest(Limits {
                max_iterations: u32::MAX,
                max_tool_calls: allowance.tool_calls,
                timeout_ms: allowance.time_ms,
                max_tokens: allowance.tokens,
                max_cost_usd: allowance.cost_usd,
            }),
        }
    }
}

/// Places the usage notes of the offered tools where the agent's definition requires them. Tools that the model finds
/// later by a search have their notes in their descriptions, because the instructions do not change during a run.
fn place_tool_usage(
    placement: ToolUsagePlacement,
    mut prompt: String,
    tools: &Toolset,
    shown: &mut [OfferedTool],
) -> String {
    if placement == ToolUsagePlacement::Description {
        return prompt;
    }
    if let Some(usage) = tools.usage_text(shown) {
        if !prompt.is_empty() {
            prompt.push_str("\n\n");
        }
        prompt.push_str(&usage);
    }
    if placement == ToolUsagePlacement::System {
        tools.shorten_descriptions(shown);
    }
    prompt
}

/// Appends the context variables that the prompt does not use, so that the model sees the whole context.
fn append_unused_context(mut prompt: String, context: &Map<String, Value>, used: &BTreeSet<String>) -> String {
    let rest: Map<String, Value> = context
        .iter()
        .filter(|(name, _)| !used.contains(*name))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    if !rest.is_empty() {
        if !prompt.is_empty() {
            prompt.push_str("\n\n");
        }
        prompt.push_str("Context of this request, as JSON:\n");
        prompt.push_str(&Value::Object(rest).to_string());
    }
    prompt
}
