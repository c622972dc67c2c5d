//! Compares the machine with a short reference interpreter, on random graphs.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Value, json};
use toolwright_machine::RunStatus;
use toolwright_machine::agent::CallToRun;
use toolwright_types::{ErrorCode, ToolError};

use crate::harness::{Harness, failure};

/// A random step. It depends only on earlier steps.
#[derive(Debug, Clone)]
struct RandomStep {
    depends_on: Vec<usize>,
    kind: Kind,
    /// Whether the condition is true.
    runs: bool,
    /// Whether the tool of the step fails.
    fails: bool,
    on_error: OnError,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    Tool,
    Transform,
    Each,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum OnError {
    Fail,
    Continue,
    /// The fallback is the next step, if it is a fallback of no other step.
    Fallback,
}

fn steps() -> impl Strategy<Value = Vec<RandomStep>> {
    let kind = prop_oneof![4 => Just(Kind::Tool), 1 => Just(Kind::Transform), 1 => Just(Kind::Each)];
    let on_error = prop_oneof![1 => Just(OnError::Fail), 2 => Just(OnError::Continue), 2 => Just(OnError::Fallback)];
    let step = (
        proptest::collection::vec(any::<proptest::sample::Index>(), 0..4),
        kind,
        prop::bool::weighted(0.85),
        prop::bool::weighted(0.25),
        on_error,
    );
    proptest::collection::vec(step, 1..12).prop_map(|steps| {
        let step =
            |(at, (indexes, kind, runs, fails, on_error)): (usize, (Vec<proptest::sample::Index>, _, _, _, _))| {
                let mut depends_on: Vec<usize> = match at {
                    0 => Vec::new(),
                    _ => indexes.iter().map(|index| index.index(at)).collect(),
                };
                depends_on.sort_unstable();
                depends_on.dedup();
                RandomStep { depends_on, kind, runs, fails: fails && kind != Kind::Transform, on_error }
            };
        steps.into_iter().enumerate().map(step).collect()
    })
}

fn fallback_of(steps: &[RandomStep], at: usize) -> Option<usize> {
    let has_fallback = steps[at].on_error == OnError::Fallback && at + 1 < steps.len();
    has_fallback.then_some(at + 1)
}

fn definition(steps: &[RandomStep]) -> Value {
    let step = |(at, step): (usize, &RandomStep)| {
        let sum = step.depends_on.iter().map(|from| format!(" + (s{from} == null ? 0 : 1)")).collect::<String>();
        let mut fields = json!({
            "name": format!("s{at}"),
            "handlerRef": if step.kind == Kind::Transform { "quantum.flow.transform" } else { "search" },
            "dependsOn": step.depends_on.iter().map(|from| format!("s{from}")).collect::<Vec<_>>(),
            "condition": if step.runs { "${1 < 2}" } else { "${input.none}" },
            "input": { "n": format!("${{0{sum}}}"), "fails": step.fails },
        });
        if step.kind == Kind::Each {
            fields["forEach"] = json!([1, 2]);
        }
        match (step.on_error, fallback_of(steps, at)) {
            (OnError::Continue, _) => fields["onError"] = json!("continue"),
            (OnError::Fallback, Some(to)) => fields["onError"] = json!({ "fallback": format!("s{to}") }),
            _ => {}
        }
        fields
    };
    json!({ "steps": steps.iter().enumerate().map(step).collect::<Vec<_>>() })
}

/// The reference: executes the steps one after the other. Returns the status and the output of each step, and whether
/// the workflow completes. The steps after an unhandled error are not compared.
fn interpret(steps: &[RandomStep]) -> (Vec<(&'static str, Value)>, bool) {
    let mut results: Vec<(&'static str, Value)> = Vec::new();
    for (at, step) in steps.iter().enumerate() {
        let is_target = at > 0 && fallback_of(steps, at - 1).is_some();
        let satisfies = |from: &usize| {
            results[*from].0 == "COMPLETED"
                || (results[*from].0 == "FAILED" && steps[*from].on_error == OnError::Continue)
        };
        let activated = if is_target {
            results[at - 1].0 == "FAILED"
        } else {
            step.depends_on.is_empty() || step.depends_on.iter().any(satisfies)
        };
        if !activated || !step.runs {
            results.push(("SKIPPED", Value::Null));
            continue;
        }
        let n = step.depends_on.iter().filter(|from| !results[**from].1.is_null()).count();
        let one = if step.fails { Value::Null } else { json!({ "n": n, "fails": step.fails }) };
        let output = if step.kind == Kind::Each { json!([one, one]) } else { one };
        results.push((if step.fails { "FAILED" } else { "COMPLETED" }, output));
        if step.fails && step.on_error != OnError::Continue && fallback_of(steps, at).is_none() {
            return (results, false);
        }
    }
    (results, true)
}

fn answer(call: &CallToRun) -> Result<Value, ToolError> {
    if call.input["fails"] == json!(true) { Err(failure(ErrorCode::ProviderError)) } else { Ok(call.input.clone()) }
}

/// Executes calls in a random order.
fn execute(steps: &[RandomStep], choices: &[usize]) -> Harness {
    let yaml = serde_norway::to_string(&definition(steps)).unwrap();
    let mut run = Harness::start(&yaml, json!({}));
    for turn in 0..1000 {
        run.prepare();
        let running = run.running();
        if running.is_empty() {
            break;
        }
        let call = &running[choices[turn % choices.len()] % running.len()];
        run.end_call(call, answer(call));
    }
    run
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn machine_and_reference_interpreter_agree(
        steps in steps(),
        choices in proptest::collection::vec(any::<usize>(), 1..20),
    ) {
        let (expected, completes) = interpret(&steps);
        let run = execute(&steps, &choices);
        let status = if completes { RunStatus::Completed } else { RunStatus::Error };
        prop_assert_eq!(run.ending().status, status);
        if completes {
            let reports: Vec<_> = run.run.step_reports().into_iter().map(|step| (step.status.as_str(), step.output)).collect();
            prop_assert_eq!(reports, expected);
            let calls: BTreeMap<String, usize> = run.executed.iter().fold(BTreeMap::new(), |mut calls, (tool, _)| {
                *calls.entry(tool.clone()).or_default() += 1;
                calls
            });
            let expected_calls: usize = run.run.step_reports().iter().zip(&steps)
                .filter(|(report, _)| report.status.as_str() != "SKIPPED")
                .map(|(_, step)| match step.kind { Kind::Tool => 1, Kind::Each => 2, Kind::Transform => 0 })
                .sum();
            prop_assert_eq!(calls.values().sum::<usize>(), expected_calls);
        }
    }
}
