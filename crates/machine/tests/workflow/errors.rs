//! Failed steps: what their `onError` does, and how the run ends.

use serde_json::json;
use toolwright_machine::RunStatus;
use toolwright_machine::agent::EventKind;
use toolwright_types::{ErrorCode, ToolError};

use crate::harness::{Harness, envelope_of, failure, run_spec, workflow};

#[test]
fn failed_step_ends_the_run_after_the_calls_in_progress() {
    let mut run = Harness::start(
        "
steps:
- { name: a, handlerRef: search, input: { n: 1 } }
- { name: b, handlerRef: save, input: { n: 2 } }
- { name: c, handlerRef: search, dependsOn: [a] }
- { name: wait, handlerRef: quantum.flow.sleep, input: { duration: 1h } }
",
        json!({}),
    );
    run.prepare();
    let running = run.running();
    run.end_call(&running[0], Err(failure(ErrorCode::ProviderError)));
    assert!(run.run.ending().is_none(), "the write in progress ends first");
    run.end_call(&running[1], Ok(json!({ "saved": true })));
    let ending = run.ending();
    assert_eq!(ending.status, RunStatus::Error);
    assert_eq!(ending.reason.as_deref(), Some("step_failed"));
    assert_eq!(ending.message.as_deref(), Some("step `a` failed: it failed"));
    assert_eq!(run.statuses(), "a=FAILED b=COMPLETED c=PENDING wait=FAILED");
}

#[test]
fn step_with_continue_counts_as_completed_with_a_null_output() {
    let mut run = Harness::start(
        "
steps:
- { name: a, handlerRef: search, onError: continue }
- name: b
  handlerRef: quantum.flow.transform
  input: { output: '${a}', code: '${steps.a.error.code}', status: '${steps.a.status}' }
  dependsOn: [a]
",
        json!({}),
    );
    run.work(|_| Err(failure(ErrorCode::AuthRequired)));
    assert_eq!(run.output(), &json!({ "b": { "output": null, "code": "AUTH_REQUIRED", "status": "FAILED" } }));
}

#[test]
fn fallback_runs_instead_of_the_dependents_of_a_failed_step() {
    let yaml = "
steps:
- { name: primary, handlerRef: search, onError: { fallback: spare } }
- { name: uses_primary, handlerRef: search, dependsOn: [primary] }
- { name: spare, handlerRef: put, input: { why: '${steps.primary.error.message}' } }
- { name: either, handlerRef: search, dependsOn: [primary, spare] }
";
    let mut run = Harness::start(yaml, json!({}));
    run.echo();
    assert_eq!(run.statuses(), "primary=COMPLETED uses_primary=COMPLETED spare=SKIPPED either=COMPLETED");
    let mut run = Harness::start(yaml, json!({}));
    let mut first = true;
    run.work(|call| if std::mem::take(&mut first) { Err(failure(ErrorCode::Timeout)) } else { Ok(call.input.clone()) });
    assert_eq!(run.statuses(), "primary=FAILED uses_primary=SKIPPED spare=COMPLETED either=COMPLETED");
    assert_eq!(run.executed[1], ("put".to_owned(), json!({ "why": "it failed" })));
}

#[test]
fn error_code_selects_the_step_that_runs_next() {
    let yaml = "
steps:
- { name: a, handlerRef: search, onError: { branch: { RATE_LIMIT: later, AUTH_REQUIRED: login } } }
- { name: later, handlerRef: put }
- { name: login, handlerRef: save }
";
    for (code, expected) in [
        (ErrorCode::RateLimit, "a=FAILED later=COMPLETED login=SKIPPED"),
        (ErrorCode::AuthRequired, "a=FAILED later=SKIPPED login=COMPLETED"),
        (ErrorCode::Unknown, "a=FAILED later=PENDING login=PENDING"),
    ] {
        let mut run = Harness::start(yaml, json!({}));
        run.work(|call| if call.facts.name == "search" { Err(failure(code)) } else { Ok(json!(null)) });
        // Without a target for its code, the error ends the run.
        let expected = if code == ErrorCode::Unknown { run.statuses() } else { expected.to_owned() };
        assert_eq!(run.statuses(), expected);
        let status = if code == ErrorCode::Unknown { RunStatus::Error } else { RunStatus::Completed };
        assert_eq!(run.ending().status, status, "{code:?}");
    }
}

#[test]
fn expression_that_cannot_be_evaluated_fails_its_step() {
    for (step, reason) in [
        ("input: { n: '${1 / input.zero}' }", "input"),
        ("condition: \"${'text'}\"", "condition"),
        ("forEach: '${input.zero}'", "not_a_list"),
    ] {
        let yaml = format!("steps:\n- name: a\n  handlerRef: search\n  {step}\n");
        let mut run = Harness::start(&yaml, json!({ "zero": 0 }));
        run.echo();
        let error = run.report("a").error.expect(reason);
        assert_eq!((error.code, details_reason(&error)), (ErrorCode::ValidationError, reason));
        assert_eq!(run.ending().reason.as_deref(), Some("step_failed"));
    }
}

fn details_reason(error: &ToolError) -> &str {
    error.details.as_ref().and_then(|details| details["reason"].as_str()).unwrap_or_default()
}

#[test]
fn unknown_tool_fails_its_step() {
    let mut run = Harness::start("steps: [{ name: a, handlerRef: nothing }]", json!({}));
    run.echo();
    assert_eq!(run.report("a").error.unwrap().code, ErrorCode::PolicyDenied);
}

#[test]
fn cancelled_run_records_the_steps_in_progress_as_failed() {
    let mut run = Harness::start(
        "
steps:
- { name: a, handlerRef: save }
- { name: b, handlerRef: quantum.flow.waitForSignal, input: { signal: go } }
- { name: c, handlerRef: search, dependsOn: [a] }
",
        json!({}),
    );
    run.prepare();
    run.apply(EventKind::Cancelled { message: None });
    assert_eq!(run.ending().status, RunStatus::Cancelled);
    assert_eq!(run.statuses(), "a=FAILED b=FAILED c=PENDING");
    assert_eq!(run.report("a").error.unwrap().message, "the run was cancelled before this call ended");
    assert!(run.run.wake_at().is_none());
}

#[test]
fn output_that_cannot_be_computed_fails_the_run() {
    let mut run = Harness::start("steps: [{ name: a, handlerRef: search }]\noutput: '${a.n / 0}'\n", json!({}));
    run.work(|_| Ok(json!({ "n": 1 })));
    assert_eq!(run.ending().reason.as_deref(), Some("output"));
}

#[test]
fn cost_limit_of_the_run_stops_its_steps() {
    let mut spec = run_spec(workflow(
        "steps: [{ name: a, handlerRef: search }, { name: b, handlerRef: search, dependsOn: [a] }]",
        json!({}),
    ));
    spec.limits.max_tokens = Some(100);
    let mut run = Harness::new(spec);
    run.prepare();
    let call = run.running().remove(0);
    let usage = toolwright_types::Usage { input_tokens: 101, ..toolwright_types::Usage::default() };
    let envelope = Box::new(envelope_of(&call, Ok(json!({}))));
    run.apply(EventKind::CallEnded { envelope, usage, nested_calls: 60, offered_tools: Vec::new() });
    run.prepare();
    assert_eq!(run.ending().status, RunStatus::BudgetExceeded);
    assert_eq!(run.statuses(), "a=COMPLETED b=FAILED");
}
