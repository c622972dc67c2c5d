//! Agentic tools as separate documents: maps the fields of an agentic tool to the fields of the tool definition.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use toolwright_catalog::Session;
use toolwright_catalog::registry::{Registry, RegistryError};
use toolwright_catalog::{default_prompt, registry::SavedDefinition};
use toolwright_tools::{DefinitionIssue, Issues, default_agentic_input};
use toolwright_types::{
    AgenticConfig, ContextConfig, Document, EmbeddedLlmConfig, ExecutionMode, SafetyLimits, Timestamp, ToolAllocation,
    ToolDefinition, ToolStatus, ToolType,
};

use crate::problem::{Code, Problem};

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

/// The fields that have another name in the tool definition. The first name is that of the agentic tool.
const RENAMED_FIELDS: [(&str, &str); 4] = [
    ("slug", "refName"),
    ("inputSchema", "inputJsonSchema"),
    ("outputSchema", "outputJsonSchema"),
    ("toolDescription", "longDescription"),
];

/// Fields of the view that the server computes. A client may send them back.
const COMPUTED_FIELDS: [&str; 2] = ["tenantId", "generatedPrompt"];

/// The names that an agentic tool must not have, because routes under `/api/v1/agentic-tools` use them.
const RESERVED_SLUGS: [&str; 2] = ["invoke", "test-prompt"];

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
    pub status: AgenticToolStatus,
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

/// The status of an agentic tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum AgenticToolStatus {
    /// The tool is being written. Only calls that name its exact version find it.
    Draft,
    /// The tool can be called.
    Active,
    /// The tool cannot be called.
    Disabled,
}

