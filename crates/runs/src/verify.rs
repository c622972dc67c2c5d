//! Asks a tool's verify operation whether an interrupted write took effect.
//!
//! A verify operation is an ordinary tool and is called like any tool. Its input contains the original input, the
//! idempotency key that was sent with the write, and the time of the intent. Its output is `{"outcome": "done",
//! "output": …}`, `{"outcome": "not_done"}` or `{"outcome": "unknown"}`.

use serde_json::{Value, json};
use toolwright_tools::{CallContext, CallOutcome, CallRequest, CallSequence, Executor, Preparation, ReadyCall};
use toolwright_types::Timestamp;

use super::ports::START_WITHIN;

/// The answer of a verify operation.
pub(super) enum Verified {
    Done(Value),
    NotDone,
    /// The outcome cannot be determined, for this reason.
    Unknown(String),
}

/// Waits until no attempt of the write can be in progress, and then asks the verify operation.
pub(super) async fn ask(executor: &Executor, cx: &CallContext, write: &ReadyCall, intended_at: Timestamp) -> Verified {
    let Some(verify) = write.tool.definition.verify_tool_ref.clone() else {
        return Verified::Unknown("the tool has no `verifyToolRef` any more".to_owned());
    };
    executor.wait_until(intended_at, write.tool.limits.total + START_WITHIN).await;
    let input = json!({
        "input": write.input,
        "idempotencyKey": executor.idempotency_key(cx, write),
        "intendedAt": intended_at,
    });
    let request = CallRequest { tool: verify.clone(), version: None, input };
    let prepared = executor.prepare(cx, request, &mut CallSequence::default()).await;
    let envelope = match prepared {
        Preparation::Refused(envelope) => envelope,
        Preparation::Ready(ready) => match executor.call(cx, *ready).await {
            CallOutcome::Done(envelope) => envelope,
            CallOutcome::Client(_) => return Verified::Unknown(format!("`{verify}` is performed by a client")),
        },
    };
    if let Some(error) = &envelope.error {
        return Verified::Unknown(format!("`{verify}` failed: {}", error.message));
    }
    match envelope.output.get("outcome").and_then(Value::as_str) {
        Some("done") => Verified::Done(envelope.output.get("output").cloned().unwrap_or_default()),
        Some("not_done") => Verified::NotDone,
        _ => Verified::Unknown(format!("`{verify}` does not know")),
    }
}
