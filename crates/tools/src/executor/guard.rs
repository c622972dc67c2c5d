//! The decision on a direct call. Agents and workflows decide in their machines; a principal that calls by
//! itself has decided already, so only what no caller may override is left to check.

use std::sync::Arc;

use serde_json::Value;
use toolwright_types::{Surface, ToolError};

use super::resolve::{ReadyCall, denied};
use super::{CallRequest, CallSequence, Executor, Outcome, Prepared};
use crate::{CallContext, CompiledTool};

impl Executor {
    /// The first half of a direct call, and the guard.
    pub async fn admit(&self, cx: &CallContext, request: CallRequest) -> Prepared {
        let prepared = self.prepare(cx, request, &mut CallSequence::default()).await;
        self.guard(cx, prepared)
    }

    /// A direct call: both halves with the guard between them.
    pub async fn execute(&self, cx: &CallContext, request: CallRequest) -> Outcome {
        match self.admit(cx, request).await {
            Prepared::Ready(ready) => self.call(cx, *ready).await,
            Prepared::Refused(envelope) => Outcome::Done(envelope),
        }
    }

    /// A direct call of a tool that is in no catalog, such as the probe of a provider; nothing else is skipped.
    pub async fn execute_tool(&self, cx: &CallContext, tool: Arc<CompiledTool>, input: Value) -> Outcome {
        let prepared = self.prepare_tool(cx, tool, input, &mut CallSequence::default());
        match self.guard(cx, prepared) {
            Prepared::Ready(ready) => self.call(cx, *ready).await,
            Prepared::Refused(envelope) => Outcome::Done(envelope),
        }
    }

    /// The decision on a direct call: whether the tool is offered where it is called.
    pub fn guard(&self, cx: &CallContext, prepared: Prepared) -> Prepared {
        match prepared {
            Prepared::Ready(ready) => match available(cx.surface, &ready) {
                Ok(()) => Prepared::Ready(ready),
                Err(error) => Prepared::Refused(Box::new(ready.receipt.failed(error, self.ports.clock.now()))),
            },
            refused => refused,
        }
    }
}

fn available(surface: Surface, ready: &ReadyCall) -> Result<(), ToolError> {
    let definition = &ready.tool.definition;
    if definition.available_as.contains(&surface) {
        return Ok(());
    }
    let name = match surface {
        Surface::Tool => "tool",
        Surface::WorkflowStep => "workflowStep",
        Surface::McpTool => "mcpTool",
    };
    Err(denied("not_available", format!("tool `{}` is not available as `{name}`", definition.ref_name)))
}
