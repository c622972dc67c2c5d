//! What a server says it can do, and whether that is what was accepted.
//!
//! A tool is pinned by the fingerprint of what its server said about it: name, description, schemas. A server that says
//! something else later is not called until somebody has accepted that: a model would act on words nobody has read.

use std::collections::BTreeMap;

use rmcp::model::Tool;
use serde_json::{Value, json};
use toolwright_tools::ToolFailure;
use toolwright_types::json::hex_digest;
use toolwright_types::{ErrorCode, ToolDefinition, ToolError};

/// The `method` of a tool that lists its server's tools.
pub const LIST: &str = "tools/list";
/// The category of tools that were imported.
pub const ADDED_BY: &str = "mcp";
/// More tools than this are not taken from a server.
pub(super) const MOST_TOOLS: usize = 2_000;

/// The tools of a server, by name.
pub(crate) struct Listing(BTreeMap<String, Tool>);

impl Listing {
    /// A listing of at most as many tools as are taken.
    pub fn new(tools: Vec<Tool>) -> Result<Self, ToolFailure> {
        if tools.len() > MOST_TOOLS {
            let message = format!("the server lists {} tools; at most {MOST_TOOLS} are taken", tools.len());
            return Err(ToolFailure::fatal(ErrorCode::ProviderError, message).reason("too_many_tools"));
        }
        Ok(Self(tools.into_iter().map(|tool| (tool.name.to_string(), tool)).collect()))
    }

    /// Lets a call through if the server has the tool, and still says of it what was accepted.
    pub fn admit(&self, name: &str, definition: &ToolDefinition) -> Result<(), ToolFailure> {
        let Some(tool) = self.0.get(name) else {
            let message = format!("the server has no tool `{name}` any more");
            return Err(ToolFailure::fatal(ErrorCode::ProviderError, message).reason("unknown_upstream_tool"));
        };
        let now = fingerprint(tool);
        match definition.invocation.fingerprint.as_deref() {
            Some(pinned) if pinned != now => {
                let message = format!(
                    "the server's definition of `{name}` has changed since it was accepted; read the difference, then \
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

    /// The tools as JSON, each with its fingerprint.
    pub fn described(&self) -> Vec<Value> {
        let described = self.0.values().map(|tool| {
            let mut described = serde_json::to_value(tool).unwrap_or_default();
            if let Some(fields) = described.as_object_mut() {
                fields.insert("fingerprint".to_owned(), json!(fingerprint(tool)));
            }
            described
        });
        described.collect()
    }
}

/// What a tool is pinned by.
pub(crate) fn fingerprint(tool: &Tool) -> String {
    hex_digest(&json!([tool.name, tool.description, tool.input_schema, tool.output_schema]))
}

/// Where the server says something else than the definition, and what.
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
    fn what_is_said_of_a_tool_is_what_it_is_pinned_by() {
        let first = tool("says it", json!({ "type": "object" }));
        let definition = accepted(&first);
        let admit = |tool: Tool| Listing::new(vec![tool]).unwrap().admit("echo", &definition);
        assert!(admit(first.clone()).is_ok());
        // What is beside the point, and the order of keys, changes nothing.
        assert!(admit(first.with_title("Echo")).is_ok());
        for (changed, fields) in [
            (tool("says it, and mails it to me", json!({ "type": "object" })), vec!["description"]),
            (tool("says it", json!({ "type": "object", "required": ["password"] })), vec!["inputSchema"]),
        ] {
            let error = admit(changed).unwrap_err().error;
            let details = error.details.unwrap();
            assert_eq!((error.code, &details["reason"]), (ErrorCode::PolicyDenied, &json!("definition_changed")));
            let diff = details["diff"].as_array().unwrap();
            assert_eq!(diff.iter().map(|change| change["field"].as_str().unwrap()).collect::<Vec<_>>(), fields);
        }
    }

    #[test]
    fn a_tool_that_is_gone_is_told() {
        let definition = accepted(&tool("says it", json!({})));
        let error = Listing::new(Vec::new()).unwrap().admit("echo", &definition).unwrap_err().error;
        assert_eq!(error.code, ErrorCode::ProviderError);
    }

    #[test]
    fn what_nobody_pinned_is_not_held_against_anything() {
        let mut definition = accepted(&tool("says it", json!({})));
        definition.invocation.fingerprint = None;
        let changed = Listing::new(vec![tool("says something else", json!({}))]).unwrap();
        assert!(changed.admit("echo", &definition).is_ok());
    }
}
