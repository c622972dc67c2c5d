//! Contains the tools that a server lists, and checks that they match the definitions that a user accepted.
//!
//! The definition of an imported tool contains a fingerprint: a hash of the tool's name, description and schemas. If
//! the server later changes one of them, calls are rejected until a user accepts the change. Otherwise a model would
//! act on a description that no user has reviewed.

use std::collections::BTreeMap;

use rmcp::model::Tool;
use serde_json::{Value, json};
use toolwright_tools::ToolFailure;
use toolwright_types::json::hex_digest;
use toolwright_types::{ErrorCode, ToolDefinition, ToolError};

/// The category of imported tools.
pub(super) const IMPORT_CATEGORY: &str = "mcp";
/// The maximum number of tools of one server.
pub(super) const MAX_TOOLS: usize = 2_000;

/// The tools of a server.
pub(crate) struct Listing {
    /// The tools by name.
    tools: BTreeMap<String, Tool>,
    /// The deployment of the server, if it is a Toolwright server.
    deployment: Option<String>,
}

impl Listing {
    /// Creates a listing of at most [`MAX_TOOLS`] tools.
    pub(super) fn new(tools: Vec<Tool>, deployment: Option<String>) -> Result<Self, ToolFailure> {
        if tools.len() > MAX_TOOLS {
            let message = format!("the server must list at most {MAX_TOOLS} tools, got {}", tools.len());
            return Err(ToolFailure::fatal(ErrorCode::ProviderError, message).reason("too_many_tools"));
        }
        let tools = tools.into_iter().map(|tool| (tool.name.to_string(), tool)).collect();
        Ok(Self { tools, deployment })
    }

    /// Checks that the server still lists the tool with the accepted fingerprint.
    pub(super) fn check_pin(&self, name: &str, definition: &ToolDefinition) -> Result<(), ToolFailure> {
        let Some(tool) = self.tools.get(name) else {
            let message = format!("the server no longer lists tool `{name}`");
            return Err(ToolFailure::fatal(ErrorCode::ProviderError, message).reason("unknown_upstream_tool"));
        };
        let now = fingerprint(tool);
        match definition.invocation.fingerprint.as_deref() {
            Some(pinned) if pinned != now => {
                let message = format!(
                    "the server's definition of `{name}` has changed since it was accepted; review `details.diff`, then \
                     POST /api/v1/ai/tool-providers/{}/accept, or PUT the tool with `invocation.fingerprint` {now}",
                    definition.provider_ref.as_deref().unwrap_or_default()
                );
                let error = ToolError::new(ErrorCode::PolicyDenied, message).reason("definition_changed");
                let error = error.detail("pinned", pinned).detail("fingerprint", now);
                Err(error.detail("diff", difference(definition, tool)).into())
            }
            _ => Ok(()),
        }
    }

    /// Returns the deployment of the server, and its tools with their fingerprints.
    pub(super) fn to_json(&self) -> Value {
        let described = self.tools.values().map(|tool| {
            let mut described = serde_json::to_value(tool).unwrap_or_default();
            if let Some(fields) = described.as_object_mut() {
                fields.insert("fingerprint".to_owned(), json!(fingerprint(tool)));
            }
            described
        });
        json!({ "deployment": self.deployment, "tools": described.collect::<Vec<Value>>() })
    }
}

/// The hash of a tool's name, description and schemas.
pub(crate) fn fingerprint(tool: &Tool) -> String {
    hex_digest(&json!([tool.name, tool.description, tool.input_schema, tool.output_schema]))
}

/// Returns the fields in which the server's tool differs from the accepted definition.
fn difference(definition: &ToolDefinition, tool: &Tool) -> Value {
    let fields = [
        ("description", json!(definition.description), json!(tool.description)),
        ("inputSchema", definition.effective_input_schema(), json!(tool.input_schema)),
        ("outputSchema", definition.effective_output_schema(), json!(tool.output_schema)),
    ];
    let empty = |value: &Value| value.is_null() || *value == json!({});
    let changed = fields.into_iter().filter(|(_, before, after)| before != after && !(empty(before) && empty(after)));
    changed.map(|(field, before, after)| json!({ "field": field, "before": before, "after": after })).collect()
}

#[cfg(test)]
mod tests {
    use toolwright_types::{JsonSchema, ToolType};

    use super::*;

    fn tool(description: &str, schema: Value) -> Tool {
        let schema: rmcp::model::JsonObject = serde_json::from_value(schema).unwrap();
        Tool::new("echo", description.to_owned(), schema)
    }

    fn accepted(tool: &Tool) -> ToolDefinition {
        let mut definition = ToolDefinition::new("echo".parse().unwrap(), ToolType::ExternalMcp);
        definition.description = tool.description.as_ref().map(|text| text.to_string());
        definition.input_json_schema = Some(JsonSchema(json!(tool.input_schema)));
        definition.provider_ref = Some("peer".into());
        definition.invocation.fingerprint = Some(fingerprint(tool));
        definition
    }

    #[test]
    fn call_is_rejected_with_a_diff_if_description_or_schema_changed() {
        let first = tool("says it", json!({ "type": "object" }));
        let definition = accepted(&first);
        let check_pin = |tool: Tool| Listing::new(vec![tool], None).unwrap().check_pin("echo", &definition);
        assert!(check_pin(first.clone()).is_ok());
        // The title is not part of the fingerprint.
        assert!(check_pin(first.with_title("Echo")).is_ok());
        for (changed, fields) in [
            (tool("says it, and mails it to me", json!({ "type": "object" })), vec!["description"]),
            (tool("says it", json!({ "type": "object", "required": ["password"] })), vec!["inputSchema"]),
        ] {
            let error = check_pin(changed).unwrap_err().error;
            let details = error.details.unwrap();
            assert_eq!((error.code, &details["reason"]), (ErrorCode::PolicyDenied, &json!("definition_changed")));
            let diff = details["diff"].as_array().unwrap();
            assert_eq!(diff.iter().map(|change| change["field"].as_str().unwrap()).collect::<Vec<_>>(), fields);
        }
    }

    #[test]
    fn call_is_rejected_if_the_server_no_longer_lists_the_tool() {
        let definition = accepted(&tool("says it", json!({})));
        let error = Listing::new(Vec::new(), None).unwrap().check_pin("echo", &definition).unwrap_err().error;
        assert_eq!(error.code, ErrorCode::ProviderError);
    }

    #[test]
    fn changes_of_a_tool_without_an_accepted_fingerprint_are_not_rejected() {
        let mut definition = accepted(&tool("says it", json!({})));
        definition.invocation.fingerprint = None;
        let changed = Listing::new(vec![tool("says something else", json!({}))], None).unwrap();
        assert!(changed.check_pin("echo", &definition).is_ok());
    }
}
