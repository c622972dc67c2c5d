//! Function tools that start a run: of an agent or of a workflow. The agents of the server execute them, not a library.

use serde_json::{Value, json};
use toolwright_types::step_handlers::{EXECUTE_WORKFLOW, INVOKE_AGENT};
use toolwright_types::{ToolDefinition, ToolType};

/// What a function starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunFunction {
    /// A run of an agent.
    Agent,
    /// A run of a workflow.
    Workflow,
}

impl RunFunction {
    /// The function of a tool, if it starts a run.
    pub fn of(definition: &ToolDefinition) -> Option<Self> {
        if definition.tool_type != ToolType::Function || definition.invocation.code.is_some() {
            return None;
        }
        match definition.invocation.path.as_deref() {
            Some(INVOKE_AGENT) => Some(RunFunction::Agent),
            Some(EXECUTE_WORKFLOW) => Some(RunFunction::Workflow),
            _ => None,
        }
    }

    /// The schema of the function's input.
    pub fn input_schema(self) -> Value {
        match self {
            RunFunction::Agent => json!({
                "type": "object",
                "properties": {
                    "agentRef": { "type": "string", "description": "The agent, such as `clerk` or `clerk@^1.2`." },
                    "prompt": { "type": "string", "description": "What to do, with everything the agent needs to know." },
                    "context": { "type": "object", "description": "Further data for the agent." },
                },
                "required": ["agentRef", "prompt"],
                "additionalProperties": false,
            }),
            RunFunction::Workflow => json!({
                "type": "object",
                "properties": {
                    "workflowRef": { "type": "string", "description": "The workflow, such as `fulfil` or `fulfil@^1.2`." },
                    "input": { "description": "The input of the workflow." },
                },
                "required": ["workflowRef"],
                "additionalProperties": false,
            }),
        }
    }
}
