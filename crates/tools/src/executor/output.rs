//! Applies the response mapping to a reply and validates the result against the output schema.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::time::{Instant, timeout_at};
use toolwright_budget::{INLINE_STEPS, offload, within};
use toolwright_expr::{EvalError, Evaluation, Scope};
use toolwright_types::{ErrorCode, OnOutputMismatch, SchemaDifference, ToolError};

use super::attempts::{BackendReply, timeout_failure};
use super::envelope_builder::EnvelopeBuilder;
use crate::price::CallCost;
use crate::{CompiledTool, ToolFailure, Violation, drift};

pub(super) async fn map_and_check(
    tool: &Arc<CompiledTool>,
    input: &Value,
    result: Result<BackendReply, ToolFailure>,
    deadline: Instant,
    envelope_builder: &mut EnvelopeBuilder,
) -> Result<BackendReply, ToolFailure> {
    let mut reply = match result {
        Ok(reply) => reply,
        Err(failure) => {
            envelope_builder.set_http(failure.http_status, Default::default());
            envelope_builder.set_cost(failure.cost_usd);
            envelope_builder.set_child_run(failure.child_run.clone());
            return Err(failure);
        }
    };
    envelope_builder.set_http(reply.http_status, std::mem::take(&mut reply.headers));
    envelope_builder.set_cost(reply.cost_usd);
    envelope_builder.set_child_run(reply.child_run.clone());
    for warning in reply.warnings.drain(..) {
        envelope_builder.warn(warning);
    }
    examine(tool, Some(input), reply, deadline, envelope_builder).await
}

/// Validates the reply of a fallback against the output schema of `tool`, whose call failed. The reply is not mapped,
/// because the fallback has mapped it.
pub(super) async fn check(
    tool: &Arc<CompiledTool>,
    reply: BackendReply,
    deadline: Instant,
    envelope_builder: &mut EnvelopeBuilder,
) -> Result<BackendReply, ToolFailure> {
    examine(tool, None, reply, deadline, envelope_builder).await
}

/// Validates a reply. If `input` is present, maps the reply first. Work that takes long does not block the thread, and
/// stops at the deadline.
async fn examine(
    tool: &Arc<CompiledTool>,
    input: Option<&Value>,
    mut reply: BackendReply,
    deadline: Instant,
    envelope_builder: &mut EnvelopeBuilder,
) -> Result<BackendReply, ToolFailure> {
    let examined = match within(INLINE_STEPS, || Examined::new(tool, input, &reply.output)) {
        Ok(examined) => examined,
        Err(_) => {
            let (tool_of_work, input) = (Arc::clone(tool), input.cloned());
            let output = std::mem::take(&mut reply.output);
            let work = offload(move || {
                let examined = Examined::new(&tool_of_work, input.as_ref(), &output);
                (examined, output)
            });
            let done = timeout_at(deadline, work).await.map_err(|_| timeout_failure(tool, tool.limits.total))?;
            let (examined, output) = done.map_err(|stopped| {
                let message = format!("the output cannot be mapped and checked: {stopped}");
                ToolFailure::fatal(ErrorCode::ProviderError, message).reason("budget_exceeded")
            })?;
            reply.output = output;
            examined
        }
    };
    let reply = examined.apply(tool, reply, envelope_builder)?;
    if Instant::now() > deadline {
        return Err(timeout_failure(tool, tool.limits.total));
    }
    Ok(reply)
}

/// The results of the mapping and of the validation.
struct Examined {
    mapped: Result<Option<Evaluation>, EvalError>,
    messages: Result<Vec<String>, EvalError>,
    violations: Vec<Violation>,
    drift: Vec<SchemaDifference>,
    /// The cost of the call. `None` if the tool has no price, and for the reply of a fallback, which has its own price.
    cost: Option<CallCost>,
}

impl Examined {
    fn new(tool: &CompiledTool, input: Option<&Value>, output: &Value) -> Self {
        let cost = input.and_then(|input| Some(tool.price.as_ref()?.cost(input, output)));
        let mapping = input.and_then(|input| Some((input, tool.mapping.as_ref()?)));
        let mapped = mapping.map(|(input, mapping)| mapping.apply(output, &Scope::new(input))).transpose();
        let mapping = input.and_then(|input| Some((input, tool.message_mapping.as_ref()?)));
        let messages = mapping.map(|(input, mapping)| mapping.apply(output, &Scope::new(input))).transpose();
        let messages = messages.map(|found| found.map(|found| message_texts(found.value)).unwrap_or_default());
        let mut examined = Self { mapped, messages, violations: Vec::new(), drift: Vec::new(), cost };
        let output = match &examined.mapped {
            Ok(Some(mapped)) => &mapped.value,
            Ok(None) => output,
            Err(_) => return examined,
        };
        if let Err(violations) = tool.output.check(output) {
            examined.drift = drift::compare_output(tool.output.source(), output, &violations);
            examined.violations = violations;
        }
        examined
    }

    fn apply(
        self,
        tool: &CompiledTool,
        mut reply: BackendReply,
        envelope_builder: &mut EnvelopeBuilder,
    ) -> Result<BackendReply, ToolFailure> {
        if let Some(CallCost { usd, warning }) = self.cost {
            // The external system has answered, so it charges for the call even if the answer cannot be used.
            envelope_builder.add_cost(usd);
            warning.into_iter().for_each(|warning| envelope_builder.warn(warning));
        }
        match self.messages {
            Ok(messages) => envelope_builder.add_messages(messages),
            Err(error) => envelope_builder.warn(format!("messageMapping failed: {error}")),
        }
        let mapped = self.mapped.map_err(|error| {
            ToolError::new(ErrorCode::ProviderError, format!("responseMapping failed: {error}"))
                .reason("response_mapping")
        })?;
        if let Some(mapped) = mapped {
            for warning in mapped.warnings {
                envelope_builder.warn(format!("responseMapping: {warning}"));
            }
            reply.output = mapped.value;
        }
        let Some(first) = self.violations.first() else { return Ok(reply) };
        let message = format!("the output does not match its schema: {first}");
        envelope_builder.set_drift(self.drift);
        match tool.definition.output_mismatch() {
            OnOutputMismatch::Warn => envelope_builder.warn(message),
            OnOutputMismatch::Fail => {
                let error = ToolError::new(ErrorCode::ProviderError, message);
                return Err(error.reason("output_schema").detail("errors", json!(self.violations)).into());
            }
        }
        Ok(reply)
    }
}

/// Returns the messages in the result of a message mapping: a text, or a list of texts. Ignores null and empty texts.
fn message_texts(found: Value) -> Vec<String> {
    let values = match found {
        Value::Array(values) => values,
        other => vec![other],
    };
    let texts = values.into_iter().filter(|value| !value.is_null()).map(|value| match value {
        Value::String(text) => text,
        other => other.to_string(),
    });
    texts.filter(|text| !text.is_empty()).collect()
}
