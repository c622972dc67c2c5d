//! Another tool instead of the one that failed, through the same path.

use tokio::time::Instant;
use toolwright_types::ToolEnvelope;

use super::receipt::Receipt;
use super::run::{Attempt, Reply};
use super::within::{DEEPEST, Role};
use super::{CallRequest, CallSequence, Executor, Outcome};
use crate::ToolFailure;

impl Executor {
    pub(super) async fn fall_back(
        &self,
        call: Attempt<'_>,
        other: String,
        failure: ToolFailure,
        deadline: Instant,
        receipt: &mut Receipt,
    ) -> Result<Reply, ToolFailure> {
        receipt.http(failure.http_status, Default::default());
        if call.cx.depth >= DEEPEST {
            return Err(with_detail(
                failure,
                format!("fallback `{other}` was not tried: {DEEPEST} levels of fallback"),
            ));
        }
        // The caller's deadline is for the whole call, whoever answers it.
        let request = CallRequest { tool: other.clone(), version: None, input: call.input.clone() };
        let mut sequence = CallSequence::default();
        let instead = Box::pin(self.call_within(call, Role::StandIn, request, &mut sequence));
        let Ok(outcome) = tokio::time::timeout_at(deadline, instead).await else {
            return Err(with_detail(failure, format!("fallback `{other}` did not answer in the time that was left")));
        };
        match outcome {
            Outcome::Done(envelope) if envelope.is_success() => Ok(reply_of(*envelope, &failure, receipt)),
            Outcome::Done(envelope) => {
                let why = envelope.error.map(|error| format!("{}: {}", error.code, error.message)).unwrap_or_default();
                Err(with_detail(failure, format!("fallback `{other}` failed too: {why}")))
            }
            Outcome::Client(_) => Err(with_detail(failure, format!("fallback `{other}` needs the client"))),
        }
    }
}

fn reply_of(envelope: ToolEnvelope, failure: &ToolFailure, receipt: &mut Receipt) -> Reply {
    receipt.warn(format!(
        "answered by fallback `{}@{}` after {}: {}",
        envelope.name, envelope.version, failure.error.code, failure.error.message
    ));
    receipt.source(envelope.metadata.source);
    Reply {
        output: envelope.output,
        attachments: envelope.attachments,
        truncated: envelope.truncated,
        ..Reply::default()
    }
}

fn with_detail(mut failure: ToolFailure, fallback: String) -> ToolFailure {
    failure.error = failure.error.detail("fallback", fallback);
    failure
}
