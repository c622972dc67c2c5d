//! Calls that a call makes, through the same path.

use toolwright_types::{SideEffects, ToolEnvelope, ToolError};

use super::parts::Parts;
use super::resolve::denied;
use super::run::Attempt;
use super::{CallRequest, CallSequence, Executor, Outcome, Prepared, ReadyCall};
use crate::{CallContext, CompiledTool};

/// A call within a call within a call within a call is a loop in the definitions.
pub(super) const DEEPEST: u8 = 3;

/// What a call that another call makes is to that one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// It stands in for it, with the same input: who agreed to that call agreed to this one.
    StandIn,
    /// It is a part of it, with an input that nobody but the other tool has seen.
    Part,
}

impl Executor {
    /// Makes a call on behalf of another, for whoever made that one, if it [does no more](CompiledTool::may_act_as). What it
    /// writes is told apart by the other's key, which is the same for each attempt.
    pub async fn call_within(
        &self,
        call: Attempt<'_>,
        role: Role,
        request: CallRequest,
        sequence: &mut CallSequence,
    ) -> Outcome {
        let permit = |ready: &ReadyCall| ready.tool.may_act_as(role, call.tool);
        self.call_deeper(call.cx, Some((call.idempotency_key.as_str(), call.parts)), request, sequence, permit).await
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
        whole: Option<(&str, &Parts)>,
        request: CallRequest,
        sequence: &mut CallSequence,
        permit: impl FnOnce(&ReadyCall) -> Result<(), ToolError>,
    ) -> Outcome {
        let cx = cx.deeper();
        let prepared = self.prepare(&cx, request, sequence).await;
        let mut part = None;
        let outcome = match self.guard(&cx, prepared) {
            Prepared::Refused(envelope) => Outcome::Done(envelope),
            Prepared::Ready(mut ready) => match permit(&ready) {
                Err(error) => Outcome::Done(Box::new(self.refuse(*ready, error))),
                Ok(()) => {
                    ready.instead_of = whole.map(|(key, _)| key.to_owned());
                    part = whole.map(|(_, parts)| parts.begin(ready.receipt.so_far()));
                    self.call(&cx, *ready).await
                }
            },
        };
        if let (Some((_, parts)), Outcome::Done(envelope)) = (whole, &outcome) {
            parts.end(part, envelope);
        }
        outcome
    }
}

impl CompiledTool {
    /// Whether it does no more than the tool it would be called for. What was agreed to, by a person or by whoever reads the
    /// definition, was that one, and nobody can be asked by now.
    fn may_act_as(&self, role: Role, other: &CompiledTool) -> Result<(), ToolError> {
        let (name, own) = (&self.definition.ref_name, &other.definition.ref_name);
        let agreed = role == Role::StandIn && other.definition.requires_confirmation;
        if self.definition.requires_confirmation && !agreed {
            return Err(denied("approval", format!("`{name}` needs somebody's approval, and nobody was asked")));
        }
        if self.effects == SideEffects::Writes && other.effects != SideEffects::Writes {
            let message =
                format!("`{name}` writes, and `{own}`, which it is called for, does not say `sideEffects: writes`");
            return Err(denied("effects", message));
        }
        Ok(())
    }

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
    fn nothing_does_more_than_what_it_acts_for() {
        let reads = json!({ "sideEffects": "reads" });
        let writes = json!({ "sideEffects": "writes" });
        let asks = json!({ "sideEffects": "reads", "requiresConfirmation": true });
        let both = json!({ "sideEffects": "writes", "requiresConfirmation": true });
        for (called, for_whom, stand_in, part) in [
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
            for (role, expected) in [(Role::StandIn, stand_in), (Role::Part, part)] {
                let refused = tool(called.clone()).may_act_as(role, &tool(for_whom.clone())).err();
                let reason = refused.and_then(|error| error.details).map(|details| details["reason"].clone());
                assert_eq!(reason, expected.map(Value::from), "{called} as {role:?} of {for_whom}");
            }
        }
    }
}
