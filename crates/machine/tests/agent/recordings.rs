//! Runs that are answered from a recording, and runs that capture writes.

use proptest::prelude::*;
use serde_json::{Value, json};
use toolwright_machine::agent::{Effect, Event, EventKind};
use toolwright_machine::journal::recording::{Recording, comparison_summary};
use toolwright_machine::{AgentRun, Limits, RunStatus};
use toolwright_types::SideEffects;

use crate::harness::at;
use crate::script::{Script, ScriptedDriver, scripts};

/// Runs the agent of a script again. All answers come from the recording. Returns `None` if the recording lacks an
/// answer.
fn replayed(script: &Script, recording: &Recording) -> Option<AgentRun> {
    let mut spec = script.spec();
    spec.policy.capture_writes = true;
    let mut run = AgentRun::new(spec, at(0));
    loop {
        for effect in run.next() {
            let kind = match effect {
                Effect::CallModel { iteration, request } => recording.reply(iteration, &request)?,
                Effect::PrepareCalls { iteration, calls } => {
                    let known = calls.iter().map(|call| recording.preparation(&call.tool, &call.input).cloned());
                    EventKind::Prepared { iteration, calls: known.collect::<Option<_>>()? }
                }
                Effect::RunCall(call) => recording.ended(&call.call_id, &call.facts.name, &call.input)?,
                Effect::Finish { .. } => return Some(run),
                other => panic!("unexpected effect: {other:?}"),
            };
            run.apply(Event { at: at(0), kind }).unwrap();
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn run_answered_from_its_recording_gives_the_same_result(script in scripts()) {
        // The script has no timeout and a high tool call limit, because these limits could end the two runs
        // differently. Denied calls count toward the tool call limit only in the replay, and time passes only in the
        // first run.
        let script = Script { limits: Limits { timeout_ms: None, max_tool_calls: 1000, max_iterations: 5, ..Limits::default() }, ..script };
        let (driver, _) = ScriptedDriver::new(&script, false).run_to_end();
        let outputs = driver.run.outputs();
        let recording = Recording::from_entries(&driver.journal).unwrap();
        let whole = recording.calls.len() == outputs.tool_order.len();
        let edited = outputs.in_order().any(|envelope| envelope.metadata.edited_from.is_some());
        prop_assume!(whole && !edited && driver.run.status() != RunStatus::Cancelled);
        let again = replayed(&script, &recording).expect("the recording is complete");
        prop_assert_eq!(comparison_summary(&again), comparison_summary(&driver.run));
    }

    #[test]
    fn run_that_captures_writes_never_asks_for_an_approval_or_a_client_action(script in scripts()) {
        let mut script = script;
        script.policy.capture_writes = true;
        let (driver, ended) = ScriptedDriver::new(&script, true).run_to_end();
        prop_assert!(ended);
        for effect in driver.log.iter().filter_map(|written| serde_json::from_str::<Value>(written).ok()) {
            let kind = effect["type"].as_str().unwrap();
            prop_assert!(!["request_approval", "request_client_action", "verify_call"].contains(&kind), "{}", effect);
            if kind == "run_call" && effect["facts"]["effects"] == json!(SideEffects::Writes) {
                prop_assert_eq!(&effect["captured"], &json!(true), "{}", effect);
            }
        }
        for envelope in driver.run.outputs().in_order() {
            let reason = envelope.error.as_ref().and_then(|error| error.details.as_ref()?.get("reason")?.as_str());
            prop_assert!(reason != Some("outcome_unknown"), "a captured call has no unknown outcome: {:?}", envelope);
        }
    }
}

#[test]
fn recording_answers_no_model_calls_if_the_model_is_live() {
    let script = Script::example();
    let (driver, _) = ScriptedDriver::new(&script, false).run_to_end();
    let recording = Recording::from_entries(&driver.journal).unwrap();
    assert_eq!(replayed(&script, &recording).unwrap().outputs().response, "Hello.");
    assert!(replayed(&script, &Recording { live_model: true, ..recording }).is_none());
}
