//! The order in which steps run, and the values that they read.

use serde_json::json;
use toolwright_machine::workflow::StepStatus;

use crate::harness::Harness;

#[test]
fn example_of_the_specification_runs_and_skips_the_step_whose_condition_is_false() {
    let yaml = "
steps:
- name: validate_orders
  handlerRef: search
  input: { orders: '${input.orders}' }
  outputAs: validate
- name: handle_exceptions
  handlerRef: save
  input: { errors: '${validate.errors}' }
  dependsOn: [validate_orders]
  condition: '${size(validate.errors) > 0}'
- name: fulfil
  handlerRef: put
  input: { valid: '${validate.valid}' }
  dependsOn: [validate_orders, handle_exceptions]
";
    let mut run = Harness::start(yaml, json!({ "orders": [1, 2] }));
    run.work(|call| match call.facts.name.as_str() {
        "search" => Ok(json!({ "errors": [], "valid": call.input["orders"] })),
        _ => Ok(call.input.clone()),
    });
    assert_eq!(run.statuses(), "validate_orders=COMPLETED handle_exceptions=SKIPPED fulfil=COMPLETED");
    assert_eq!(run.output(), &json!({ "fulfil": { "valid": [1, 2] } }));

    let mut run = Harness::start(yaml, json!({ "orders": [] }));
    run.work(|call| match call.facts.name.as_str() {
        "search" => Ok(json!({ "errors": ["no orders"] })),
        _ => Ok(call.input.clone()),
    });
    assert_eq!(run.statuses(), "validate_orders=COMPLETED handle_exceptions=COMPLETED fulfil=COMPLETED");
    assert_eq!(run.executed[1].1, json!({ "errors": ["no orders"] }));
}

#[test]
fn steps_run_in_parallel_as_soon_as_their_own_dependencies_have_ended() {
    let mut run = Harness::start(
        "
steps:
- { name: a, handlerRef: search, input: { n: 1 } }
- { name: b, handlerRef: search, input: { n: 2 } }
- { name: after_a, handlerRef: search, input: { n: '${a.n + 10}' }, dependsOn: [a] }
- { name: last, handlerRef: quantum.flow.join, dependsOn: [after_a, b] }
",
        json!({}),
    );
    run.prepare();
    let running = run.running();
    assert_eq!(running.len(), 2);
    run.end_call(&running[0], Ok(json!({ "n": 1 })));
    run.prepare();
    let inputs: Vec<_> = run.running().into_iter().map(|call| call.input).collect();
    assert_eq!(inputs, [json!({ "n": 2 }), json!({ "n": 11 })]);
    assert_eq!(run.statuses(), "a=COMPLETED b=RUNNING after_a=RUNNING last=PENDING");
    run.echo();
    assert_eq!(run.output(), &json!({ "last": { "after_a": { "n": 11 }, "b": { "n": 2 } } }));
}

#[test]
fn step_is_skipped_if_all_its_dependencies_were_skipped() {
    let mut run = Harness::start(
        "
steps:
- { name: a, handlerRef: search, condition: '${input.go}' }
- { name: b, handlerRef: search, dependsOn: [a] }
- { name: c, handlerRef: search, dependsOn: [b] }
- { name: d, handlerRef: search }
- { name: e, handlerRef: search, dependsOn: [c, d] }
",
        json!({}),
    );
    run.echo();
    assert_eq!(run.statuses(), "a=SKIPPED b=SKIPPED c=SKIPPED d=COMPLETED e=COMPLETED");
}

#[test]
fn branch_runs_only_the_steps_of_the_selected_case() {
    let yaml = "
steps:
- name: route
  handlerRef: quantum.flow.branch
  input: { cases: [{ name: large, when: '${input.amount > 1000}' }, { name: medium, when: '${input.amount > 100}' }], default: small }
- { name: review, handlerRef: search, dependsOn: [route.large] }
- { name: sample, handlerRef: search, dependsOn: [route.medium] }
- { name: accept, handlerRef: search, dependsOn: [route.small, route.medium] }
- { name: finish, handlerRef: quantum.flow.transform, input: '${steps.route.output.case}', dependsOn: [review, sample, accept] }
";
    for (amount, expected) in [
        (5000, "review=COMPLETED sample=SKIPPED accept=SKIPPED"),
        (500, "review=SKIPPED sample=COMPLETED accept=COMPLETED"),
        (5, "review=SKIPPED sample=SKIPPED accept=COMPLETED"),
    ] {
        let mut run = Harness::start(yaml, json!({ "amount": amount }));
        run.echo();
        assert_eq!(run.statuses(), format!("route=COMPLETED {expected} finish=COMPLETED"));
    }
}

#[test]
fn expressions_read_the_status_output_and_error_of_earlier_steps() {
    let mut run = Harness::start(
        "
steps:
- { name: a, handlerRef: search, input: { n: 1 } }
- { name: b, handlerRef: search, condition: '${input.never}', dependsOn: [a] }
- name: c
  handlerRef: quantum.flow.transform
  input: { a: '${steps.a.output.n}', attempts: '${steps.a.attempts}', b: '${steps.b.status}', param: '${param.x}', bare: '${x}' }
  dependsOn: [a, b]
output: { result: '${c}' }
",
        json!({ "x": 5 }),
    );
    run.echo();
    assert_eq!(run.output()["result"], json!({ "a": 1, "attempts": 1, "b": "SKIPPED", "param": 5, "bare": 5 }));
}

#[test]
fn workflow_without_calls_ends_when_it_starts() {
    let run = Harness::start(
        "steps: [{ name: a, handlerRef: quantum.flow.transform, input: { doubled: '${input.n * 2}' } }]",
        json!({ "n": 21 }),
    );
    assert_eq!(run.output(), &json!({ "a": { "doubled": 42 } }));
    assert_eq!(run.run.outputs().response, r#"{"a":{"doubled":42}}"#);
}

#[test]
fn concurrent_calls_are_limited_for_the_whole_workflow() {
    let steps: Vec<String> =
        (0..100).map(|n| format!("- {{ name: s{n}, handlerRef: search, input: {{ n: {n} }} }}")).collect();
    let mut run = Harness::start(&format!("steps:\n{}\n", steps.join("\n")), json!({}));
    let mut most = 0;
    for _ in 0..1000 {
        run.prepare();
        let running = run.running();
        most = most.max(running.len());
        let Some(call) = running.last() else { break };
        run.end_call(call, Ok(json!({})));
    }
    assert_eq!(most, 16);
    assert!(run.run.step_reports().iter().all(|step| step.status == StepStatus::Completed));
}

#[test]
fn order_of_completion_does_not_change_the_result() {
    let yaml = "
steps:
- { name: a, handlerRef: search, input: { n: 1 } }
- { name: b, handlerRef: search, input: { n: 2 } }
- { name: c, handlerRef: search, input: { n: '${a.n + b.n}' }, dependsOn: [a, b] }
";
    let results: Vec<_> = [false, true]
        .into_iter()
        .map(|reverse| {
            let mut run = Harness::start(yaml, json!({}));
            for _ in 0..10 {
                run.prepare();
                let running = run.running();
                let Some(call) = (if reverse { running.last() } else { running.first() }) else { break };
                run.end_call(call, Ok(call.input.clone()));
            }
            run.output().clone()
        })
        .collect();
    assert_eq!(results, [json!({ "c": { "n": 3 } }), json!({ "c": { "n": 3 } })]);
}
