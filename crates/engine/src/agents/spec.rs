//! What a run is given: prompt, tools, limits and policy, put together from the definition, the server and the caller.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;
use toolwright_machine::agent::Spec;
use toolwright_machine::journal::Began;
use toolwright_machine::{Limits, Policy};
use toolwright_models::estimate_request_tokens;
use toolwright_tools::{Allowance, CallContext, Caller, Lent};
use toolwright_types::{
    CallId, ConversationId, Message, ModelRequest, Principal, PrincipalId, RealmScope, RunId, SideEffects, Surface,
    Timestamp, UnknownOutcome,
};

use super::{Agents, CompiledAgent, StartError, Toolset};
use crate::runs::Crew;

/// Who runs what where.
pub(crate) struct Origin {
    pub run: RunId,
    /// Where it acts.
    pub realm: Arc<RealmScope>,
    /// Where it is kept: the realm of whoever asked for it.
    pub home: Arc<RealmScope>,
    /// Who asked for it.
    pub owner: (PrincipalId, String),
    /// On whose authority it acts.
    pub principal: Arc<Principal>,
    pub parent: Option<Parent>,
    pub conversation: Option<ConversationId>,
    pub session: Option<String>,
}

/// The run that a run is a part of.
pub(crate) struct Parent {
    pub began: Arc<Began>,
    /// The call that starts it.
    pub call: CallId,
    /// What it may use of the parent's budget.
    pub allowance: Option<Allowance>,
}

/// A run about to begin.
pub(crate) struct Draft {
    pub origin: Origin,
    pub crew: Crew,
    pub began: Began,
    pub at: Timestamp,
    /// What the user says.
    pub message: String,
}

impl Draft {
    /// About how many tokens the model is told without any history.
    pub fn tokens(&self) -> u64 {
        estimate_request_tokens(&self.began.spec.request)
    }

    /// Puts a history before what the user says now.
    pub fn insert_history(&mut self, history: Vec<Message>, summary: Option<&str>) {
        let messages = Arc::make_mut(&mut self.began.spec.request.messages);
        let last = messages.len().saturating_sub(1);
        messages.splice(last..last, history);
        if let Some(summary) = summary {
            let told = format!("What was said before, in short:\n{summary}");
            match messages.first_mut() {
                Some(Message::System { content }) => {
                    content.push_str("\n\n");
                    content.push_str(&told);
                }
                _ => messages.insert(0, Message::System { content: told }),
            }
        }
    }

    pub fn warn(&mut self, warning: String) {
        self.began.warnings.push(warning);
    }
}