impl AgenticToolStatus {
    fn of(tool: &ToolDefinition) -> Self {
        match (tool.enabled, tool.status) {
            (false, _) | (_, ToolStatus::Blocked) => Self::Disabled,
            (true, ToolStatus::Draft) => Self::Draft,
            (true, ToolStatus::Active | ToolStatus::Deprecated) => Self::Active,
        }
    }
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
            status: AgenticToolStatus::of(&tool),
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

/// Returns the agentic tool with this name or id.
pub(super) async fn find(
    registry: &Registry,
    session: &Session,
    reference: &str,
) -> Result<Document<ToolDefinition>, Problem> {
    let document = registry.get::<ToolDefinition>(session, reference, None).await;
    match document {
        Ok(document) if document.body.agentic.is_some() => Ok(document),
        Ok(_) | Err(RegistryError::NotFound { .. }) => Err(not_found(session, reference)),
        Err(error) => Err(problem(error)),
    }
}

pub(super) fn not_found(session: &Session, reference: &str) -> Problem {
    Problem::new(Code::NotFound, format!("there is no agentic tool `{reference}` in realm `{}`", session.realm.name))
}

/// Converts the body of a new agentic tool to the body of a new tool definition.
pub(super) fn new_tool(body: Value) -> Result<Value, Problem> {
    let Value::Object(mut fields) = body else { return Err(not_an_object()) };
    if fields.get("slug").is_none_or(Value::is_null) && fields.get("refName").is_none_or(Value::is_null) {
        let name = fields.get("name").and_then(Value::as_str);
        let name = name.ok_or_else(|| Problem::invalid("/name", "is required"))?;
        fields.insert("slug".into(), json!(slug(name)));
    }
    let slug = fields.get("slug").or_else(|| fields.get("refName")).and_then(Value::as_str);
    if let Some(reserved) = slug.filter(|slug| RESERVED_SLUGS.contains(slug)) {
        return Err(Problem::invalid("/slug", format!("must not be `{reserved}`, which is a route")));
    }
    let mut tool = tool_fields(fields)?;
    tool.insert("toolType".into(), json!("AGENTIC"));
    tool.entry("agentic").or_insert_with(|| json!({}));
    Ok(Value::Object(tool))
}

/// Converts a merge patch of an agentic tool to a merge patch of the tool definition.
pub(super) fn tool_patch(patch: Value) -> Result<Value, Problem> {
    let Value::Object(mut fields) = patch else { return Err(not_an_object()) };
    if let Some(Value::Object(allocation)) = fields.get_mut("toolAllocation") {
        // The allocation is replaced as a whole. Otherwise a change of the mode would keep the tools of the other mode.
        for field in ["mode", "sequence", "availableTools"] {
            allocation.entry(field).or_insert(Value::Null);
        }
    }
    Ok(Value::Object(tool_fields(fields)?))
}

/// Moves the fields of an agentic tool to their places in the tool definition.
fn tool_fields(fields: Map<String, Value>) -> Result<Map<String, Value>, Problem> {
    let (mut tool, mut agentic) = (Map::new(), Map::new());
    for (name, value) in fields {
        match name.as_str() {
            field if AGENTIC_FIELDS.contains(&field) => drop(agentic.insert(name, value)),
            field if COMPUTED_FIELDS.contains(&field) => {}
            "status" => set_status(&mut tool, &value)?,
            "toolType" if value == json!("AGENTIC") => {}
            "toolType" => return Err(Problem::invalid("/toolType", "must be `AGENTIC` or absent")),
            "agentic" => return Err(Problem::invalid("/agentic", "is not a field here; send its fields directly")),
            "inputSchema" if value == json!({}) => drop(tool.insert("inputJsonSchema".into(), Value::Null)),
            field => {
                let renamed = RENAMED_FIELDS.iter().find(|(view, _)| *view == field);
                let target = renamed.map_or_else(|| name.clone(), |(_, stored)| (*stored).to_owned());
                tool.insert(target, value);
            }
        }
    }
    if !agentic.is_empty() {
        tool.insert("agentic".into(), Value::Object(agentic));
    }
    Ok(tool)
}

fn set_status(tool: &mut Map<String, Value>, status: &Value) -> Result<(), Problem> {
    let (status, enabled) = match status.as_str() {
        Some("draft") => (json!("draft"), true),
        Some("active") => (json!("active"), true),
        Some("disabled") => (Value::Null, false),
        _ if status.is_null() => return Ok(()),
        _ => {
            let rule = "must be `draft`, `active` or `disabled`";
            return Err(Problem::invalid("/status", format!("{rule}, got {status}")));
        }
    };
    if !status.is_null() {
        tool.insert("status".into(), status);
    }
    tool.insert("enabled".into(), json!(enabled));
    Ok(())
}

/// Returns the reference name for a name: lower-case words with hyphens.
fn slug(name: &str) -> String {
    let lower = name.to_lowercase();
    let words = lower.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join("-")
}

fn not_an_object() -> Problem {
    Problem::invalid("", "an agentic tool must be a JSON object")
}

/// Returns the problem for an error of the registry. Its paths refer to fields of the agentic tool.
pub(super) fn problem(error: RegistryError) -> Problem {
    match error {
        RegistryError::Invalid(Issues(issues)) => {
            let issues = issues.into_iter();
            let issues = issues.map(|issue| DefinitionIssue { path: view_path(&issue.path), ..issue }).collect();
            RegistryError::Invalid(Issues(issues)).into()
        }
        other => other.into(),
    }
}

/// Converts a path in the tool definition to the path in the agentic tool.
fn view_path(path: &str) -> String {
    if let Some(rest) = path.strip_prefix("/agentic/") {
        return format!("/{rest}");
    }
    for (view, stored) in RENAMED_FIELDS {
        match path.strip_prefix('/').and_then(|path| path.strip_prefix(stored)) {
            Some(rest) if rest.is_empty() || rest.starts_with('/') => return format!("/{view}{rest}"),
            _ => {}
        }
    }
    path.to_owned()
}

/// The value of `toolType` by which lists of agentic tools are filtered.
pub(super) fn tool_type() -> Value {
    serde_json::to_value(ToolType::Agentic).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slug_consists_of_the_lower_case_words_of_the_name() {
        assert_eq!(slug("HubSpot Deal Manager (v2)"), "hubspot-deal-manager-v2");
        assert_eq!(slug("Überall"), "berall");
    }

    #[test]
    fn agentic_tool_fields_are_converted_to_tool_definition_fields() {
        let body = json!({ "name": "A B", "systemPrompt": "p", "inputSchema": {}, "status": "disabled",
            "toolDescription": "d", "category": "crm", "tenantId": "t" });
        let expected = json!({ "name": "A B", "refName": "a-b", "inputJsonSchema": null, "enabled": false,
            "longDescription": "d", "category": "crm", "agentic": { "systemPrompt": "p" }, "toolType": "AGENTIC" });
        assert_eq!(new_tool(body).unwrap(), expected);
        let patch = tool_patch(json!({ "toolAllocation": { "availableTools": [] }, "status": "draft" })).unwrap();
        let allocation = json!({ "availableTools": [], "mode": null, "sequence": null });
        assert_eq!(patch, json!({ "status": "draft", "enabled": true, "agentic": { "toolAllocation": allocation } }));
    }

    #[test]
    fn tool_definition_error_paths_are_converted_to_agentic_tool_paths() {
        for (stored, view) in [
            ("/agentic/systemPrompt", "/systemPrompt"),
            ("/inputJsonSchema/type", "/inputSchema/type"),
            ("/refName", "/slug"),
            ("/category", "/category"),
        ] {
            assert_eq!(view_path(stored), view);
        }
    }
}
