//! The agent inside an agentic tool. Its definition is derived from the definition of the tool, so that an agentic tool
//! starts runs like an agent.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use toolwright_tools::{CompiledTool, Issues};
use toolwright_types::{
    AgentDefinition, AgenticConfig, AnswerFormat, Document, DocumentMeta, EmbeddedLlmConfig, ExecutionMode, LlmConfig,
    RealmScope, SafetyLimits, ToolDefinition,
};

use crate::Unavailable;
use crate::agent::CompiledAgent;
use crate::catalog::Catalog;

/// The number of tool calls that the model of an agentic tool may request for each of its steps.
const TOOL_CALLS_PER_STEP: u32 = 8;
/// The number of tool calls that the model of an agentic tool with few steps may request in one run.
const MIN_TOOL_CALLS: u32 = 50;

impl Catalog {
    /// Returns the agent inside an agentic tool; `None` if the tool has no embedded model.
    pub async fn embedded_agent(
        &self,
        realm: &RealmScope,
        tool: &CompiledTool,
    ) -> Result<Option<Arc<CompiledAgent>>, Unavailable> {
        let Some(config) = &tool.definition.agentic else { return Ok(None) };
        let key = format!("agentic/{}/{}", tool.id, tool.content_hash);
        // An unsaved tool has no content hash.
        let saved = !tool.content_hash.is_empty();
        if let Some(found) = self.cached_agent(realm, &key).filter(|_| saved) {
            return Ok(Some(found));
        }
        let mut document =
            Document::unsaved(tool.definition.ref_name.clone(), embedded_agent(&tool.definition, config));
        document.meta = DocumentMeta { id: tool.id.clone(), content_hash: tool.content_hash.clone(), ..document.meta };
        let compiled = self.compile_agent(realm, document).await?;
        let (mut agent, _) = compiled
            .map_err(|issues: Issues| Unavailable::new("a stored agentic tool is not valid in this release", issues))?;
        agent.context = Some(config.context_config.clone());
        if config.execution_mode == ExecutionMode::Agentic && config.system_prompt.is_some() {
            // The request to the model already contains the schemas of the tools. The prompt repeats the schemas only
            // if its text refers to them.
            agent.context.iter_mut().for_each(|context| context.include_schemas = false);
        }
        Ok(Some(if saved { self.cache_agent(realm, key, agent) } else { Arc::new(agent) }))
    }
}

/// Returns the definition of the agent inside an agentic tool.
pub(crate) fn embedded_agent(tool: &ToolDefinition, config: &AgenticConfig) -> AgentDefinition {
    let limits = &config.safety_limits;
    let mut agent = AgentDefinition::new(tool.ref_name.clone());
    agent.name.clone_from(&tool.name);
    agent.description.clone_from(&tool.description);
    agent.version = tool.version.clone();
    agent.llm_config = llm_config(&config.embedded_llm_config, limits);
    agent.system_prompt = Some(config.system_prompt.clone().unwrap_or_else(|| default_prompt(tool, config)));
    if tool.output_json_schema.is_some() || tool.output_schema.is_some() {
        agent.response_format = AnswerFormat::Structured;
        agent.response_schema = Some(tool.effective_output_schema());
    }
    for (_, tool) in config.allocated_tools() {
        let Some(tool) = tool.map(str::to_owned) else { continue };
        if !agent.tool_refs.contains(&tool) {
            agent.tool_refs.push(tool);
        }
    }
    agent.execution_config.max_iterations = Some(limits.steps());
    agent.execution_config.timeout_seconds = Some(u64::from(limits.seconds()));
    agent.execution_config.durable = config.durable;
    agent.policy.max_cost_usd = Some(limits.cost_usd());
    agent.policy.max_tool_calls = Some(limits.steps().saturating_mul(TOOL_CALLS_PER_STEP).max(MIN_TOOL_CALLS));
    agent.policy.side_effects = Some(tool.effects());
    agent.memory_config.persist_conversation = Some(false);
    agent
}

fn llm_config(config: &EmbeddedLlmConfig, limits: &SafetyLimits) -> LlmConfig {
    let penalties = [
        ("top_p", config.top_p),
        ("frequency_penalty", config.frequency_penalty),
        ("presence_penalty", config.presence_penalty),
    ];
    let penalties = penalties.into_iter().filter_map(|(name, value)| Some((name.to_owned(), json!(value?))));
    let extra: Map<String, Value> = config.extra_params.clone().into_iter().chain(penalties).collect();
    LlmConfig {
        provider: config.provider.clone(),
        model: config.model.clone(),
        temperature: Some(config.temperature()),
        max_output_tokens: Some(limits.tokens_per_call(config)),
        max_input_tokens: None,
        api_key_secret_ref: config.api_key_secret_ref.clone(),
        base_url: config.base_url.clone(),
        extra_params: extra,
    }
}

/// Generates a system prompt from the purpose, the mode and the tools of an agentic tool. It is used if the definition
/// has no system prompt.
pub fn default_prompt(tool: &ToolDefinition, config: &AgenticConfig) -> String {
    let purpose = tool.description_or_name().trim_end_matches('.');
    let mut prompt =
        format!("You are the embedded assistant of the tool \"{}\". Its purpose: {purpose}.\n", tool.display_name());
    match config.execution_mode {
        ExecutionMode::Deterministic => {
            prompt.push_str("\n# Operations, in the order of their execution\n");
            for entry in &config.tool_allocation.sequence {
                let purpose = entry.purpose.as_deref().map(|text| format!(" - {text}")).unwrap_or_default();
                prompt.push_str(&format!("{}. {}{purpose}\n", entry.step, entry.tool().unwrap_or_default()));
            }
        }
        ExecutionMode::Agentic => {
            prompt.push_str("\n# Tools that you may use\n{{available_tools}}\n");
        }
    }
    if config.context_config.include_schemas {
        prompt.push_str("\n# Schemas of the operations\n{{integration_schema}}\n");
    }
    for data_type in config.context_config.reference_data.iter().flat_map(|selected| &selected.data_types) {
        prompt.push_str(&format!("\n# Valid values of {data_type}\n{{{{reference_data.{data_type}}}}}\n"));
    }
    prompt.push_str("\n# Task\n{{user_task}}\n\n# Instructions\n");
    let instructions: &[&str] = match config.execution_mode {
        ExecutionMode::Deterministic => &[
            "Find out what the task asks for: which records, and which change.",
            "Use the field names and values of the schemas and of the reference data only. If a name matches nothing, \
             use the closest valid value and say so.",
            "Plan the parameters of the operations. Read all pages of a list before you change its records.",
            "In the final response, summarize what was done, with counts, and mention every error.",
        ],
        ExecutionMode::Agentic => &[
            "Find out which information or change the task asks for.",
            "Select the most suitable tool and call it with parameters that match its schema.",
            "Review each result. If a call fails, correct the parameters or use another tool.",
            "Stop when the task is done. Give a complete answer and name your sources.",
        ],
    };
    for (number, instruction) in instructions.iter().enumerate() {
        prompt.push_str(&format!("{}. {instruction}\n", number + 1));
    }
    prompt
}
