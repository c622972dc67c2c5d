//! The definition of an agent: instructions, a model, tools and limits.

use std::collections::{BTreeMap, BTreeSet};

use semver::Version;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::nullable::{null_as_default, null_as_true};
use crate::tool::{first_version, null_as_first_version};
use crate::{PinnedHandle, RefName, SideEffects, Surface, ToolStatus};

/// An agent as its author wrote it. Absent fields have defaults, most of them set by the server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AgentDefinition {
    /// The reference name of the agent.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub ref_name: RefName,
    /// A name in any form, up to 128 characters, without the restrictions of `refName`. Default: `refName`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The name shown to people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
    /// What the agent does. Agents that may call this agent as a tool see this text too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The version of the definition.
    #[serde(default = "first_version", deserialize_with = "null_as_first_version")]
    #[cfg_attr(feature = "openapi", schema(value_type = String, example = "1.0.0"))]
    pub version: Version,
    /// The life cycle status of this version.
    #[serde(default, deserialize_with = "null_as_default")]
    pub status: ToolStatus,

    /// The model and its parameters.
    #[serde(default, deserialize_with = "null_as_default")]
    pub llm_config: LlmConfig,
    /// The fallback model. It is used when the configured model is unavailable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fallback_model: Option<ModelChoice>,

    /// The system prompt. May contain `{{variables}}` of the request's context.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_prompt: Option<String>,
    /// Prompt fragments that are appended to the system prompt, by name.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub system_prompt_refs: Vec<String>,
    /// The format of an answer.
    #[serde(default, deserialize_with = "null_as_default")]
    pub response_format: AnswerFormat,
    /// The schema of a structured answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Object>))]
    pub response_schema: Option<Value>,

    /// Tools by name, each with an optional version requirement: `search_deals`, `search_deals@^1.2`.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub tool_refs: Vec<String>,
    /// The agent may call all tools of these categories.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub tool_categories: Vec<String>,
    /// The agent may call all tools with at least one of these tags.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub tool_tags: Vec<String>,
    /// Tools that the agent may not call, even if `toolRefs`, a category or a tag selects them.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub excluded_tool_refs: Vec<String>,
    /// The maximum number of tools that the model sees at once; 0 means no maximum.
    #[serde(default, deserialize_with = "null_as_default")]
    pub max_tools_in_context: u32,
    /// Where the model finds the usage notes, hints and examples of the tools.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "ToolUsagePlacement::is_default")]
    pub tool_usage_placement: ToolUsagePlacement,
    /// Agents that this agent may call as tools, each with an optional version requirement: `clerk`, `clerk@^1.2`.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub delegate_agent_refs: Vec<String>,
    /// Libraries by name. A library maps tool names to other tools or versions, written as `tool` or
    /// `tool@requirement`.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub libraries: BTreeMap<String, BTreeMap<String, String>>,
    /// A library and the share of the agent's runs that use it. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub split: Option<TrafficSplit>,
    /// Whether the agent may write workflow definitions.
    #[serde(default, deserialize_with = "null_as_default")]
    pub can_create_workflows: bool,

    /// Limits for iterations, time and concurrent calls.
    #[serde(default, deserialize_with = "null_as_default")]
    pub execution_config: ExecutionConfig,
    /// What the agent remembers of a conversation.
    #[serde(default, deserialize_with = "null_as_default")]
    pub memory_config: MemoryConfig,
    /// Limits on cost and side effects.
    #[serde(default, deserialize_with = "null_as_default")]
    pub policy: AgentPolicy,
    /// The pins of the agent: named outputs that resolve to the envelope of a call.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub pins: Vec<PinnedHandle>,

    /// A further permission that a caller needs, as a security URI. The permission to execute the agent is always
    /// required.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub security_uri: Option<String>,
    /// The service account whose permissions the agent uses. If absent, the agent uses the permissions of the caller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub principal_ref: Option<String>,
    /// Further realms that the agent may act in, besides the realm of its definition.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "BTreeSet::is_empty")]
    pub allowed_realms: BTreeSet<String>,
    /// Whether every write needs approval.
    #[serde(default, deserialize_with = "null_as_default")]
    pub requires_approval: bool,
    /// Further rules that can refuse a call.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub guardrails: Vec<GuardrailConfig>,
    /// Where the agent can be called as a tool: by agents and direct calls, by workflow steps, by MCP clients. Default:
    /// nowhere.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "BTreeSet::is_empty")]
    pub available_as: BTreeSet<Surface>,
    /// Whether the agent can be run.
    #[serde(default = "default_true", deserialize_with = "null_as_true")]
    pub enabled: bool,
}

