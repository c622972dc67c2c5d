//! The client's part of a call: handed over, returned, or never heard of again.

use std::collections::HashSet;
use std::time::Duration;

use serde_json::Value;
use toolwright_types::{CallId, ErrorCode, ExecutionSite, ToolEnvelope, ToolError};

use super::call::CallState;
use super::depth::shallow;
use super::run::AgentRun;
use super::{ClientResult, ClientResultProblem, approval};

pub(super) fn handed_over(run: &mut AgentRun, payload: Value, schema: Value, pending: Box<ToolEnvelope>) {
    let id = pending.call_id.clone();
    run.with_call(&id, |call, desk| {
        call.state = CallState::Handed {
            payload: shallow(payload),
            schema: shallow(schema),
            pending,
            at: desk.now,
            expires_at: desk.spec.client_wait_ms.map(|wait| desk.now.later(Duration::from_millis(wait))),
        };
    });
}

pub(super) fn returned(run: &mut AgentRun, id: &CallId, result: ClientResult) {
    let (output, error) = match result {
        ClientResult::Output(output) => (output, None),
        ClientResult::Error(error) => (Value::Null, Some(error)),
    };
    complete(run, id, output, error);
}

/// Nobody answered in time: the client, or the person who was asked.
pub(super) fn expired(run: &mut AgentRun, id: &CallId) {
    let call = run.batch().and_then(|batch| batch.find(id));
    if call.is_some_and(|call| matches!(call.state, CallState::Handed { .. })) {
        let error = ToolError::new(ErrorCode::Timeout, "the client returned no result in time");
        complete(run, id, Value::Null, Some(error.reason("client_expired")));
    } else {
        approval::expired(run, id);
    }
}

fn complete(run: &mut AgentRun, id: &CallId, output: Value, error: Option<ToolError>) {
    run.with_call(id, |call, desk| {
        let CallState::Handed { pending, .. } = &call.state else {
            return;
        };
        let mut envelope = ToolEnvelope { output, error, ..(**pending).clone() };
        envelope.t_end = desk.now.max(envelope.t_start);
        envelope.metadata.execution_site = Some(ExecutionSite::Client);
        envelope.metadata.attempt = envelope.metadata.attempt.max(1);
        desk.close(call, envelope);
    });
}

impl AgentRun {
    /// Everything that is wrong with a set of results for the calls that wait for the client; a partial set is
    /// wrong only by what is missing.
    pub fn check_client_results(&self, given: &[CallId]) -> Vec<ClientResultProblem> {
        let waiting: Vec<CallId> = self.client_actions().into_iter().map(|request| request.call_id).collect();
        let mut seen = HashSet::new();
        let wrong = given.iter().filter_map(|id| {
            if !seen.insert(id) {
                Some(ClientResultProblem::Duplicate(id.clone()))
            } else if waiting.contains(id) {
                None
            } else if self.knows(id) {
                Some(ClientResultProblem::NotWaiting(id.clone()))
            } else {
                Some(ClientResultProblem::Unknown(id.clone()))
            }
        });
        let mut problems: Vec<ClientResultProblem> = wrong.collect();
        problems.extend(
            waiting.iter().filter(|id| !given.contains(id)).map(|id| ClientResultProblem::Missing((*id).clone())),
        );
        problems
    }
}
