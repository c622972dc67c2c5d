//! Calls that a call makes, through the same path.

use toolwright_types::{SideEffects, ToolEnvelope, ToolError};

use super::resolve::denied;
use super::run::Attempt;
use super::{CallRequest, CallSequence, Executor, Outcome, Prepared, ReadyCall};
use crate::{CallContext, CompiledTool};

/// A call within a call within a call within a call is a loop in the definitions.
pub(super) const DEEPEST: u8 = 3;

impl Executor {
    /// Makes a call on behalf of another, for whoever made that one. What it writes is told apart by the other's key, which
    /// is the same for each attempt. `permit` may still refuse it.
    pub async fn call_within(
        &self,
        call: Attempt<'_>,
        request: CallRequest,
        sequence: &mut CallSequence,
        permit: impl FnOnce(&ReadyCall) -> Result<(), ToolError>,
    ) -> Outcome {
        self.call_deeper(call.cx, Some(call.idempotency_key), request, sequence, permit).await
    }

    /// Reads what something else needs, for whoever `cx` speaks of. Only what [merely reads](CompiledTool::merely_reads) is
    /// called, so this is as harmless in a trial as anywhere else.
    pub async fn read_within(&self, cx: &CallContext, request: CallRequest) -> Result<Box<ToolEnvelope>, ToolError> {
        if cx.depth >= DEEPEST {
            let message = format!("`{}` was not called: tools that call tools are nested too deeply", request.tool);
            return Err(denied("too_deep", message));
        }
        let name = request.tool.clone();
        let permit = |ready: &ReadyCall| ready.tool.merely_reads();
        match self.call_deeper(cx, None, request, &mut CallSequence::default(), permit).await {
            Outcome::Done(envelope) => Ok(envelope),
            Outcome::Client(_) => Err(needs_client(&name)),
        }
    }

    async fn call_deeper(
        &self,
        cx: &CallContext,
        key: Option<&str>,
        request: CallRequest,
        sequence: &mut CallSequence,
        permit: impl FnOnce(&ReadyCall) -> Result<(), ToolError>,
    ) -> Outcome {
        let cx = cx.deeper();
        let prepared = self.prepare(&cx, request, sequence).await;
        match self.guard(&cx, prepared) {
            Prepared::Refused(envelope) => Outcome::Done(envelope),
            Prepared::Ready(mut ready) => match permit(&ready) {
                Err(error) => Outcome::Done(Box::new(self.refuse(*ready, error))),
                Ok(()) => {
                    ready.instead_of = key.map(str::to_owned);
                    self.call(&cx, *ready).await
                }
            },
        }
    }
}

impl CompiledTool {
    /// Whether it does nothing but read, all by itself; if not, what else.
    pub fn merely_reads(&self) -> Result<(), ToolError> {
        let name = &self.definition.ref_name;
        if self.effects == SideEffects::Writes {
            let message =
                format!("`{name}` writes, and may only read here; if it reads, let it say `sideEffects: reads`");
            return Err(denied("effects", message));
        }
        if self.definition.requires_confirmation {
            return Err(denied(
                "approval",
                format!("`{name}` needs somebody's approval, and nobody can be asked here"),
            ));
        }
        if !self.definition.is_tool_fully_executed_on_server {
            return Err(needs_client(name.as_str()));
        }
        Ok(())
    }
}

fn needs_client(name: &str) -> ToolError {
    denied("client", format!("`{name}` needs a client, and there is none here"))
}

impl Attempt<'_> {
    /// Whether a call that this one makes would be one too deep.
    pub fn is_deepest(&self) -> bool {
        self.cx.depth >= DEEPEST
    }
}
