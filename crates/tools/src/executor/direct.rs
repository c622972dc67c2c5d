//! Direct calls. In an agent's run, the machine decides whether a prepared call is performed. A principal that calls a
//! tool directly has already decided, so only the rules that no caller may override are checked here.

use toolwright_types::{Surface, ToolError};

use super::resolve::{ReadyCall, denied};
use super::{CallRequest, CallSequence, Executor, Preparation};
use crate::CallContext;

impl Executor {
    /// Prepares a direct call: [`Executor::prepare`], then [`Executor::check_surface`].
    pub async fn prepare_direct(&self, cx: &CallContext, request: CallRequest) -> Preparation {
        let prepared = self.prepare(cx, request, &mut CallSequence::default()).await;
        self.check_surface(cx, prepared)
    }

    /// Refuses a call if the `availableAs` of its tool does not list the surface of the call.
    pub fn check_surface(&self, cx: &CallContext, prepared: Preparation) -> Preparation {
        match prepared {
            Preparation::Ready(ready) => match check_available(cx.surface, &ready) {
                Ok(()) => Preparation::Ready(ready),
                Err(error) => {
                    Preparation::Refused(Box::new(ready.envelope_builder.failed(error, self.ports.clock.now())))
                }
            },
            refused => refused,
        }
    }
}

fn check_available(surface: Surface, ready: &ReadyCall) -> Result<(), ToolError> {
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
