//! The definition of an agent: instructions, a model, the tools it may use and how much it may do.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::tool::{or_default, or_yes};
use crate::{PinnedHandle, RefName, SideEffects, Surface};

/// An agent as its author wrote it. Fields that are absent have defaults, most of them the server's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AgentDefinition {
    /// How the agent is addressed.
    #[schema(value_type = String)]
    pub ref_name: RefName,
    /// Its free name, up to 128 characters; `refName` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
    /// What it does; what another agent is told that may delegate to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,

    /// Which model, and how it is asked.
    #[serde(default, deserialize_with = "or_default")]
    pub llm_config: LlmConfig,
    /// The model to ask when the first cannot be had.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fallback_model: Option<ModelChoice>,

    /// Who the agent is and what it is for. May hold `{{variables}}` of the request's context.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_prompt: Option<String>,
    /// Prompt fragments that follow it, by name.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub system_prompt_refs: Vec<String>,
    /// What an answer is.
    #[serde(default, deserialize_with = "or_default")]
    pub response_format: AnswerFormat,
    /// What a structured answer must fit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub response_schema: Option<Value>,

    /// Tools by name, each with an optional version requirement: `search_deals`, `search_deals@^1.2`.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub tool_refs: Vec<String>,
    /// All tools of these categories.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub tool_categories: Vec<String>,
    /// All tools with one of these tags.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub tool_tags: Vec<String>,
    /// Tools that are left out again.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub excluded_tool_refs: Vec<String>,
    /// How many tools the model is shown at once; 0 is all of them.
    #[serde(default, deserialize_with = "or_default")]
    pub max_tools_in_context: u32,
    /// Agents it may call like tools.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub delegate_agent_refs: Vec<String>,
    /// Implementations that its tools can be bound to, by the name of the library: for each tool another one, or another
    /// version, as `tool` or `tool@requirement`.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub libraries: BTreeMap<String, BTreeMap<String, String>>,
    /// The share of its runs that are tried with one of the libraries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub split: Option<Split>,
    /// Whether it may write workflow definitions.
    #[serde(default, deserialize_with = "or_default")]
    pub can_create_workflows: bool,

    /// Turns, time and parallelism.
    #[serde(default, deserialize_with = "or_default")]
    pub execution_config: ExecutionConfig,
    /// What it remembers of a conversation.
    #[serde(default, deserialize_with = "or_default")]
    pub memory_config: MemoryConfig,
    /// What it may spend and change.
    #[serde(default, deserialize_with = "or_default")]
    pub policy: AgentPolicy,
    /// Named outputs that stay where they are.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub pins: Vec<PinnedHandle>,

    /// A permission needed on top of the derived one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub security_uri: Option<String>,
    /// The service account it acts as; whoever runs it when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub principal_ref: Option<String>,
    /// Realms it may act in beside its own.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "BTreeSet::is_empty")]
    pub allowed_realms: BTreeSet<String>,
    /// Whether a person must agree before it changes anything.
    #[serde(default, deserialize_with = "or_default")]
    pub requires_approval: bool,
    /// Further constraints.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub guardrails: Vec<GuardrailConfig>,
    /// Where it can be called like a tool; nowhere when absent.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "BTreeSet::is_empty")]
    pub available_as: BTreeSet<Surface>,
    /// Whether it can be run at all.
    #[serde(default = "yes", deserialize_with = "or_yes")]
    pub enabled: bool,
}

impl AgentDefinition {
    /// An agent of this name with every default.
    pub fn new(ref_name: RefName) -> Self {
        Self {
            ref_name,
            name: None,
            display_name: None,
            description: None,
            llm_config: LlmConfig::default(),
            fallback_model: None,
            system_prompt: None,
            system_prompt_refs: Vec::new(),
            response_format: AnswerFormat::default(),
            response_schema: None,
            tool_refs: Vec::new(),
            tool_categories: Vec::new(),
            tool_tags: Vec::new(),
            excluded_tool_refs: Vec::new(),
            max_tools_in_context: 0,
            delegate_agent_refs: Vec::new(),
            libraries: BTreeMap::new(),
            split: None,
            can_create_workflows: false,
            execution_config: ExecutionConfig::default(),
            memory_config: MemoryConfig::default(),
            policy: AgentPolicy::default(),
            pins: Vec::new(),
            security_uri: None,
            principal_ref: None,
            allowed_realms: BTreeSet::new(),
            requires_approval: false,
            guardrails: Vec::new(),
            available_as: BTreeSet::new(),
            enabled: true,
        }
    }

