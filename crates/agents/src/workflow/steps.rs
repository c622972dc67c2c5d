//! The tools behind the built-in step handlers that make a call.

use serde_json::json;
use toolwright_types::step_handlers::{EXECUTE_WORKFLOW, FORM, INVOKE_AGENT, REQUEST_APPROVAL};
use toolwright_types::{JsonSchema, SideEffects, ToolDefinition, ToolType};

/// Returns the tool of a built-in step handler; `None` if the handler is not built in.
pub(super) fn built_in(handler: &str) -> Option<ToolDefinition> {
    let mut definition = ToolDefinition::new(handler.parse().ok()?, ToolType::Function);
    definition.side_effects = Some(SideEffects::Reads);
    match handler {
        INVOKE_AGENT => definition.description = Some("Runs an agent.".to_owned()),
        EXECUTE_WORKFLOW => definition.description = Some("Runs another workflow.".to_owned()),
        REQUEST_APPROVAL => {
            definition.description = Some("Asks a person for approval. The output is the approved input.".to_owned());
            definition.side_effects = Some(SideEffects::None);
            definition.requires_confirmation = true;
            definition.input_json_schema = Some(JsonSchema(json!({ "type": "object" })));
            definition.output_json_schema = Some(JsonSchema(json!({})));
            definition.invocation.path = Some("echo".to_owned());
            return Some(definition);
        }
        FORM => {
            definition.description = Some("Asks a client to fill in a form. The output is the filled form.".to_owned());
            definition.side_effects = Some(SideEffects::None);
            definition.is_tool_fully_executed_on_server = false;
            definition.input_json_schema = Some(JsonSchema(json!({
                "type": "object",
                "properties": { "schema": { "type": ["object", "boolean"], "description": "The schema of the filled form." } },
            })));
            definition.output_json_schema = Some(JsonSchema(json!({})));
            return Some(definition);
        }
        _ => return None,
    }
    definition.invocation.path = Some(handler.to_owned());
    Some(definition)
}

#[cfg(test)]
mod tests {
    use toolwright_tools::RunFunction;

    use super::*;

    #[test]
    fn handlers_of_agents_and_workflows_start_runs() {
        assert_eq!(RunFunction::of(&built_in(INVOKE_AGENT).unwrap()), Some(RunFunction::Agent));
        assert_eq!(RunFunction::of(&built_in(EXECUTE_WORKFLOW).unwrap()), Some(RunFunction::Workflow));
        assert_eq!(RunFunction::of(&built_in(REQUEST_APPROVAL).unwrap()), None);
        assert!(built_in("search_deals").is_none());
    }
}
