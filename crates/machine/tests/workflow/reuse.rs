//! Runs that reuse the results of an earlier run of the same workflow.

use serde_json::json;
use toolwright_machine::RunStatus;
use toolwright_machine::journal::{Entry, EntryBody, RunStart};
use toolwright_machine::workflow::WorkflowSpec;
use toolwright_types::ErrorCode;

use crate::harness::{Harness, at, failure, run_spec, workflow};

const FLOW: &str = "
steps:
- { name: a, handlerRef: search, input: { n: 1 } }
- { name: each, handlerRef: put, forEach: [1, 2, 3], input: { n: '${item}' }, dependsOn: [a] }
- { name: last, handlerRef: search, input: { sum: '${each.map(i, i.n).size()}' }, dependsOn: [each] }
";

fn failed_run() -> Harness {
    let mut run = Harness::start(FLOW, json!({}));
    run.work(
        |call| {
            if call.input["n"] == json!(2) { Err(failure(ErrorCode::ProviderError)) } else { Ok(call.input.clone()) }
        },
    );
    assert_eq!(run.ending().status, RunStatus::Error);
    run
}

#[test]
fn retry_executes_only_the_failed_items_and_the_steps_after_them() {
    let failed = failed_run();
    let reused = failed.run.reusable_steps().into_iter().collect();
    let spec = run_spec(WorkflowSpec { reused, ..workflow(FLOW, json!({})) });
    let started = EntryBody::Started(Box::new(RunStart::new("test_flow", "hash", "ann", spec.clone())));
    let entry = Entry { n: 1, at: at(0), body: started };
    assert_eq!(Entry::parse(1, at(0), &entry.to_json()).unwrap(), entry);
    let mut retry = Harness::new(spec);
    retry.echo();
    assert_eq!(retry.ending().status, RunStatus::Completed);
    assert_eq!(retry.executed, [("put".to_owned(), json!({ "n": 2 })), ("search".to_owned(), json!({ "sum": 3 }))]);
    assert!(retry.report("a").reused);
    assert_eq!(retry.report("each").output, json!([{ "n": 1 }, { "n": 2 }, { "n": 3 }]));
}

#[test]
fn single_step_runs_alone_with_the_results_of_an_earlier_run() {
    let mut whole = Harness::start(FLOW, json!({}));
    whole.echo();
    let mut reused: std::collections::BTreeMap<_, _> = whole.run.reusable_steps().into_iter().collect();
    reused.remove("last");
    let only = Some("last".to_owned());
    let mut run = Harness::new(run_spec(WorkflowSpec { reused, only, ..workflow(FLOW, json!({})) }));
    run.echo();
    assert_eq!(run.executed, [("search".to_owned(), json!({ "sum": 3 }))]);
    assert_eq!(run.ending().status, RunStatus::Completed);
}

#[test]
fn single_step_without_earlier_results_reads_null() {
    let yaml = "
steps:
- { name: a, handlerRef: search }
- { name: b, handlerRef: search, input: { from_a: '${a}' }, dependsOn: [a] }
- { name: c, handlerRef: search, dependsOn: [b] }
";
    let mut run = Harness::new(run_spec(WorkflowSpec { only: Some("b".to_owned()), ..workflow(yaml, json!({})) }));
    run.echo();
    assert_eq!(run.executed, [("search".to_owned(), json!({ "from_a": null }))]);
    assert_eq!(run.statuses(), "a=SKIPPED b=COMPLETED c=SKIPPED");
}
