//! What holds for every run, whatever happens in it.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, TestRunner};
use toolwright_machine::AgentRun;
use toolwright_machine::agent::{Applied, Event, Happened};
use toolwright_types::Message;

use crate::bench::{at, reason};
use crate::script::{DOUBT, Player, Script, asked, scripts};

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_run_ends_within_its_bounds(script in scripts()) {
        let (player, ended) = Player::new(&script, false).play();
        prop_assert!(ended, "{} steps", player.steps);
        let spent = player.run.spent();
        prop_assert!(spent.iterations <= script.limits.max_iterations);
        prop_assert!(spent.tool_calls <= script.limits.max_tool_calls);
        prop_assert!(player.run.status().is_end() && !player.run.suspended());
    }

    #[test]
    fn every_call_that_was_asked_for_has_exactly_one_receipt(script in scripts()) {
        let (player, _) = Player::new(&script, false).play();
        let outputs = player.run.outputs();
        prop_assert_eq!(outputs.tools_by_id.len(), asked(player.run.messages()).len());
        prop_assert_eq!(outputs.tools_by_id.keys().cloned().collect::<Vec<_>>(), outputs.tool_order.clone());
        let last = outputs.in_order().rfind(|envelope| envelope.is_success());
        prop_assert_eq!(last, outputs.last_tool.as_ref());
        for envelope in outputs.in_order() {
            prop_assert!(envelope.error.is_none() || envelope.output.is_null());
        }
    }

    #[test]
    fn results_are_told_in_the_order_of_the_calls(script in scripts()) {
        let (player, _) = Player::new(&script, false).play();
        let mut messages = player.run.messages().iter().peekable();
        while let Some(message) = messages.next() {
            if let Message::Assistant { tool_calls, .. } = message {
                for call in tool_calls {
                    let Some(Message::Tool { id, name, .. }) = messages.next() else {
                        return Err(TestCaseError::fail("a call without a result"));
                    };
                    prop_assert_eq!((id, name), (&call.id, &call.name));
                }
            }
            prop_assert!(!matches!(messages.peek(), Some(Message::Tool { .. })), "a result without a call");
        }
    }

    #[test]
    fn saving_and_restoring_at_every_step_changes_nothing(script in scripts()) {
        let (straight, _) = Player::new(&script, false).play();
        let (restored, _) = Player::new(&script, true).play();
        prop_assert_eq!(straight.log, restored.log);
        prop_assert_eq!(straight.run.save(), restored.run.save());
        prop_assert_eq!(straight.run, restored.run);
    }

    #[test]
    fn no_effect_is_handed_out_twice_unless_its_outcome_was_in_doubt(script in scripts()) {
        let (player, _) = Player::new(&script, false).play();
        for sure in player.log.split(|effect| effect == DOUBT) {
            let different: BTreeSet<&String> = sure.iter().collect();
            prop_assert_eq!(different.len(), sure.len());
        }
    }

    #[test]
    fn nothing_changes_after_the_end(script in scripts()) {
        let (mut player, _) = Player::new(&script, false).play();
        let before = player.run.clone();
        for what in [Happened::TimePassed, Happened::Cancelled { message: None }] {
            prop_assert_eq!(player.run.apply(Event { at: at(1_000_000), what }), Ok(Applied::Late));
        }
        prop_assert!(player.run == before && player.run.next().is_empty());
    }

    #[test]
    fn arbitrary_text_is_refused_without_harm(text in ".{0,200}") {
        prop_assert!(AgentRun::restore(&text).is_err());
    }
}

/// A property over scripts says something about a rule only if some script meets it.
#[test]
fn the_scripts_meet_every_ending_and_every_refusal() {
    let mut runner = TestRunner::new_with_rng(
        Config::default(),
        proptest::test_runner::TestRng::deterministic_rng(proptest::test_runner::RngAlgorithm::ChaCha),
    );
    let mut met: BTreeMap<String, usize> = BTreeMap::new();
    for _ in 0..1_500 {
        let script: Script = scripts().new_tree(&mut runner).unwrap().current();
        let (player, _) = Player::new(&script, false).play();
        let ending = player.run.ending().unwrap();
        *met.entry(format!("{}", ending.status)).or_default() += 1;
        let reasons = player.run.outputs().in_order().filter_map(reason).collect::<Vec<_>>();
        for reason in reasons.into_iter().chain(ending.reason.clone()) {
            *met.entry(reason).or_default() += 1;
        }
    }
    for expected in [
        "COMPLETED",
        "MAX_ITERATIONS",
        "TIMEOUT",
        "BUDGET_EXCEEDED",
        "ERROR",
        "CANCELLED",
        "MAX_TOOL_CALLS_EXCEEDED",
        "MAX_TOKENS_EXCEEDED",
        "MAX_COST_EXCEEDED",
        "approval_denied",
        "approval_expired",
        "client_expired",
        "content_filter",
        "definition_changed",
        "empty_reply",
        "input_schema",
        "malformed_json",
        "no_delete",
        "not_allowed",
        "refusal",
        "side_effects",
        "suppressed_repeat",
        "unknown_tool",
    ] {
        assert!(met.contains_key(expected), "no script meets `{expected}`: {met:?}");
    }
}
