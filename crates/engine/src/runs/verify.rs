//! Asks a tool's `verify` operation whether an earlier write was made.
//!
//! The operation is a tool like any other and takes the same path. It is given the original input, the idempotency key
//! that was sent with the write, and when the write was intended; it answers `{"outcome": "done", "output": …}`,
//! `{"outcome": "not_done"}` or `{"outcome": "unknown"}`.

use serde_json::{Value, json};
use toolwright_tools::{CallContext, CallRequest, CallSequence, Executor, Outcome, Prepared, ReadyCall};
use toolwright_types::Timestamp;

use super::driver::BEGUN_WITHIN;

/// What is known of an earlier write.
pub(super) enum Verified {
    Done(Value),
    NotDone,
    /// And why not more.
    Unknown(String),
}

/// Asks, once no attempt of the write can be under way any more.
pub(super) async fn ask(executor: &Executor, cx: &CallContext, write: &ReadyCall, intended_at: Timestamp) -> Verified {
    let Some(verify) = write.tool.definition.verify_tool_ref.clone() else {
        return Verified::Unknown("the tool has no `verifyToolRef` any more".to_owned());
    };
    executor.wait_until(intended_at, write.tool.limits.total + BEGUN_WITHIN).await;
    let input = json!({
        "input": write.input,
        "idempotencyKey": executor.idempotency_key(cx, write),
        "intendedAt": intended_at,
    });
    let request = CallRequest { tool: verify.clone(), version: None, input };
    let prepared = executor.prepare(cx, request, &mut CallSequence::default()).await;
    let envelope = match prepared {
        Prepared::Refused(envelope) => envelope,
        Prepared::Ready(ready) => match executor.call(cx, *ready).await {
            Outcome::Done(envelope) => envelope,
            Outcome::Client(_) => return Verified::Unknown(format!("`{verify}` is performed by a client")),
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
