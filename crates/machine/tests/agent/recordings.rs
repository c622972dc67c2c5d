//! Runs that are answered as others were, and runs that change nothing.

use proptest::prelude::*;
use serde_json::{Value, json};
use toolwright_machine::agent::{Effect, Event, Happened};
use toolwright_machine::journal::recording::{Recording, compared};
use toolwright_machine::{AgentRun, Limits, RunStatus};
use toolwright_types::SideEffects;

use crate::bench::at;
use crate::script::{Player, Script, scripts};

/// Runs a script's agent once more, with nothing but a recording to answer it; none when it cannot answer.
fn replayed(script: &Script, recording: &Recording) -> Option<AgentRun> {
    let mut spec = script.spec();
    spec.policy.captures = true;
    let mut run = AgentRun::new(spec, at(0));
    loop {
        for effect in run.next() {
            let what = match effect {
                Effect::CallModel { step, request } => recording.reply(step, &request)?,
                Effect::PrepareCalls { step, calls } => {
                    let known = calls.iter().map(|call| recording.preparation(&call.tool, &call.input).cloned());
                    Happened::Prepared { step, calls: known.collect::<Option<_>>()? }
                }
                Effect::RunCall(call) => recording.ended(&call.call_id, &call.facts.name, &call.input)?,
                Effect::Finish { .. } => return Some(run),
                other => panic!("nobody can be asked for this: {other:?}"),
            };
            run.apply(Event { at: at(0), what }).unwrap();
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn a_run_that_asks_the_same_comes_to_the_same(script in scripts()) {
        // What people denied was not counted as a call then, and time does not pass now.
        let script = Script { limits: Limits { timeout_ms: None, max_tool_calls: 1000, max_iterations: 5, ..Limits::default() }, ..script };
        let (player, _) = Player::new(&script, false).play();
        let outputs = player.run.outputs();
        let recording = Recording::of(&player.journal).unwrap();
        let whole = recording.calls.len() == outputs.tool_order.len();
        let edited = outputs.in_order().any(|receipt| receipt.metadata.edited_from.is_some());
        prop_assume!(whole && !edited && player.run.status() != RunStatus::Cancelled);
        let again = replayed(&script, &recording).expect("everything is recorded");
        prop_assert_eq!(compared(&again), compared(&player.run));
    }

    #[test]
    fn a_run_that_captures_asks_nobody_and_doubts_nothing(script in scripts()) {
        let mut script = script;
        script.policy.captures = true;
        let (player, ended) = Player::new(&script, true).play();
        prop_assert!(ended);
        for effect in player.log.iter().filter_map(|written| serde_json::from_str::<Value>(written).ok()) {
            let kind = effect["type"].as_str().unwrap();
            prop_assert!(!["ask_approval", "hand_to_client", "verify_call"].contains(&kind), "{}", effect);
            if kind == "run_call" && effect["facts"]["effects"] == json!(SideEffects::Writes) {
                prop_assert_eq!(&effect["captured"], &json!(true), "{}", effect);
            }
        }
        for receipt in player.run.outputs().in_order() {
            let reason = receipt.error.as_ref().and_then(|error| error.details.as_ref()?.get("reason")?.as_str());
            prop_assert!(reason != Some("outcome_unknown"), "what was captured was not made: {:?}", receipt);
        }
    }
}

#[test]
fn what_is_replaced_is_not_answered() {
    let script = Script::example();
    let (player, _) = Player::new(&script, false).play();
    let recording = Recording::of(&player.journal).unwrap();
    assert_eq!(replayed(&script, &recording).unwrap().outputs().response, "Hello.");
    assert!(replayed(&script, &Recording { replaced_model: true, ..recording }).is_none());
}
