//! The configuration of an agentic tool: a tool with an embedded model.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::nullable::null_as_default;

/// How an agentic tool fulfils its task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AgenticConfig {
    /// Whether the model only plans the parameters of a fixed sequence, or selects the tools itself.
    pub execution_mode: ExecutionMode,
    /// The embedded model.
    #[serde(rename = "embeddedLLMConfig", default, deserialize_with = "null_as_default")]
    pub embedded_llm_config: EmbeddedLlmConfig,
    /// The instructions for the model. May contain `{{integration_schema}}`, `{{reference_data}}`, `{{user_task}}`,
    /// `{{available_tools}}` and `{{execution_history}}`. If absent, the server generates them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_prompt: Option<String>,
    /// The tools that the model may use.
    #[serde(default, deserialize_with = "null_as_default")]
    pub tool_allocation: ToolAllocation,
    /// The data that the model sees besides its instructions.
    #[serde(default, deserialize_with = "null_as_default")]
    pub context_config: ContextConfig,
    /// The limits of one invocation.
    #[serde(default, deserialize_with = "null_as_default")]
    pub safety_limits: SafetyLimits,
    /// Whether a person must approve the plan before its first step. Only for the deterministic mode.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "std::ops::Not::not")]
    pub requires_plan_approval: bool,
    /// Whether an invocation continues after a crash of the server. Default: the setting of the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub durable: Option<bool>,
    /// Data of the author. The server does not interpret it.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "Map::is_empty")]
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub metadata: Map<String, Value>,
}

/// How the model of an agentic tool is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum ExecutionMode {
    /// The model writes the parameters of a fixed sequence of tools once, and formats the result once.
    Deterministic,
    /// The model selects the tools and reviews each result.
    Agentic,
}

impl ExecutionMode {
    /// The name of the mode.
    pub fn as_str(self) -> &'static str {
        match self {
            ExecutionMode::Deterministic => "deterministic",
            ExecutionMode::Agentic => "agentic",
        }
    }
}

/// The embedded model of an agentic tool. Absent fields have defaults.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EmbeddedLlmConfig {
    /// The model provider: anthropic, openai, google or another that the server knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// The name of the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The sampling temperature, from 0 to 1. Default: 0.2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// The maximum number of output tokens of a reply, from 1000 to 8000. Default: 4000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u32>,
    /// Nucleus sampling, from 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub top_p: Option<f64>,
    /// Penalty for frequent tokens, from -2 to 2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frequency_penalty: Option<f64>,
    /// Penalty for repeated tokens, from -2 to 2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub presence_penalty: Option<f64>,
    /// The base URL of the provider, in the form that the vendor's SDK accepts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_url: Option<String>,
    /// The name of the secret with the API key. Default: the key from the environment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_key_secret_ref: Option<String>,
    /// Further parameters of the provider.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "Map::is_empty")]
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub extra_params: Map<String, Value>,
}

/// The tools of an agentic tool: a sequence in the deterministic mode, a selection in the agentic mode.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ToolAllocation {
    /// The execution mode again. If present, it must equal `executionMode`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<ExecutionMode>,
    /// The tools in the order of their execution.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub sequence: Vec<SequenceEntry>,
    /// The tools that the model may select.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub available_tools: Vec<AvailableTool>,
}

/// One tool of a sequence.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SequenceEntry {
    /// The number of the step. Numbers start at 1 and increase.
    pub step: u32,
    /// The id of the tool. Either `actionId` or `actionSlug` is required.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action_id: Option<String>,
    /// The name of the tool, with an optional version requirement: `hubspot/search-deals@^1.2`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action_slug: Option<String>,
    /// The purpose of the step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub purpose: Option<String>,
}

/// A tool that the model may select.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AvailableTool {
    /// The id of the tool. Either `actionId` or `actionSlug` is required.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action_id: Option<String>,
    /// The name of the tool, with an optional version requirement: `google/search@^1.2`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action_slug: Option<String>,
    /// A hint for the model. The model prefers tools with a higher number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,
}

impl SequenceEntry {
    /// The reference to the tool: its name, otherwise its id.
    pub fn tool(&self) -> Option<&str> {
        self.action_slug.as_deref().or(self.action_id.as_deref())
    }
}

