//! From what the backend got to what the tool promises: response mapping, then the output schema.

use serde_json::{Value, json};
use toolwright_expr::Scope;
use toolwright_types::{ErrorCode, OnOutputMismatch, ToolError};

use super::receipt::Receipt;
use super::run::Reply;
use crate::{CompiledTool, ToolFailure, drift};

pub(super) fn shape(
    tool: &CompiledTool,
    input: &Value,
    result: Result<Reply, ToolFailure>,
    receipt: &mut Receipt,
) -> Result<Reply, ToolFailure> {
    let mut reply = match result {
        Ok(reply) => reply,
        Err(failure) => {
            receipt.http(failure.http_status, Default::default());
            receipt.cost(failure.cost_usd);
            return Err(failure);
        }
    };
    receipt.http(reply.http_status, std::mem::take(&mut reply.headers));
    receipt.cost(reply.cost_usd);
    for warning in reply.warnings.drain(..) {
        receipt.warn(warning);
    }
    if let Some(mapping) = &tool.mapping {
        let mapped = mapping.apply(&reply.output, &Scope::new(input)).map_err(|error| {
            ToolError::new(ErrorCode::ProviderError, format!("responseMapping failed: {error}"))
                .reason("response_mapping")
        })?;
        for warning in mapped.warnings {
            receipt.warn(format!("responseMapping: {warning}"));
        }
        reply.output = mapped.value;
    }
    promised(tool, reply, receipt)
}

/// The reply, if it is what the tool promises to return.
pub(super) fn promised(tool: &CompiledTool, reply: Reply, receipt: &mut Receipt) -> Result<Reply, ToolFailure> {
    if let Err(violations) = tool.output.check(&reply.output) {
        receipt.drifted(drift::of_output(tool.output.source(), &reply.output, &violations));
        let place = violations.first().map(|v| format!("{}: {}", v.path, v.message)).unwrap_or_default();
        match tool.definition.output_mismatch() {
            OnOutputMismatch::Warn => receipt.warn(format!("the output does not fit its schema: {place}")),
            OnOutputMismatch::Fail => {
                let error =
                    ToolError::new(ErrorCode::ProviderError, format!("the output does not fit its schema: {place}"));
                return Err(error.reason("output_schema").detail("errors", json!(violations)).into());
            }
        }
    }
    Ok(reply)
}
