//! The facts of a call: which tool, whether it may run at all, for whom, and with this input.

use std::sync::Arc;

use serde_json::{Value, json};
use toolwright_types::{ErrorCode, Status, ToolError};

use super::receipt::Receipt;
use super::{CallRequest, Ports};
use crate::ports::Allowed;
use crate::{CallContext, CompiledTool};

/// A call that can be made: what a decision is taken on.
#[derive(Debug)]
pub struct ReadyCall {
    /// The tool as it was defined when the call was prepared.
    pub tool: Arc<CompiledTool>,
    /// The arguments, with defaults filled in.
    pub input: Value,
    /// The permission under which it runs.
    pub permit: Allowed,
    /// The idempotency key of the call this one is a fallback of.
    pub(super) instead_of: Option<String>,
    pub(super) receipt: Receipt,
}

impl ReadyCall {
    pub(super) fn new(mut receipt: Receipt, tool: Arc<CompiledTool>, input: Value, permit: Allowed) -> Self {
        receipt.policy(permit.policy.clone());
        Self { tool, input, permit, instead_of: None, receipt }
    }
}

pub(super) async fn find(
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
                .map(|wanted| format!(" in a version that fits `{wanted}`"))
                .unwrap_or_default();
            Err(denied("unknown_tool", format!("no tool `{}`{version} in realm `{}`", request.tool, cx.realm.name)))
        }
        Err(error) => Err(super::secrets::unavailable(&error)),
    }
}

pub(super) fn lifecycle(tool: &CompiledTool) -> Result<(), ToolError> {
    let definition = &tool.definition;
    let provider = tool.provider.as_deref();
    if !definition.enabled {
        return Err(denied("disabled", format!("tool `{}` is disabled", definition.ref_name)));
    }
    if definition.status == Status::Blocked {
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

pub(super) fn permission(ports: &Ports, cx: &CallContext, tool: &CompiledTool) -> Result<Allowed, ToolError> {
    ports.authorizer.may_execute(&cx.principal, &cx.realm, tool).map_err(|denial| {
        let because = match denial.policies.as_slice() {
            [] => "no policy allows it".to_owned(),
            some => format!("forbidden by {}", some.join(", ")),
        };
        denied("permission", format!("`{}` lacks `{}`: {because}", cx.principal.name, denial.permission))
            .detail("permission", denial.permission)
            .detail("policies", json!(denial.policies))
    })
}

/// The arguments with their defaults, if they fit.
pub(super) fn input(tool: &CompiledTool, input: Value) -> Result<Value, ToolError> {
    tool.admit(input).map_err(|violations| {
        let place = |path: &str| if path.is_empty() { String::new() } else { format!("{path}: ") };
        let first = violations.first().map(|v| format!("{}{}", place(&v.path), v.message)).unwrap_or_default();
        let message = format!("the input does not fit: {first}");
        ToolError::new(ErrorCode::ValidationError, message).reason("input_schema").detail("errors", json!(violations))
    })
}

pub(super) fn denied(reason: &str, message: String) -> ToolError {
    ToolError::new(ErrorCode::PolicyDenied, message).reason(reason)
}
