//! Applies the preparation of a reply's calls. Each call gets an id and is then refused, queued, or shown to a person
//! for approval.

use std::time::Duration;

use toolwright_types::{Arguments, RequestedCall, Timestamp};

use super::PreparedCall;
use super::call::{Batch, Call, CallState};
use super::closer::CallCloser;
use super::decide::{CallToDecide, decide};
use super::run::{AgentRun, Phase};
use super::workflow;

pub(super) fn apply_preparation(run: &mut AgentRun, iteration: u32, results: Vec<PreparedCall>) {
    if run.workflow.is_some() {
        return workflow::apply_preparation(run, iteration, results);
    }
    let Phase::Preparing(requested) = std::mem::replace(&mut run.phase, Phase::Model) else {
        return;
    };
    let (_, mut closer) = run.split_batch();
    let calls = decide_calls(&mut closer, requested, results);
    run.phase = Phase::Calling(Batch::new(calls));
}

/// Creates the calls that were prepared together, and decides on each of them.
pub(super) fn decide_calls(
    closer: &mut CallCloser<'_>,
    requested: Vec<RequestedCall>,
    results: Vec<PreparedCall>,
) -> Vec<Call> {
    // All ids are assigned before any call is refused. A refusal is a result, so an equal call later in the same reply
    // would otherwise count as a repeat.
    let registered: Vec<(Call, bool, PreparedCall)> =
        requested.into_iter().zip(results).map(|(call, result)| register_call(closer, call, result)).collect();
    let decided = registered.into_iter().map(|(mut call, malformed, result)| {
        decide_call(closer, &mut call, malformed, result);
        call
    });
    decided.collect()
}

/// Creates the call for a request that was not prepared because the run ended first.
pub(super) fn unprepared_call(closer: &mut CallCloser<'_>, requested: RequestedCall) -> Call {
    let name = requested.name.clone();
    new_call(closer, requested, &name, "")
}

fn register_call(
    closer: &mut CallCloser<'_>,
    requested: RequestedCall,
    result: PreparedCall,
) -> (Call, bool, PreparedCall) {
    let malformed = matches!(requested.arguments, Arguments::Malformed(_));
    let (name, version) = result.tool();
    let call = new_call(closer, requested, name, version);
    (call, malformed, result)
}

fn new_call(closer: &mut CallCloser<'_>, requested: RequestedCall, name: &str, version: &str) -> Call {
    let input = requested.arguments.to_value();
    let registered = closer.ledger.register(name, version, &input);
    Call {
        model_id: requested.id,
        requested_name: requested.name,
        call_id: registered.call_id,
        signature: registered.signature,
        name: name.to_owned(),
        version: version.to_owned(),
        input,
        facts: None,
        repeat: registered.repeat,
        edited_from: None,
        created_at: closer.now,
        intended_at: None,
        attempt: 0,
        step: None,
        state: CallState::Queued,
    }
}

fn decide_call(closer: &mut CallCloser<'_>, call: &mut Call, malformed: bool, result: PreparedCall) {
    let request = CallToDecide { input: &call.input, malformed, repeat: call.repeat };
    let decision = decide(closer.spec, &request, &result);
    let refused = match result {
        PreparedCall::Ready(facts) => {
            call.facts = Some(*facts);
            None
        }
        PreparedCall::Refused(envelope) => Some(envelope),
    };
    match (decision, refused) {
        (Err(error), Some(envelope)) => closer.refuse(call, error, *envelope),
        (Err(error), None) => closer.fail(call, error),
        (Ok(triggers), _) if triggers.is_empty() => {}
        (Ok(triggers), _) => {
            call.state = CallState::AwaitingApproval { triggers, at: closer.now, expires_at: approval_expiry(closer) }
        }
    }
}

pub(super) fn approval_expiry(closer: &CallCloser<'_>) -> Option<Timestamp> {
    closer.spec.approval_wait_ms.map(|wait| closer.now.saturating_add(Duration::from_millis(wait)))
}
