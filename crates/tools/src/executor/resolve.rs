//! The checks of [`Executor::prepare`](super::Executor::prepare): the tool exists, it is enabled, the principal may
//! call it, and the input is valid.

use std::sync::Arc;

use serde_json::{Value, json};
use toolwright_types::{CallId, ErrorCode, SideEffects, ToolError, ToolStatus};

use super::envelope_builder::EnvelopeBuilder;
use super::{CallRequest, Ports};
use crate::ports::Permit;
use crate::{CallContext, CompiledTool};

/// A prepared call. The caller decides whether it is performed.
#[derive(Debug)]
pub struct ReadyCall {
    /// The tool, as it was defined when the call was prepared.
    pub tool: Arc<CompiledTool>,
    /// The arguments, with defaults.
    pub input: Value,
    /// The side effects of this call. A call can have fewer side effects than its tool, but not more.
    pub effects: SideEffects,
    /// Whether the input makes this call delete something.
    pub deletes: bool,
    /// The principal's permission to execute the tool.
    pub permit: Permit,
    /// The idempotency key of the parent call, for nested calls and fallbacks.
    pub(super) parent_key: Option<String>,
    /// The call from whose id the idempotency key is derived, if it is not this call.
    pub(super) key_call: Option<CallId>,
    pub(super) envelope_builder: EnvelopeBuilder,
}

impl ReadyCall {
    pub(super) fn new(
        mut envelope_builder: EnvelopeBuilder,
        tool: Arc<CompiledTool>,
        input: Value,
        effects: SideEffects,
        permit: Permit,
    ) -> Self {
        envelope_builder.set_policy(permit.policy.clone());
        Self { tool, input, effects, deletes: false, permit, parent_key: None, key_call: None, envelope_builder }
    }
}

pub(super) async fn find_tool(
    ports: &Ports,
    cx: &CallContext,
    request: &CallRequest,
) -> Result<Arc<CompiledTool>, ToolError> {
    match ports.catalog.resolve(&cx.realm, &request.tool, request.version.as_ref()).await {
        Ok(Some(tool)) => Ok(tool),
        Ok(None) => {
            let version = request
                .version
                .as_ref()
                .map(|wanted| format!(" with a version that matches `{wanted}`"))
                .unwrap_or_default();
            Err(denied("unknown_tool", format!("no tool `{}`{version} in realm `{}`", request.tool, cx.realm.name)))
        }
        Err(error) => Err(super::secrets::port_error(&error)),
    }
}

pub(super) fn check_lifecycle(tool: &CompiledTool) -> Result<(), ToolError> {
    let definition = &tool.definition;
    let provider = tool.provider.as_deref();
    if !definition.enabled {
        return Err(denied("disabled", format!("tool `{}` is disabled", definition.ref_name)));
    }
    if definition.status == ToolStatus::Blocked {
        let message = format!("tool `{}@{}` is blocked", definition.ref_name, definition.version);
        return Err(denied("blocked", message));
    }
    match (&definition.provider_ref, provider) {
        (Some(wanted), None) => Err(denied(
            "unknown_provider",
            format!("no provider `{wanted}`, which tool `{}` needs", definition.ref_name),
        )),
        (_, Some(provider)) if !provider.config.enabled => {
            Err(denied("provider_disabled", format!("provider `{}` is disabled", provider.config.ref_name)))
        }
        _ => Ok(()),
    }
}

pub(super) fn authorize(ports: &Ports, cx: &CallContext, tool: &CompiledTool) -> Result<Permit, ToolError> {
    ports.authorizer.may_execute(&cx.principal, &cx.realm, tool).map_err(|denial| {
        let cause = match denial.policies.as_slice() {
            [] => "no policy allows it".to_owned(),
            some => format!("forbidden by {}", some.join(", ")),
        };
        denied("permission", format!("`{}` lacks `{}`: {cause}", cx.principal.name, denial.permission))
            .detail("permission", denial.permission)
            .detail("policies", json!(denial.policies))
    })
}

impl CompiledTool {
    /// Applies defaults to the input and validates it. Checks that a composite tool has an operation for the input.
    pub async fn check_input(self: &Arc<Self>, input: Value) -> Result<Value, ToolError> {
        if let Some(composite) = self.composite() {
            // This check comes first, because its error is more helpful than the schema violation for the same mistake.
            composite.check_selection(&input)?;
        }
        let input = self.validate_input(input).await.map_err(|violations| {
            let prefix = |path: &str| if path.is_empty() { String::new() } else { format!("{path}: ") };
            let first = violations.first().map(|v| format!("{}{}", prefix(&v.path), v.message)).unwrap_or_default();
            let message = format!("the input does not match its schema: {first}");
            let error = ToolError::new(ErrorCode::ValidationError, message).reason("input_schema");
            error.detail("errors", json!(violations))
        })?;
        self.route(input).await.map(|(input, _)| input)
    }
}

pub(super) fn denied(reason: &str, message: String) -> ToolError {
    ToolError::new(ErrorCode::PolicyDenied, message).reason(reason)
}
