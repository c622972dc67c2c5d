//! The client's part of a call: handing the call to the client, applying the client's result, and expiry.

use std::collections::HashSet;
use std::time::Duration;

use serde_json::Value;
use toolwright_types::{CallId, ErrorCode, ExecutionSite, ToolEnvelope, ToolError};

use super::call::CallState;
use super::depth::limit_depth;
use super::run::AgentRun;
use super::{ClientResult, ClientResultError, approval};

pub(super) fn hand_over(run: &mut AgentRun, payload: Value, schema: Value, pending: Box<ToolEnvelope>) {
    let id = pending.call_id.clone();
    run.with_call(&id, |call, closer| {
        call.state = CallState::AwaitingClient {
            payload: limit_depth(payload),
            schema: limit_depth(schema),
            pending,
            at: closer.now,
            expires_at: closer.spec.client_wait_ms.map(|wait| closer.now.saturating_add(Duration::from_millis(wait))),
        };
    });
}

pub(super) fn apply_result(run: &mut AgentRun, id: &CallId, result: ClientResult) {
    let (output, error) = match result {
        ClientResult::Output(output) => (output, None),
        ClientResult::Error(error) => (Value::Null, Some(error)),
    };
    complete_call(run, id, output, error);
}

/// Ends a call that waited too long for the client or for an approval.
pub(super) fn expire(run: &mut AgentRun, id: &CallId) {
    let call = run.batch().and_then(|batch| batch.find(id));
    if call.is_some_and(|call| matches!(call.state, CallState::AwaitingClient { .. })) {
        let error = ToolError::new(ErrorCode::Timeout, "the client returned no result in time");
        complete_call(run, id, Value::Null, Some(error.reason("client_expired")));
    } else {
        approval::expire(run, id);
    }
}

fn complete_call(run: &mut AgentRun, id: &CallId, output: Value, error: Option<ToolError>) {
    run.with_call(id, |call, closer| {
        let CallState::AwaitingClient { pending, .. } = &call.state else {
            return;
        };
        let mut envelope = ToolEnvelope { output, error, ..(**pending).clone() };
        envelope.t_end = closer.now.max(envelope.t_start);
        envelope.metadata.execution_site = Some(ExecutionSite::Client);
        envelope.metadata.attempt = envelope.metadata.attempt.max(1);
        closer.close(call, envelope);
    });
}

impl AgentRun {
    /// Checks a set of results for the calls that await the client. Each result must be for a different waiting call,
    /// and each waiting call needs a result. Returns every problem.
    pub fn check_client_results(&self, given: &[CallId]) -> Vec<ClientResultError> {
        let waiting: Vec<CallId> = self.pending_client_actions().into_iter().map(|request| request.call_id).collect();
        let mut seen = HashSet::new();
        let invalid = given.iter().filter_map(|id| {
            if !seen.insert(id) {
                Some(ClientResultError::Duplicate(id.clone()))
            } else if waiting.contains(id) {
                None
            } else if self.has_seen_call(id) {
                Some(ClientResultError::NotWaiting(id.clone()))
            } else {
                Some(ClientResultError::Unknown(id.clone()))
            }
        });
        let mut problems: Vec<ClientResultError> = invalid.collect();
        problems.extend(
            waiting.iter().filter(|id| !given.contains(id)).map(|id| ClientResultError::Missing((*id).clone())),
        );
        problems
    }
}