    /// What it does, in one line for whoever may call it.
    pub fn summary(&self) -> &str {
        let named = self.description.as_deref().or(self.display_name.as_deref()).or(self.name.as_deref());
        named.unwrap_or_else(|| self.ref_name.as_str())
    }
}

/// A share of an agent's runs that are tried with other implementations of its tools.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Split {
    /// The library, one of the agent's own.
    pub library: String,
    /// How many of the runs, from 0 to 1. Which ones is decided by the hash of a run's id.
    pub share: f64,
    /// Instead of the agent's own implementations, or beside them.
    #[serde(default, deserialize_with = "or_default")]
    pub mode: SplitMode,
}

/// What a run that is tried with a library is to its user.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum SplitMode {
    /// The run itself.
    #[default]
    Live,
    /// A run beside it, whose writes are captured and whose answer nobody gets.
    Shadow,
}

/// What an answer is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum AnswerFormat {
    /// Text.
    #[default]
    Text,
    /// Any JSON.
    Json,
    /// JSON that fits `responseSchema`.
    Structured,
}

/// Which model, and how it is asked. What is absent is the server's default.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LlmConfig {
    /// Who runs the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// Its name there; `provider/model` names both.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// How freely it speaks, from 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// How much it may say at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_output_tokens: Option<u32>,
    /// How much it may be told at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_input_tokens: Option<u64>,
    /// The secret that holds the key; the environment's key when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_key_secret_ref: Option<String>,
    /// Where the provider is reached, as the vendor's own SDK takes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_url: Option<String>,
    /// What only this provider understands.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Map::is_empty")]
    #[schema(value_type = Object)]
    pub extra_params: Map<String, Value>,
}

/// Another model than the first: its name, or all of its configuration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(untagged)]
pub enum ModelChoice {
    /// `provider/model`, or a model of the same provider.
    Named(String),
    /// A configuration of its own.
    Configured(Box<LlmConfig>),
}

/// Turns, time and parallelism. What is absent is the server's default.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ExecutionConfig {
    /// How often the model may be asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_iterations: Option<u32>,
    /// How long a run may be active.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<u64>,
    /// Whether each step is committed before the next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub durable: Option<bool>,
    /// The Restate service that runs it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restate_service_ref: Option<String>,
    /// Whether the model may ask for several calls at once; it may when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parallel_tool_calls: Option<bool>,
    /// How many calls may be under way at once; 8 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_parallel_calls: Option<u32>,
    /// Who hears of a call that was under way when a server was lost, if nobody can say whether it was made; the model
    /// when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_unknown_outcome: Option<UnknownOutcome>,
}

/// Who hears of a call of which nobody knows whether it was made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum UnknownOutcome {
    /// The model, as a failed call.
    #[default]
    Model,
    /// A person, who has it repeated or lets the model know.
    Person,
}

/// What an agent remembers of a conversation.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MemoryConfig {
    /// How much of it.
    #[serde(default, deserialize_with = "or_default")]
    pub strategy: MemoryStrategy,
    /// How many turns, for `sliding_window` and `summary`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_conversation_turns: Option<u32>,
    /// How many tokens of history.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_context_tokens: Option<u64>,
    /// Whether the conversation is kept; it is when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub persist_conversation: Option<bool>,
    /// The agent that summarises; the agent's own model when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary_agent_ref: Option<String>,
}

/// How much an agent remembers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum MemoryStrategy {
    /// Everything.
    #[default]
    Full,
    /// The last turns.
    SlidingWindow,
    /// A summary of what was said, and the last turns.
    Summary,
    /// Nothing.
    None,
}

/// What an agent may spend and change. What is absent is the server's default.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AgentPolicy {
    /// How many tool calls; 25 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tool_calls: Option<u32>,
    /// How many tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
    /// How many dollars.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_cost_usd: Option<f64>,
    /// The strongest effects a tool of it may have; `reads` makes a read-only agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub side_effects: Option<SideEffects>,
}

/// A guardrail as it is written in a definition.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct GuardrailConfig {
    /// One of max_cost, no_delete, require_confirmation, content_filter, realm_boundary.
    #[serde(rename = "type")]
    pub kind: String,
    /// What it needs to know.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Map::is_empty")]
    #[schema(value_type = Object)]
    pub parameters: Map<String, Value>,
}

/// A piece of a prompt that several agents share.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PromptFragment {
    /// How the fragment is addressed.
    #[schema(value_type = String)]
    pub ref_name: RefName,
    /// Its free name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The text. May hold `{{variables}}` of the request's context.
    pub content: String,
}

fn yes() -> bool {
    true
}
