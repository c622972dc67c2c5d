//! Nested calls: calls that a tool makes. They pass the same checks as any other call.

use toolwright_types::{SideEffects, ToolEnvelope, ToolError};

use super::attempts::Attempt;
use super::nested_calls::NestedCalls;
use super::resolve::denied;
use super::{CallOutcome, CallRequest, CallSequence, Executor, Preparation, ReadyCall};
use crate::{CallContext, CompiledTool};

/// The maximum depth of nested calls. A deeper call indicates a loop in the definitions.
pub(super) const MAX_DEPTH: u8 = 3;

/// The relation of a nested call to its parent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NestedCallKind {
    /// A fallback with the parent's input. The parent's approval applies to it too.
    Fallback,
    /// A call with an input that the parent computed. The parent's approval does not apply to it.
    Subcall,
}

impl Executor {
    /// Makes a nested call, if the side effects of the called tool are allowed in the parent call. The idempotency key
    /// of the nested call is derived from the parent's key, so all attempts of the parent use the same key for the
    /// nested call.
    pub async fn call_nested(
        &self,
        call: Attempt<'_>,
        kind: NestedCallKind,
        request: CallRequest,
        sequence: &mut CallSequence,
    ) -> CallOutcome {
        let permit =
            |ready: &ReadyCall| check_effects((&ready.tool, ready.worst_effects()), kind, (call.tool, call.effects));
        self.perform_nested(
            call.cx,
            Some((call.idempotency_key.as_str(), call.nested_calls)),
            request,
            sequence,
            permit,
        )
        .await
    }

    /// Calls a tool that [only reads](CompiledTool::ensure_read_only), with the permissions of the principal in `cx`. A
    /// run that captures calls may use this method too, because a read has no side effects.
    pub async fn read_nested(&self, cx: &CallContext, request: CallRequest) -> Result<Box<ToolEnvelope>, ToolError> {
        if cx.depth >= MAX_DEPTH {
            let message = format!("`{}` was not called: tools that call tools are nested too deeply", request.tool);
            return Err(denied("too_deep", message));
        }
        let name = request.tool.clone();
        let permit = ReadyCall::ensure_read_only;
        match self.perform_nested(cx, None, request, &mut CallSequence::default(), permit).await {
            CallOutcome::Done(envelope) => Ok(envelope),
            CallOutcome::Client(_) => Err(needs_client(&name)),
        }
    }

    async fn perform_nested(
        &self,
        cx: &CallContext,
        parent: Option<(&str, &NestedCalls)>,
        request: CallRequest,
        sequence: &mut CallSequence,
        permit: impl FnOnce(&ReadyCall) -> Result<(), ToolError>,
    ) -> CallOutcome {
        let cx = cx.nested();
        let prepared = self.prepare(&cx, request, sequence).await;
        let mut subcall = None;
        let outcome = match self.check_surface(&cx, prepared) {
            Preparation::Refused(envelope) => CallOutcome::Done(envelope),
            Preparation::Ready(mut ready) => match permit(&ready) {
                Err(error) => CallOutcome::Done(Box::new(self.refuse(*ready, error))),
                Ok(()) => {
                    ready.parent_key = parent.map(|(key, _)| key.to_owned());
                    subcall = parent.map(|(_, nested_calls)| nested_calls.begin(ready.envelope_builder.envelope()));
                    self.call(&cx, *ready).await
                }
            },
        };
        if let (Some((_, nested_calls)), CallOutcome::Done(envelope)) = (parent, &outcome) {
            nested_calls.end(subcall, envelope);
        }
        outcome
    }
}

impl ReadyCall {
    /// Checks that the call only reads, and needs neither an approval nor a client.
    fn ensure_read_only(&self) -> Result<(), ToolError> {
        ensure_read_only(&self.tool, self.worst_effects())
    }

    /// Returns the side effects of the call, including those of the run that it starts. In `effects`, starting a run
    /// counts as a read, because the calls of the started run are checked against the rules of its parent run. These
    /// rules do not include those of a tool that makes a nested call, so here the side effects of the called tool
    /// count.
    fn worst_effects(&self) -> SideEffects {
        if self.starts_run() { self.tool.effects } else { self.effects }
    }
}

