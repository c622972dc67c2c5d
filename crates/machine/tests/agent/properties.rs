//! Property tests: rules that must hold for every random script.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, TestRunner};
use toolwright_machine::AgentRun;
use toolwright_machine::agent::{ApplyOutcome, Event, EventKind};
use toolwright_types::Message;

use crate::harness::{at, reason};
use crate::script::{INTERRUPTED, Script, ScriptedDriver, requested_calls, scripts};

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_run_ends_within_its_iteration_and_tool_call_limits(script in scripts()) {
        let (driver, ended) = ScriptedDriver::new(&script, false).run_to_end();
        prop_assert!(ended, "{} turns", driver.turns);
        let resource_usage = driver.run.resource_usage();
        prop_assert!(resource_usage.iterations <= script.limits.max_iterations);
        prop_assert!(resource_usage.tool_calls <= script.limits.max_tool_calls);
        prop_assert!(driver.run.status().is_terminal() && !driver.run.suspended());
    }

    #[test]
    fn every_requested_call_has_exactly_one_envelope(script in scripts()) {
        let (driver, _) = ScriptedDriver::new(&script, false).run_to_end();
        let outputs = driver.run.outputs();
        prop_assert_eq!(outputs.tools_by_id.len(), requested_calls(driver.run.messages()).len());
        prop_assert_eq!(outputs.tools_by_id.keys().cloned().collect::<Vec<_>>(), outputs.tool_order.clone());
        let last = outputs.in_order().rfind(|envelope| envelope.is_success());
        prop_assert_eq!(last, outputs.last_tool.as_ref());
        for envelope in outputs.in_order() {
            prop_assert!(envelope.error.is_none() || envelope.output.is_null());
        }
    }

    #[test]
    fn cost_and_tokens_of_a_run_are_the_sums_of_its_model_calls_and_tool_calls(script in scripts()) {
        let (driver, _) = ScriptedDriver::new(&script, false).run_to_end();
        let (usage, outputs) = (driver.run.resource_usage(), driver.run.outputs());
        let model_calls = driver.run.model_calls();
        let costs = model_calls.iter().filter_map(|call| call.cost_usd);
        let costs = costs.chain(outputs.in_order().filter_map(|envelope| envelope.metadata.cost_usd));
        let (count, total) = costs.fold((0.0, 0.0), |(count, total), cost| (count + 1.0, total + cost));
        // Each addition rounds to a billionth of a dollar.
        prop_assert!((usage.cost_usd - total).abs() <= 1e-9 * count, "{} != {total}", usage.cost_usd);
        let tokens: u64 = model_calls.iter().map(|call| call.usage.total()).sum();
        let child_tokens = outputs.in_order().filter_map(|envelope| envelope.metadata.child_run.as_ref());
        prop_assert_eq!(usage.usage.total(), tokens + child_tokens.map(|child| child.usage.total()).sum::<u64>());
    }

    #[test]
    fn tool_messages_follow_call_order(script in scripts()) {
        let (driver, _) = ScriptedDriver::new(&script, false).run_to_end();
        let mut messages = driver.run.messages().iter().peekable();
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
    fn saving_and_restoring_after_every_event_changes_nothing(script in scripts()) {
        let (straight, _) = ScriptedDriver::new(&script, false).run_to_end();
        let (restored, _) = ScriptedDriver::new(&script, true).run_to_end();
        prop_assert_eq!(straight.log, restored.log);
        prop_assert_eq!(straight.run.save(), restored.run.save());
        prop_assert_eq!(straight.run, restored.run);
    }

    #[test]
    fn effect_is_issued_once_between_interruptions(script in scripts()) {
        let (driver, _) = ScriptedDriver::new(&script, false).run_to_end();
        for sure in driver.log.split(|effect| effect == INTERRUPTED) {
            let different: BTreeSet<&String> = sure.iter().collect();
            prop_assert_eq!(different.len(), sure.len());
        }
    }

    #[test]
    fn events_after_the_end_never_change_the_run(script in scripts()) {
        let (mut driver, _) = ScriptedDriver::new(&script, false).run_to_end();
        let before = driver.run.clone();
        for kind in [EventKind::TimerFired, EventKind::Cancelled { message: None }] {
            prop_assert_eq!(driver.run.apply(Event { at: at(1_000_000), kind }), Ok(ApplyOutcome::AlreadyEnded));
        }
        prop_assert!(driver.run == before && driver.run.next().is_empty());
    }

    #[test]
    fn restoring_a_run_from_random_text_fails(text in ".{0,200}") {
        prop_assert!(AgentRun::restore(&text).is_err());
    }
}

/// Checks that the random scripts produce every status and reason. Otherwise the property tests above would not test
/// all rules.
#[test]
fn random_scripts_produce_every_run_status_and_refusal_reason() {
    let mut runner = TestRunner::new_with_rng(
        Config::default(),
        proptest::test_runner::TestRng::deterministic_rng(proptest::test_runner::RngAlgorithm::ChaCha),
    );
    let mut met: BTreeMap<String, usize> = BTreeMap::new();
    for _ in 0..1_500 {
        let script: Script = scripts().new_tree(&mut runner).unwrap().current();
        let (driver, _) = ScriptedDriver::new(&script, false).run_to_end();
        let ending = driver.run.ending().unwrap();
        *met.entry(format!("{}", ending.status)).or_default() += 1;
        let reasons = driver.run.outputs().in_order().filter_map(reason).collect::<Vec<_>>();
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
        assert!(met.contains_key(expected), "no script produces `{expected}`: {met:?}");
    }
}
