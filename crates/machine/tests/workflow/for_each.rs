//! Steps with a `forEach`.

use serde_json::json;
use toolwright_machine::RunStatus;
use toolwright_machine::workflow::StepStatus;
use toolwright_types::ErrorCode;

use crate::harness::{Harness, failure};

#[test]
fn output_is_the_list_of_the_outputs_in_the_order_of_the_items() {
    let mut run = Harness::start(
        "
steps:
- name: each
  handlerRef: search
  forEach: '${input.orders}'
  input: { id: '${item.id}', at: '${index}' }
",
        json!({ "orders": [{ "id": "x" }, { "id": "y" }, { "id": "z" }] }),
    );
    run.prepare();
    for call in run.running().into_iter().rev() {
        run.end_call(&call, Ok(json!(call.input["id"])));
    }
    assert_eq!(run.output(), &json!({ "each": ["x", "y", "z"] }));
    assert_eq!(run.executed[0].1, json!({ "id": "z", "at": 2 }));
}

#[test]
fn concurrency_of_the_list_limits_the_calls_in_progress() {
    let mut run = Harness::start(
        "
steps:
- { name: each, handlerRef: search, forEach: { items: '${input.list}', concurrency: 3 }, input: { n: '${item}' } }
",
        json!({ "list": (0..10).collect::<Vec<_>>() }),
    );
    let mut most = 0;
    for _ in 0..100 {
        run.prepare();
        let running = run.running();
        most = most.max(running.len());
        let Some(call) = running.first() else { break };
        run.end_call(call, Ok(call.input["n"].clone()));
    }
    assert_eq!(most, 3);
    assert_eq!(run.output(), &json!({ "each": [0, 1, 2, 3, 4, 5, 6, 7, 8, 9] }));
}

#[test]
fn failed_items_are_reported_after_all_items_have_ended() {
    let yaml = |on_error: &str| {
        format!(
            "
steps:
- {{ name: each, handlerRef: search, forEach: '${{input.list}}', input: {{ n: '${{item}}' }}, onError: {on_error} }}
- {{ name: failed, handlerRef: quantum.flow.transform, input: '${{steps.each.items.filter(i, i.status == \"FAILED\").size()}}', dependsOn: [each] }}
"
        )
    };
    let answer = |call: &toolwright_machine::agent::CallToRun| {
        if call.input["n"] == json!(2) { Err(failure(ErrorCode::ProviderError)) } else { Ok(call.input["n"].clone()) }
    };
    let mut run = Harness::start(&yaml("fail"), json!({ "list": [1, 2, 3] }));
    run.work(answer);
    assert_eq!(run.ending().status, RunStatus::Error);
    let report = run.report("each");
    assert_eq!(report.error.unwrap().message, "1 of 3 items failed; the first error: it failed");
    assert_eq!(report.output, json!([1, null, 3]));
    let statuses: Vec<_> = report.items.unwrap().into_iter().map(|item| item.status).collect();
    assert_eq!(statuses, [StepStatus::Completed, StepStatus::Failed, StepStatus::Completed]);

    let mut run = Harness::start(&yaml("continue"), json!({ "list": [1, 2, 3] }));
    run.work(answer);
    assert_eq!(run.output(), &json!({ "failed": 1 }));
}

#[test]
fn empty_list_completes_its_step_and_a_long_one_is_refused() {
    let yaml = "
steps: [{ name: each, handlerRef: search, forEach: '${input.list}' }]
limits: { maxItems: 3 }
";
    let run = Harness::start(yaml, json!({ "list": [] }));
    assert_eq!(run.output(), &json!({ "each": [] }));
    let run = Harness::start(yaml, json!({ "list": [1, 2, 3, 4] }));
    let error = run.report("each").error.unwrap();
    assert_eq!(error.message, "the list has 4 items, but `maxItems` is 3");
}

#[test]
fn steps_without_calls_also_run_for_each_item() {
    let mut run = Harness::start(
        "
steps:
- { name: each, handlerRef: quantum.flow.transform, forEach: [1, 2, 3], input: '${item * item}' }
- { name: naps, handlerRef: quantum.flow.sleep, forEach: { items: [10, 20], concurrency: 1 }, input: { duration: '${item}' }, dependsOn: [each] }
output: '${each}'
",
        json!({}),
    );
    assert_eq!(run.wake(), 10);
    assert_eq!(run.wake(), 20);
    assert_eq!(run.output(), &json!([1, 4, 9]));
}

#[test]
fn ten_thousand_items_complete() {
    let mut run = Harness::start(
        "
steps: [{ name: each, handlerRef: quantum.flow.transform, forEach: '${input.list}', input: '${index}' }]
limits: { maxItems: 100000 }
output: '${size(each)}'
",
        json!({ "list": vec![0; 10_000] }),
    );
    run.echo();
    assert_eq!(run.output(), &json!(10_000));
}