impl CompiledTool {
    /// Checks that the tool only reads, and needs neither an approval nor a client.
    pub fn ensure_read_only(&self) -> Result<(), ToolError> {
        ensure_read_only(self, self.effects)
    }
}

/// Checks that a call requires no approval, and that it writes only if its parent writes. A nested call cannot request
/// an approval; a fallback may use the approval of its parent. If the parent only reads, its nested call must not
/// write, because the decision to allow the parent's call considered only the parent's definition.
fn check_effects(
    (tool, effects): (&CompiledTool, SideEffects),
    kind: NestedCallKind,
    (parent, parent_effects): (&CompiledTool, SideEffects),
) -> Result<(), ToolError> {
    let (name, parent_name) = (&tool.definition.ref_name, &parent.definition.ref_name);
    let already_approved = kind == NestedCallKind::Fallback && parent.definition.requires_confirmation;
    if tool.definition.requires_confirmation && !already_approved {
        return Err(denied("approval", format!("`{name}` requires approval, which a nested call cannot request")));
    }
    if effects == SideEffects::Writes && parent_effects != SideEffects::Writes {
        let cause = match parent.definition.is_tool_fully_executed_on_server {
            true => format!("its caller `{parent_name}` does not declare `sideEffects: writes`"),
            false => {
                format!("its caller `{parent_name}` is a client tool, which only prepares a payload on the server")
            }
        };
        return Err(denied("effects", format!("`{name}` writes, but {cause}")));
    }
    Ok(())
}

fn ensure_read_only(tool: &CompiledTool, effects: SideEffects) -> Result<(), ToolError> {
    let name = &tool.definition.ref_name;
    if effects == SideEffects::Writes {
        let message =
            format!("`{name}` writes, but only reads are allowed here; if it only reads, declare `sideEffects: reads`");
        return Err(denied("effects", message));
    }
    if tool.definition.requires_confirmation {
        return Err(denied("approval", format!("`{name}` requires approval, which cannot be requested here")));
    }
    if !tool.definition.is_tool_fully_executed_on_server {
        return Err(needs_client(name.as_str()));
    }
    Ok(())
}

fn needs_client(name: &str) -> ToolError {
    denied("client", format!("`{name}` requires a client, which is not available here"))
}

impl Attempt<'_> {
    /// Whether a nested call of this attempt would exceed the maximum depth.
    pub fn at_max_depth(&self) -> bool {
        self.cx.depth >= MAX_DEPTH
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn tool(extra: Value) -> CompiledTool {
        let mut body = json!({ "refName": "t", "toolType": "FUNCTION", "invocation": { "path": "echo" } });
        body.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        CompiledTool::for_tests(body)
    }

    #[test]
    fn nested_call_that_requires_an_approval_or_adds_a_write_is_refused() {
        let reads = json!({ "sideEffects": "reads" });
        let writes = json!({ "sideEffects": "writes" });
        let asks = json!({ "sideEffects": "reads", "requiresConfirmation": true });
        let both = json!({ "sideEffects": "writes", "requiresConfirmation": true });
        for (called, parent, fallback, subcall) in [
            (&reads, &reads, None, None),
            (&reads, &both, None, None),
            (&writes, &writes, None, None),
            (&writes, &reads, Some("effects"), Some("effects")),
            (&writes, &asks, Some("effects"), Some("effects")),
            (&asks, &reads, Some("approval"), Some("approval")),
            (&asks, &writes, Some("approval"), Some("approval")),
            (&asks, &asks, None, Some("approval")),
            (&both, &both, None, Some("approval")),
            (&both, &asks, Some("effects"), Some("approval")),
        ] {
            for (kind, expected) in [(NestedCallKind::Fallback, fallback), (NestedCallKind::Subcall, subcall)] {
                let (called_tool, parent_tool) = (tool(called.clone()), tool(parent.clone()));
                let (call, parent_call) = ((&called_tool, called_tool.effects), (&parent_tool, parent_tool.effects));
                let refused = check_effects(call, kind, parent_call).err();
                let reason = refused.and_then(|error| error.details).map(|details| details["reason"].clone());
                assert_eq!(reason, expected.map(Value::from), "{called} as {kind:?} of {parent}");
            }
        }
    }
}