impl AgentDefinition {
    /// Creates an agent. All other fields have their defaults.
    pub fn new(ref_name: RefName) -> Self {
        Self {
            ref_name,
            name: None,
            display_name: None,
            description: None,
            version: first_version(),
            status: ToolStatus::default(),
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
            tool_usage_placement: ToolUsagePlacement::default(),
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

    /// A description for callers: the first value that is present among description, display name, name and reference
    /// name.
    pub fn summary(&self) -> &str {
        let named = self.description.as_deref().or(self.display_name.as_deref()).or(self.name.as_deref());
        named.unwrap_or_else(|| self.ref_name.as_str())
    }
}

/// A library and the share of an agent's runs that use it, to compare the library with the agent's usual tools.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[cfg_attr(feature = "openapi", schema(as = Split))]
pub struct TrafficSplit {
    /// The name of one of the agent's libraries.
    pub library: String,
    /// The share of runs that the split selects, from 0 to 1. The hash of the run id decides whether a run is
    /// selected.
    pub share: f64,
    /// Which run uses the library: the selected run itself, or a shadow run of it.
    #[serde(default, deserialize_with = "null_as_default")]
    pub mode: SplitMode,
}

/// Which run uses the library of a split: the user's run or a second run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum SplitMode {
    /// The user's run uses the library.
    #[default]
    Live,
    /// A second run uses the library. The second run does not execute writes, and its answer is discarded.
    Shadow,
}

/// Where the model finds the usage notes, hints and examples of the tools of an agent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum ToolUsagePlacement {
    /// In the descriptions of the tools.
    #[default]
    Description,
    /// In the instructions: the system prompt, which some providers call the developer prompt.
    System,
    /// In both.
    Both,
}

impl ToolUsagePlacement {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// The format of an answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum AnswerFormat {
    /// Text.
    #[default]
    Text,
    /// Any JSON.
    Json,
    /// JSON that matches `responseSchema`.
    Structured,
}

/// The model and its parameters. Absent fields have the server's defaults.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LlmConfig {
    /// The model provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// The name of the model. The form `provider/model` also sets the provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The sampling temperature, from 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// The maximum number of output tokens per reply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_output_tokens: Option<u32>,
    /// The maximum number of input tokens per request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_input_tokens: Option<u64>,
    /// The name of the secret with the API key. Default: the key from the environment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_key_secret_ref: Option<String>,
    /// The base URL of the provider, in the form that the vendor's SDK accepts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_url: Option<String>,
    /// Provider-specific parameters.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "Map::is_empty")]
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub extra_params: Map<String, Value>,
}

/// An alternative model: a name or a complete configuration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(untagged)]
pub enum ModelChoice {
    /// `provider/model`, or the name of a model of the agent's provider.
    Named(String),
    /// A complete configuration.
    Configured(Box<LlmConfig>),
}

/// Limits for iterations, time and concurrent calls. Absent fields have the server's defaults.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ExecutionConfig {
    /// The maximum number of model calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_iterations: Option<u32>,
    /// The maximum active time of a run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<u64>,
    /// Whether each journal entry is committed before the next effect. Then a run continues after a crash.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub durable: Option<bool>,
    /// The Restate service that runs the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restate_service_ref: Option<String>,
    /// Whether the model may request several calls at once. Default: true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parallel_tool_calls: Option<bool>,
    /// The maximum number of concurrent calls. Default: 8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_parallel_calls: Option<u32>,
    /// What happens with an interrupted call whose outcome is unknown. Default: the call is reported to the model as
    /// failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_unknown_outcome: Option<UnknownOutcome>,
}

/// What happens with a call whose outcome is unknown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum UnknownOutcome {
    /// The call is reported to the model as failed.
    #[default]
    Model,
    /// A person decides whether the call is repeated or reported to the model as failed.
    Person,
}

/// What an agent remembers of a conversation.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MemoryConfig {
    /// The memory strategy.
    #[serde(default, deserialize_with = "null_as_default")]
    pub strategy: MemoryStrategy,
    /// The number of turns, for `sliding_window` and `summary`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_conversation_turns: Option<u32>,
    /// The maximum number of history tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_context_tokens: Option<u64>,
    /// Whether the conversation is stored. Default: true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub persist_conversation: Option<bool>,
    /// The agent that writes summaries. If absent, the model of this agent writes them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary_agent_ref: Option<String>,
}

/// How much of a conversation an agent remembers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum MemoryStrategy {
    /// Everything.
    #[default]
    Full,
    /// The last turns.
    SlidingWindow,
    /// A summary of earlier turns, and the last turns.
    Summary,
    /// Nothing.
    None,
}

/// Limits on cost and side effects. Absent fields have the server's defaults.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AgentPolicy {
    /// The maximum number of tool calls. Default: 25.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tool_calls: Option<u32>,
    /// The maximum number of tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
    /// The maximum cost in US dollars.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_cost_usd: Option<f64>,
    /// The strongest side effects that a tool of this agent may have. With `reads`, the agent is read-only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub side_effects: Option<SideEffects>,
}

/// A guardrail as the author of an agent writes it: a type with parameters.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct GuardrailConfig {
    /// One of max_cost, no_delete, require_confirmation, content_filter, realm_boundary.
    #[serde(rename = "type")]
    pub kind: String,
    /// The parameters of the guardrail type.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "Map::is_empty")]
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub parameters: Map<String, Value>,
}

/// A piece of a prompt that several agents share.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PromptFragment {
    /// The reference name of the fragment.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub ref_name: RefName,
    /// A name in any form, without the restrictions of `refName`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The purpose of the fragment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The text. May contain `{{variables}}` of the request's context.
    pub content: String,
}

fn default_true() -> bool {
    true
}
