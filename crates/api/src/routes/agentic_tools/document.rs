//! Agentic tools as separate documents: maps the fields of an agentic tool to the fields of the tool definition.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use toolwright_catalog::registry::SavedDefinition;
use toolwright_catalog::{Session, default_prompt};
use toolwright_tools::default_agentic_input;
use toolwright_types::{
    AgenticConfig, ContextConfig, Document, EmbeddedLlmConfig, ExecutionMode, SafetyLimits, Timestamp, ToolAllocation,
    ToolDefinition, ToolType,
};

use crate::problem::Problem;
use crate::tool_views::{ToolViewStatus, ToolViews};

/// The fields that are part of `agentic` in the tool definition.
const AGENTIC_FIELDS: [&str; 9] = [
    "executionMode",
    "embeddedLLMConfig",
    "systemPrompt",
    "toolAllocation",
    "contextConfig",
    "safetyLimits",
    "requiresPlanApproval",
    "durable",
    "metadata",
];

/// The mapping between agentic tools and their tool definitions.
pub(super) const VIEWS: ToolViews = ToolViews {
    noun: "an agentic tool",
    tool_type: ToolType::Agentic,
    config: "agentic",
    config_fields: &AGENTIC_FIELDS,
    computed_fields: &["generatedPrompt"],
    reserved_slugs: &["invoke", "test-prompt"],
};

/// An agentic tool.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgenticToolView {
    /// The id.
    pub id: String,
    /// The id of the realm.
    pub tenant_id: String,
    /// The name for people.
    pub name: String,
    /// The reference name.
    pub slug: String,
    /// What the tool does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Whether the model only plans a fixed sequence, or selects the tools itself.
    pub execution_mode: ExecutionMode,
    /// The embedded model. Absent fields have the defaults of the server.
    #[serde(rename = "embeddedLLMConfig")]
    pub embedded_llm_config: EmbeddedLlmConfig,
    /// The instructions for the model. If the author wrote none, the generated instructions.
    pub system_prompt: String,
    /// Whether `systemPrompt` is generated from the definition.
    #[serde(default)]
    pub generated_prompt: bool,
    /// The tools that the model may use.
    pub tool_allocation: ToolAllocation,
    /// The data that the model sees besides its instructions.
    pub context_config: ContextConfig,
    /// The JSON Schema of the input.
    pub input_schema: Value,
    /// The JSON Schema of the result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Value>,
    /// The description for parent agents, if the author wrote one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_description: Option<String>,
    /// The limits of one invocation, with their defaults.
    pub safety_limits: SafetyLimits,
    /// Whether a person must approve the plan before its first step.
    #[serde(default)]
    pub requires_plan_approval: bool,
    /// Whether an invocation continues after a crash of the server. Default: the setting of the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub durable: Option<bool>,
    /// `draft`, `active` or `disabled`.
    pub status: ToolViewStatus,
    /// Additional data that the author stores with the tool.
    #[schema(value_type = Object)]
    pub metadata: Map<String, Value>,
    /// The version.
    pub version: String,
    /// The number of writes, which is the ETag.
    pub revision: i64,
    /// The principal that created the tool.
    pub created_by: String,
    /// When the tool was created.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
    /// The principal that wrote the tool last.
    pub updated_by: String,
    /// When the tool was written last.
    #[schema(value_type = String, format = DateTime)]
    pub updated_at: Timestamp,
    /// Warnings for the author.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

impl AgenticToolView {
    /// Creates the view of a tool; `None` if the tool is not agentic.
    pub(super) fn new(session: &Session, saved: SavedDefinition<ToolDefinition>) -> Option<Self> {
        let SavedDefinition { document: Document { meta, body: tool }, warnings } = saved;
        let config = AgenticConfig::clone(tool.agentic.as_deref()?);
        let generated = config.system_prompt.is_none();
        let prompt = config.system_prompt.clone().unwrap_or_else(|| default_prompt(&tool, &config));
        let has_input = tool.input_json_schema.is_some() || tool.input_schema.is_some();
        let has_output = tool.output_json_schema.is_some() || tool.output_schema.is_some();
        let AgenticConfig { execution_mode, embedded_llm_config, tool_allocation, context_config, .. } = config;
        Some(Self {
            id: meta.id,
            tenant_id: session.realm.realm.to_string(),
            name: tool.display_name().to_owned(),
            slug: tool.ref_name.to_string(),
            description: tool.description.clone(),
            execution_mode,
            safety_limits: config.safety_limits.with_defaults(&embedded_llm_config),
            embedded_llm_config: with_defaults(embedded_llm_config),
            system_prompt: prompt,
            generated_prompt: generated,
            tool_allocation,
            context_config,
            input_schema: if has_input { tool.effective_input_schema() } else { default_agentic_input() },
            output_schema: has_output.then(|| tool.effective_output_schema()),
            tool_description: tool.long_description.clone(),
            requires_plan_approval: config.requires_plan_approval,
            durable: config.durable,
            status: ToolViewStatus::of(&tool),
            metadata: config.metadata,
            version: tool.version.to_string(),
            revision: meta.revision,
            created_by: meta.created_by,
            created_at: meta.created_at,
            updated_by: meta.updated_by,
            updated_at: meta.updated_at,
            warnings,
        })
    }
}

fn with_defaults(config: EmbeddedLlmConfig) -> EmbeddedLlmConfig {
    EmbeddedLlmConfig { temperature: Some(config.temperature()), max_tokens: Some(config.max_tokens()), ..config }
}

/// Converts a merge patch of an agentic tool to a merge patch of the tool definition.
pub(super) fn tool_patch(current: &ToolDefinition, mut patch: Value) -> Result<Value, Problem> {
    // A client may read a tool, change it and send it back. A generated prompt must then remain generated.
    if let Some(config) = current.agentic.as_deref().filter(|config| config.system_prompt.is_none())
        && let Some(prompt) = patch.get_mut("systemPrompt")
        && prompt.as_str() == Some(default_prompt(current, config).as_str())
    {
        *prompt = Value::Null;
    }
    if let Some(Value::Object(allocation)) = patch.get_mut("toolAllocation") {
        // The allocation is replaced as a whole. Otherwise a change of the mode would keep the tools of the other mode.
        for field in ["mode", "sequence", "availableTools"] {
            allocation.entry(field).or_insert(Value::Null);
        }
    }
    VIEWS.patch(patch).map(Value::Object)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn patch_of_the_tool_allocation_replaces_all_of_its_fields() {
        let current = ToolDefinition::new("m".parse().unwrap(), ToolType::Agentic);
        let patch = json!({ "toolAllocation": { "availableTools": [] }, "systemPrompt": "p" });
        let patch = tool_patch(&current, patch).unwrap();
        let allocation = json!({ "availableTools": [], "mode": null, "sequence": null });
        assert_eq!(patch, json!({ "agentic": { "toolAllocation": allocation, "systemPrompt": "p" } }));
    }
}
