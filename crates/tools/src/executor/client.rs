//! Tools whose final step the client performs: the server validates, authorizes and shapes, then hands over.

use serde_json::Value;
use toolwright_expr::Scope;
use toolwright_types::{CallId, ErrorCode, ExecutionSite, ToolEnvelope, ToolError};

use super::receipt::Receipt;
use super::{Outcome, Ports};
use crate::CompiledTool;

/// What the client is asked to do.
#[derive(Debug)]
pub struct ClientAction {
    /// The call whose result the client returns.
    pub call_id: CallId,
    /// What to act on: the tool's body template over the input, or the input itself.
    pub prepared_payload: Value,
    /// What the result must look like.
    pub schema: Value,
    /// The receipt so far, to be completed with the client's result.
    pub pending: Box<ToolEnvelope>,
}

pub(super) fn prepare(ports: &Ports, receipt: Receipt, tool: &CompiledTool, input: &Value) -> Outcome {
    let shaped = match &tool.arguments {
        Some(template) => template.render(&Scope::new(input)).map(|evaluated| evaluated.value),
        None => Ok(input.clone()),
    };
    match shaped {
        Ok(prepared_payload) => {
            let call_id = receipt.call_id().clone();
            let mut pending = receipt.failed(
                ToolError::new(ErrorCode::Unknown, "the client has not returned a result").reason("awaiting_client"),
                ports.clock.now(),
            );
            pending.metadata.execution_site = Some(ExecutionSite::Client);
            let schema = tool.output.source().clone();
            Outcome::Client(Box::new(ClientAction { call_id, prepared_payload, schema, pending: Box::new(pending) }))
        }
        Err(error) => {
            let error = ToolError::new(ErrorCode::ValidationError, error.to_string()).reason("template");
            Outcome::done(receipt.failed(error, ports.clock.now()))
        }
    }
}
