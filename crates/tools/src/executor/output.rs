//! Applies the response mapping to a reply and validates the result against the output schema.

use serde_json::{Value, json};
use toolwright_expr::Scope;
use toolwright_types::{ErrorCode, OnOutputMismatch, ToolError};

use super::attempts::BackendReply;
use super::envelope_builder::EnvelopeBuilder;
use crate::{CompiledTool, ToolFailure, drift};

pub(super) fn map_and_check(
    tool: &CompiledTool,
    input: &Value,
    result: Result<BackendReply, ToolFailure>,
    envelope_builder: &mut EnvelopeBuilder,
) -> Result<BackendReply, ToolFailure> {
    let mut reply = match result {
        Ok(reply) => reply,
        Err(failure) => {
            envelope_builder.set_http(failure.http_status, Default::default());
            envelope_builder.set_cost(failure.cost_usd);
            return Err(failure);
        }
    };
    envelope_builder.set_http(reply.http_status, std::mem::take(&mut reply.headers));
    envelope_builder.set_cost(reply.cost_usd);
    for warning in reply.warnings.drain(..) {
        envelope_builder.warn(warning);
    }
    if let Some(mapping) = &tool.mapping {
        let mapped = mapping.apply(&reply.output, &Scope::new(input)).map_err(|error| {
            ToolError::new(ErrorCode::ProviderError, format!("responseMapping failed: {error}"))
                .reason("response_mapping")
        })?;
        for warning in mapped.warnings {
            envelope_builder.warn(format!("responseMapping: {warning}"));
        }
        reply.output = mapped.value;
    }
    check(tool, reply, envelope_builder)
}

/// Validates a reply against the output schema.
pub(super) fn check(
    tool: &CompiledTool,
    reply: BackendReply,
    envelope_builder: &mut EnvelopeBuilder,
) -> Result<BackendReply, ToolFailure> {
    if let Err(violations) = tool.output.check(&reply.output) {
        envelope_builder.set_drift(drift::compare_output(tool.output.source(), &reply.output, &violations));
        let first = violations.first().map(|v| format!("{}: {}", v.path, v.message)).unwrap_or_default();
        match tool.definition.output_mismatch() {
            OnOutputMismatch::Warn => envelope_builder.warn(format!("the output does not match its schema: {first}")),
            OnOutputMismatch::Fail => {
                let error =
                    ToolError::new(ErrorCode::ProviderError, format!("the output does not match its schema: {first}"));
                return Err(error.reason("output_schema").detail("errors", json!(violations)).into());
            }
        }
    }
    Ok(reply)
}