impl AvailableTool {
    /// The reference to the tool: its name, otherwise its id.
    pub fn tool(&self) -> Option<&str> {
        self.action_slug.as_deref().or(self.action_id.as_deref())
    }
}

/// The data that the model of an agentic tool sees besides its instructions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ContextConfig {
    /// Whether the model sees the schemas of the tools that it may use. Default: true.
    #[serde(default = "default_true", deserialize_with = "crate::nullable::null_as_true")]
    pub include_schemas: bool,
    /// The reference data that the model sees.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub reference_data: Vec<ReferenceDataSelection>,
    /// Documentation and constraints.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub documentation: Option<String>,
    /// Examples of successful tasks or queries.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub example_queries: Vec<String>,
    /// The maximum number of tokens of all this data. Longer data is cut, and the run has a warning. Default: 16000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u32>,
}

impl Default for ContextConfig {
    fn default() -> Self {
        Self {
            include_schemas: true,
            reference_data: Vec::new(),
            documentation: None,
            example_queries: Vec::new(),
            max_tokens: None,
        }
    }
}

/// Reference data of one provider.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReferenceDataSelection {
    /// The name of the provider.
    pub integration_id: String,
    /// The types of data, such as `users` or `deal_stages`.
    pub data_types: Vec<String>,
}

/// The limits of one invocation. Absent fields have defaults.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SafetyLimits {
    /// The maximum number of steps, from 1 to 100. A step is one entry of the sequence or one decision of the model.
    /// Default: 10.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_steps: Option<u32>,
    /// The maximum time in seconds, from 1 to 3600. `timeoutSeconds` is another name for it. Default: 300.
    #[serde(default, alias = "timeoutSeconds", skip_serializing_if = "Option::is_none")]
    pub max_duration_seconds: Option<u32>,
    /// The maximum number of output tokens of a reply. Default: `maxTokens` of the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens_per_call: Option<u32>,
    /// The maximum cost in US dollars: of the model calls, and of the tools that have a price. Default: 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_total_cost: Option<f64>,
    /// The maximum number of items that a step collects or processes, from 1 to 10000. Default: 500.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_items: Option<u32>,
}

impl EmbeddedLlmConfig {
    /// The sampling temperature.
    pub fn temperature(&self) -> f64 {
        self.temperature.unwrap_or(0.2)
    }

    /// The maximum number of output tokens of a reply.
    pub fn max_tokens(&self) -> u32 {
        self.max_tokens.unwrap_or(4000)
    }
}

impl SafetyLimits {
    /// The limits with a value for each absent field.
    pub fn with_defaults(&self, model: &EmbeddedLlmConfig) -> Self {
        Self {
            max_steps: Some(self.steps()),
            max_duration_seconds: Some(self.seconds()),
            max_tokens_per_call: Some(self.tokens_per_call(model)),
            max_total_cost: Some(self.cost_usd()),
            max_items: Some(self.items()),
        }
    }

    /// The maximum number of output tokens of a reply: the lower one of this limit and the limit of the model.
    pub fn tokens_per_call(&self, model: &EmbeddedLlmConfig) -> u32 {
        self.max_tokens_per_call.unwrap_or(u32::MAX).min(model.max_tokens())
    }

    /// The maximum number of steps.
    pub fn steps(&self) -> u32 {
        self.max_steps.unwrap_or(10)
    }

    /// The maximum time in seconds.
    pub fn seconds(&self) -> u32 {
        self.max_duration_seconds.unwrap_or(300)
    }

    /// The maximum cost in US dollars.
    pub fn cost_usd(&self) -> f64 {
        self.max_total_cost.unwrap_or(1.0)
    }

    /// The maximum number of items of a step.
    pub fn items(&self) -> u32 {
        self.max_items.unwrap_or(500)
    }
}

impl AgenticConfig {
    /// The references to the allocated tools, with the path of each in the configuration.
    pub fn allocated_tools(&self) -> impl Iterator<Item = (String, Option<&str>)> {
        let allocation = &self.tool_allocation;
        let sequence = allocation.sequence.iter().enumerate();
        let sequence = sequence.map(|(at, entry)| (format!("/toolAllocation/sequence/{at}"), entry.tool()));
        let available = allocation.available_tools.iter().enumerate();
        let available = available.map(|(at, entry)| (format!("/toolAllocation/availableTools/{at}"), entry.tool()));
        sequence.chain(available)
    }
}

fn default_true() -> bool {
    true
}
