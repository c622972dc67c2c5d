//! Calls the fallback of a tool that failed, with the same checks as any other call.

use tokio::time::Instant;
use toolwright_types::ToolEnvelope;

use super::attempts::{Attempt, BackendReply};
use super::envelope_builder::EnvelopeBuilder;
use super::nested::{MAX_DEPTH, NestedCallKind};
use super::{CallOutcome, CallRequest, CallSequence, Executor};
use crate::ToolFailure;

impl Executor {
    pub(super) async fn fall_back(
        &self,
        call: Attempt<'_>,
        other: String,
        failure: ToolFailure,
        deadline: Instant,
        envelope_builder: &mut EnvelopeBuilder,
    ) -> Result<BackendReply, ToolFailure> {
        envelope_builder.set_http(failure.http_status, Default::default());
        if call.cx.depth >= MAX_DEPTH {
            return Err(with_detail(
                failure,
                format!("fallback `{other}` was not tried: {MAX_DEPTH} levels of fallback"),
            ));
        }
        // The deadline applies to the whole call, including its fallback.
        let request = CallRequest { tool: other.clone(), version: None, input: call.input.clone() };
        let mut sequence = CallSequence::default();
        let fallback = Box::pin(self.call_nested(call, NestedCallKind::Fallback, request, &mut sequence));
        let Ok(outcome) = tokio::time::timeout_at(deadline, fallback).await else {
            return Err(with_detail(failure, format!("fallback `{other}` did not answer before the deadline")));
        };
        match outcome {
            CallOutcome::Done(envelope) if envelope.is_success() => {
                Ok(reply_from(*envelope, &failure, envelope_builder))
            }
            CallOutcome::Done(envelope) => {
                let why = envelope.error.map(|error| format!("{}: {}", error.code, error.message)).unwrap_or_default();
                Err(with_detail(failure, format!("fallback `{other}` failed too: {why}")))
            }
            CallOutcome::Client(_) => Err(with_detail(failure, format!("fallback `{other}` requires the client"))),
        }
    }
}

fn reply_from(envelope: ToolEnvelope, failure: &ToolFailure, envelope_builder: &mut EnvelopeBuilder) -> BackendReply {
    envelope_builder.warn(format!(
        "answered by fallback `{}@{}` after {}: {}",
        envelope.name, envelope.version, failure.error.code, failure.error.message
    ));
    envelope_builder.set_source(envelope.metadata.source);
    envelope_builder.add_messages(envelope.metadata.messages);
    BackendReply {
        output: envelope.output,
        attachments: envelope.attachments,
        truncated: envelope.truncated,
        ..BackendReply::default()
    }
}

fn with_detail(mut failure: ToolFailure, fallback: String) -> ToolFailure {
    failure.error = failure.error.detail("fallback", fallback);
    failure
}