impl Agents {
    /// A run of `agent` on `message`, with no history.
    pub(super) async fn draft(
        &self,
        agent: &Arc<CompiledAgent>,
        origin: Origin,
        context: Map<String, Value>,
        message: String,
    ) -> Result<Draft, StartError> {
        let definition = &agent.document.body;
        let tools = self.0.resolver.tools(agent, &origin.realm, &origin.principal).await?;
        let context = self.with_reference_data(agent, &origin.realm, context).await?;
        let rendered = agent.prompt.render(&context).map_err(|error| StartError::Prompt(error.to_string()))?;
        let system = with_context(rendered.text, &context, &rendered.used);
        let missing =
            rendered.missing.iter().map(|name| format!("the prompt's variable `{name}` is not in the context"));
        let model =
            self.0.models.chosen(&definition.llm_config).map_err(|error| StartError::Model(error.to_string()))?;
        let mut messages: Vec<Message> = Vec::with_capacity(2);
        if !system.is_empty() {
            messages.push(Message::System { content: system });
        }
        messages.push(Message::User { content: message.clone() });
        let mut policy = self.policy(agent, &origin);
        let shown = tools.offered(definition.max_tools_in_context, policy.side_effects, &message);
        policy.enabled_tools = tools.names(&shown).collect();
        let llm = &definition.llm_config;
        let request = ModelRequest {
            model: model.model,
            messages: Arc::new(messages),
            tools: Arc::new(shown),
            temperature: Some(llm.temperature.unwrap_or(self.0.models.defaults().temperature)),
            max_output_tokens: Some(llm.max_output_tokens.unwrap_or(self.0.models.defaults().max_output_tokens)),
            response_format: agent.answer.clone(),
            parallel_tool_calls: definition.execution_config.parallel_tool_calls.unwrap_or(true),
            extra: self.0.models.extra(llm),
            images: BTreeMap::new(),
        };
        let settings = &self.0.settings;
        let mut spec = Spec::new(origin.run, request, policy);
        spec.limits = self.limits(agent, &origin);
        spec.pins.clone_from(&definition.pins);
        spec.max_parallel_calls = definition.execution_config.max_parallel_calls.unwrap_or(spec.max_parallel_calls);
        spec.max_tools = (definition.max_tools_in_context > 0).then_some(definition.max_tools_in_context);
        spec.approval_wait_ms = u64::try_from(settings.approval_wait.as_millis()).ok();
        spec.client_wait_ms = u64::try_from(settings.client_wait.as_millis()).ok();
        let depth = origin.parent.as_ref().map_or(0, |parent| parent.began.depth.saturating_add(1));
        // A part of a run outlives what the whole outlives.
        let durable = definition.execution_config.durable.unwrap_or(settings.durable)
            || origin.parent.as_ref().is_some_and(|parent| parent.began.durable);
        let delegates = tools.members().iter().filter(|member| member.delegate);
        let wanted = tools.members().iter().filter_map(|member| {
            Some((member.tool.definition.ref_name.to_string(), member.wanted.as_ref()?.to_string()))
        });
        let (name, hash) = (definition.ref_name.as_str(), agent.document.meta.content_hash.as_str());
        let mut began = Began {
            owner: origin.owner.1.clone(),
            model: definition.llm_config.clone(),
            fallback: definition.fallback_model.clone(),
            delegates: delegates.map(|member| member.tool.definition.ref_name.to_string()).collect(),
            wanted: wanted.collect(),
            carried: agent.carried.iter().map(|tool| tool.definition.clone()).collect(),
            durable,
            depth,
            parent: origin.parent.as_ref().map(|parent| parent.began.spec.run),
            parent_call: origin.parent.as_ref().map(|parent| parent.call.clone()),
            conversation: origin.conversation,
            session: origin.session.clone(),
            warnings: agent.notes.iter().cloned().chain(missing).collect(),
            ..Began::of(name, hash, origin.principal.name.as_str(), spec)
        };
        Box::pin(self.choose_arm(agent, &origin, &tools, &mut began)).await;
        let crew = self
            .0
            .runs
            .crew(&began, Arc::clone(&origin.realm), Arc::clone(&origin.principal), tools, agent.answer_schema.clone())
            .await;
        Ok(Draft { origin, crew, began, at: self.0.runs.now(), message })
    }

    /// What a run may do; its tools are not known yet.
    pub(super) fn policy(&self, agent: &CompiledAgent, origin: &Origin) -> Policy {
        let definition = &agent.document.body;
        let mut policy = Policy {
            enabled_tools: BTreeSet::new(),
            side_effects: definition.policy.side_effects.unwrap_or(SideEffects::Writes),
            requires_approval: definition.requires_approval,
            confirmed: false,
            unknown_outcome: definition.execution_config.on_unknown_outcome.unwrap_or_default(),
            captures: false,
            realm: origin.realm.name.to_string(),
            guardrails: agent.guardrails.clone(),
        };
        // A part of a run is under the rules of the whole: nobody gets rid of a guardrail by delegating.
        if let Some(whole) = origin.parent.as_ref().map(|parent| &parent.began.spec.policy) {
            policy.side_effects = policy.side_effects.min(whole.side_effects);
            policy.requires_approval |= whole.requires_approval;
            policy.captures |= whole.captures;
            if whole.unknown_outcome == UnknownOutcome::Person {
                policy.unknown_outcome = UnknownOutcome::Person;
            }
            policy.guardrails.extend(whole.guardrails.iter().cloned());
        }
        policy
    }

    pub(super) fn limits(&self, agent: &CompiledAgent, origin: &Origin) -> Limits {
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

/// What every call of a run has in common.
pub(crate) fn call_context(
    began: &Began,
    realm: Arc<RealmScope>,
    principal: Arc<Principal>,
    tools: &Arc<Toolset>,
) -> CallContext {
    CallContext {
        run: began.spec.run,
        realm,
        principal,
        surface: Surface::Tool,
        caller: Caller {
            agent: (!began.direct).then(|| began.agent.clone()),
            conversation: began.conversation.map(|id| id.to_string()),
            session: began.session.clone(),
            durable: began.durable,
            ..Caller::default()
        },
        cancel: CancellationToken::new(),
        depth: began.depth,
        captures: began.spec.policy.captures,
        lent: Lent { toolbox: Some(Arc::clone(tools) as _), ..Lent::default() },
    }
}

/// The prompt, and below it what of the context it does not mention: nothing a caller says is lost.
fn with_context(mut prompt: String, context: &Map<String, Value>, used: &BTreeSet<String>) -> String {
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
