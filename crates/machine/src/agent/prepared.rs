//! The facts of a reply's calls are known: each gets its id and is refused, put to a person, or queued.

use std::time::Duration;

use toolwright_types::{Arguments, RequestedCall, Timestamp};

use super::Prepared;
use super::call::{Batch, Call, CallState, input_of};
use super::decide::{Question, decide};
use super::desk::Desk;
use super::run::{AgentRun, Phase};

pub(super) fn prepared(run: &mut AgentRun, results: Vec<Prepared>) {
    let Phase::Preparing(requested) = std::mem::replace(&mut run.phase, Phase::Model) else {
        return;
    };
    let (_, mut desk) = run.counter();
    // Ids are given in the order of emission; only then may anything be refused, or a call would count as
    // a repeat of its neighbour.
    let entered: Vec<(Call, bool, Prepared)> =
        requested.into_iter().zip(results).map(|(call, result)| enter(&mut desk, call, result)).collect();
    let calls = entered
        .into_iter()
        .map(|(mut call, malformed, result)| {
            settle(&mut desk, &mut call, malformed, result);
            call
        })
        .collect();
    run.phase = Phase::Calling(Batch::new(calls));
}

/// A call of which nothing but the model's wish is known, for a run that ends before it is prepared.
pub(super) fn unprepared(desk: &mut Desk<'_>, requested: RequestedCall) -> Call {
    let name = requested.name.clone();
    new_call(desk, requested, &name, "")
}

fn enter(desk: &mut Desk<'_>, requested: RequestedCall, result: Prepared) -> (Call, bool, Prepared) {
    let malformed = matches!(requested.arguments, Arguments::Malformed(_));
    let (name, version) = result.tool();
    let call = new_call(desk, requested, name, version);
    (call, malformed, result)
}

fn new_call(desk: &mut Desk<'_>, requested: RequestedCall, name: &str, version: &str) -> Call {
    let input = input_of(&requested.arguments);
    let entry = desk.ledger.enter(name, version, &input);
    Call {
        model_id: requested.id,
        asked_name: requested.name,
        call_id: entry.call_id,
        signature: entry.signature,
        name: name.to_owned(),
        version: version.to_owned(),
        input,
        facts: None,
        repeat: entry.repeat,
        edited_from: None,
        since: desk.now,
        intended: None,
        attempt: 0,
        state: CallState::Queued,
    }
}

fn settle(desk: &mut Desk<'_>, call: &mut Call, malformed: bool, result: Prepared) {
    let question = Question { input: &call.input, malformed, repeat: call.repeat };
    let decision = decide(desk.spec, &question, &result);
    if let Prepared::Ready(facts) = &result {
        call.facts = Some((**facts).clone());
    }
    match decision {
        Err(error) => desk.refuse_prepared(call, error, result),
        Ok(because) if because.is_empty() => {}
        Ok(because) => call.state = CallState::Asked { because, at: desk.now, expires_at: approval_expiry(desk) },
    }
}

pub(super) fn approval_expiry(desk: &Desk<'_>) -> Option<Timestamp> {
    desk.spec.approval_wait_ms.map(|wait| desk.now.later(Duration::from_millis(wait)))
}
