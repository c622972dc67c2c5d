//! Paused runs.

use serde_json::json;
use toolwright_machine::RunStatus;
use toolwright_machine::agent::{EventError, EventKind, RunSpec};
use toolwright_machine::{AgentRun, Policy};
use toolwright_types::{ModelRequest, RunId};

use crate::harness::{Harness, at};

#[test]
fn paused_run_ends_its_calls_in_progress_and_starts_nothing_until_it_is_resumed() {
    let mut run = Harness::start(
        "
steps:
- { name: a, handlerRef: search }
- { name: nap, handlerRef: quantum.flow.sleep, input: { duration: 1s } }
- { name: b, handlerRef: search, dependsOn: [a, nap] }
",
        json!({}),
    );
    run.prepare();
    run.apply(EventKind::Paused { by: Some("ann".into()) });
    assert_eq!(run.run.status(), RunStatus::Running);
    run.echo();
    assert_eq!((run.run.status(), run.run.suspended()), (RunStatus::Paused, true));
    run.wake();
    assert_eq!(run.statuses(), "a=COMPLETED nap=COMPLETED b=PENDING");
    assert_eq!(run.run.status(), RunStatus::Paused);
    run.apply(EventKind::Resumed { by: Some("ann".into()) });
    run.echo();
    assert_eq!(run.ending().status, RunStatus::Completed);
}

#[test]
fn call_that_was_being_prepared_when_the_run_was_paused_starts_after_it_is_resumed() {
    let mut run = Harness::start("steps: [{ name: a, handlerRef: search }]", json!({}));
    run.apply(EventKind::Paused { by: None });
    run.prepare();
    assert!(run.running().is_empty());
    assert_eq!(run.run.status(), RunStatus::Paused);
    run.apply(EventKind::Resumed { by: None });
    assert_eq!(run.running().len(), 1);
}

#[test]
fn run_without_a_workflow_cannot_be_paused_and_receives_no_signals() {
    let spec = RunSpec::new(RunId::from_bits(1), ModelRequest::none(), Policy::allowing("home", ["search"]));
    let mut run = AgentRun::new(spec, at(0));
    for kind in [
        EventKind::Paused { by: None },
        EventKind::SignalReceived { name: "go".into(), payload: json!(1), sent_by: None },
    ] {
        let event = toolwright_machine::agent::Event { at: at(0), kind };
        assert_eq!(run.apply(event), Err(EventError::NoWorkflow));
    }
}
