//! Client tools: the server validates and authorizes the call and prepares the payload, then the client performs the
//! action.

use serde_json::Value;
use tokio::time::Instant;
use toolwright_expr::Scope;
use toolwright_types::{CallId, ErrorCode, ExecutionSite, SideEffects, ToolEnvelope, ToolError};

use super::attempts::{self, Attempt, AttemptsResult, IdempotencyKey};
use super::call_messages::CallMessages;
use super::envelope_builder::EnvelopeBuilder;
use super::nested_calls::NestedCalls;
use super::queue_timer::QueueTimer;
use super::redact::Redactor;
use super::resolve::ReadyCall;
use super::{CallOutcome, Executor, secrets};
use crate::{CallContext, CompiledTool};

/// The action that the client must perform.
#[derive(Debug)]
pub struct ClientAction {
    /// The call whose result the client returns.
    pub call_id: CallId,
    /// The payload for the client. If the tool has a function or code, the payload is its output. Otherwise it is the
    /// tool's body template rendered with the input, or the input itself if there is no template.
    pub prepared_payload: Value,
    /// The schema of the result.
    pub schema: Value,
    /// The envelope of the call, which is completed when the client returns its result.
    pub pending: Box<ToolEnvelope>,
}

impl Executor {
    /// Prepares the payload of a client tool.
    pub(super) async fn hand_to_client(&self, cx: &CallContext, mut ready: ReadyCall) -> CallOutcome {
        let payload = if ready.tool.has_preflight {
            self.run_preflight(cx, &mut ready).await
        } else {
            render(&ready.tool, &ready.input)
        };
        let now = self.ports.clock.now();
        match payload {
            Ok(prepared_payload) => {
                CallOutcome::Client(Box::new(client_action(ready.envelope_builder, &ready.tool, prepared_payload, now)))
            }
            Err(error) => CallOutcome::done(ready.envelope_builder.failed(error, now)),
        }
    }

    /// Runs the tool's function or code, which prepares the payload. The function or code may read, but not write, so
    /// the server can run it again after a crash.
    async fn run_preflight(&self, cx: &CallContext, ready: &mut ReadyCall) -> Result<Value, ToolError> {
        let (ports, tool) = (&*self.ports, &ready.tool);
        let identified = secrets::identify(ports, cx, tool).await?;
        ready.envelope_builder.set_secret_scope(&identified);
        let deadline = Instant::now() + tool.limits.total;
        let secrets = secrets::reveal(ports, cx, tool, &identified, deadline).await?;
        let redactor = Redactor::new(secrets.values());
        let call_id = ready.envelope_builder.call_id().clone();
        let key_call = ready.key_call().clone();
        let idempotency_key = IdempotencyKey::new(cx.run, ready.parent_key.as_deref(), &key_call);
        let (queue, nested_calls, messages) = (QueueTimer::default(), NestedCalls::default(), CallMessages::default());
        let attempt = Attempt {
            executor: self,
            cx,
            tool,
            input: &ready.input,
            effects: SideEffects::Reads,
            secrets: &secrets,
            redactor: &redactor,
            idempotency_key: &idempotency_key,
            call_id: &call_id,
            clock: &*ports.clock,
            queue: &queue,
            nested_calls: &nested_calls,
            messages: &messages,
        };
        let result = attempts::run(self.backend(tool), attempt, deadline).await;
        ready.envelope_builder.set_nested_calls(nested_calls.take());
        ready.envelope_builder.add_messages(messages.take());
        ready.envelope_builder.redact(&redactor);
        match result {
            AttemptsResult::Finished { result: Ok(reply), .. } => Ok(reply.output),
            AttemptsResult::Finished { result: Err(failure), .. } | AttemptsResult::Fallback { failure, .. } => {
                Err(failure.error)
            }
        }
    }
}

fn render(tool: &CompiledTool, input: &Value) -> Result<Value, ToolError> {
    let Some(template) = &tool.arguments else { return Ok(input.clone()) };
    let rendered = template.render(&Scope::new(input)).map(|evaluated| evaluated.value);
    rendered.map_err(|error| ToolError::new(ErrorCode::ValidationError, error.to_string()).reason("template"))
}

fn client_action(
    envelope_builder: EnvelopeBuilder,
    tool: &CompiledTool,
    prepared_payload: Value,
    now: toolwright_types::Timestamp,
) -> ClientAction {
    let call_id = envelope_builder.call_id().clone();
    let waiting = ToolError::new(ErrorCode::Unknown, "the client has not returned a result").reason("awaiting_client");
    let mut pending = envelope_builder.failed(waiting, now);
    pending.metadata.execution_site = Some(ExecutionSite::Client);
    ClientAction { call_id, prepared_payload, schema: tool.output.source().clone(), pending: Box::new(pending) }
}
