//! Client tools: the server validates and authorizes the call and renders the payload, then the client performs the
//! action.

use serde_json::Value;
use toolwright_expr::Scope;
use toolwright_types::{CallId, ErrorCode, ExecutionSite, ToolEnvelope, ToolError};

use super::envelope_builder::EnvelopeBuilder;
use super::{CallOutcome, Ports};
use crate::CompiledTool;

/// The action that the client must perform.
#[derive(Debug)]
pub struct ClientAction {
    /// The call whose result the client returns.
    pub call_id: CallId,
    /// The payload: the tool's body template rendered with the input, or the input itself.
    pub prepared_payload: Value,
    /// The schema of the result.
    pub schema: Value,
    /// The envelope of the call, which is completed when the client returns its result.
    pub pending: Box<ToolEnvelope>,
}

pub(super) fn prepare(
    ports: &Ports,
    envelope_builder: EnvelopeBuilder,
    tool: &CompiledTool,
    input: &Value,
) -> CallOutcome {
    let payload = match &tool.arguments {
        Some(template) => template.render(&Scope::new(input)).map(|evaluated| evaluated.value),
        None => Ok(input.clone()),
    };
    match payload {
        Ok(prepared_payload) => {
            let call_id = envelope_builder.call_id().clone();
            let mut pending = envelope_builder.failed(
                ToolError::new(ErrorCode::Unknown, "the client has not returned a result").reason("awaiting_client"),
                ports.clock.now(),
            );
            pending.metadata.execution_site = Some(ExecutionSite::Client);
            let schema = tool.output.source().clone();
            CallOutcome::Client(Box::new(ClientAction {
                call_id,
                prepared_payload,
                schema,
                pending: Box::new(pending),
            }))
        }
        Err(error) => {
            let error = ToolError::new(ErrorCode::ValidationError, error.to_string()).reason("template");
            CallOutcome::done(envelope_builder.failed(error, ports.clock.now()))
        }
    }
}
