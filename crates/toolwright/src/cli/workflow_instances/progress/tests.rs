use serde_json::{Value, json};

use super::*;

fn run(changes: Value) -> WorkflowRunView {
    let mut whole = json!({
        "runId": "run_1", "workflowRef": "orders", "definitionHash": "h", "status": "RUNNING", "input": {}, "output": null,
        "steps": {}, "usage": { "inputTokens": 0, "outputTokens": 0 }, "costUsd": 0.0, "approvals": [], "clientActions": [],
    });
    whole.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
    serde_json::from_value(whole).unwrap()
}

fn outline(steps: &[(&str, &str, usize)]) -> Outline {
    let step = |(name, handler, level): &(&str, &str, usize)| OutlinedStep {
        name: (*name).to_owned(),
        handler: (*handler).to_owned(),
        level: *level,
    };
    Outline { steps: steps.iter().map(step).collect() }
}

fn style(width: Option<usize>) -> Style {
    let now = "2026-11-19T10:00:05Z".parse().unwrap();
    Style { paint: Paint::none(), width, now, frame: width.map(|_| 0) }
}

fn item(index: u32, status: &str) -> Value {
    json!({ "index": index, "status": status, "output": null, "attempts": 1, "callId": format!("call_{index}") })
}

fn sample() -> WorkflowRunView {
    let started = "2026-11-19T10:00:00Z";
    run(json!({
        "steps": {
            "check": { "status": "COMPLETED", "output": 1, "attempts": 3, "startedAt": started, "endedAt": "2026-11-19T10:00:00.012Z" },
            "decide": { "status": "SKIPPED", "output": null, "attempts": 0, "endedAt": started },
            "ship": { "status": "RUNNING", "output": null, "attempts": 3, "startedAt": started,
                      "items": [item(0, "COMPLETED"), item(1, "FAILED"), item(2, "RUNNING"), item(3, "PENDING")] },
            "ask": { "status": "WAITING", "output": null, "attempts": 1, "callId": "call_ask", "startedAt": started },
            "mail": { "status": "FAILED", "output": null, "attempts": 1, "startedAt": started, "endedAt": started,
                      "error": { "code": "PROVIDER_ERROR", "message": "the upstream\nanswered 500" } },
            "end": { "status": "PENDING", "output": null, "attempts": 0 },
        },
        "approvals": [{ "runId": "run_1", "agentRef": "orders", "callId": "call_ask", "toolRef": "quantum.flow.approval",
                        "version": "1.0.0", "sideEffects": "none", "input": {}, "triggers": ["tool"], "requestedAt": started, "expiresAt": null }],
    }))
}

fn sample_outline() -> Outline {
    outline(&[
        ("check", "validate_order", 0),
        ("decide", "quantum.ai.invokeAgent", 1),
        ("ship", "orders/ship", 1),
        ("ask", "quantum.flow.approval", 1),
        ("mail", "mail/send", 1),
        ("end", "echo", 0),
    ])
}

#[test]
fn tree_shows_status_handler_duration_attempts_items_waits_and_errors() {
    let (outline, run) = (sample_outline(), sample());
    let lines = Progress::new(&outline, &run).tree(&style(None));
    assert_eq!(
        lines,
        [
            "✓ check     validate_order          12 ms  3 attempts",
            "  – decide  quantum.ai.invokeAgent  skipped",
            "  ▸ ship    orders/ship             5.0 s  1/4 items  1 failed",
            "  ? ask     quantum.flow.approval   waits for approval",
            "  ✗ mail    mail/send               0 ms  PROVIDER_ERROR: the upstream answered 500",
            "· end       echo",
        ]
    );
}

#[test]
fn lines_of_the_tree_fit_into_the_terminal() {
    let (outline, run) = (sample_outline(), sample());
    for width in 20..100 {
        for line in Progress::new(&outline, &run).tree(&style(Some(width))) {
            assert!(line.width() < width, "{width}: {line}");
        }
    }
    let narrow = Progress::new(&outline, &run).tree(&style(Some(60)));
    assert_eq!(narrow[0], "✓ check     12 ms  3 attempts");
    assert_eq!(narrow[4], "  ✗ mail    0 ms  PROVIDER_ERROR: the upstream answered 500");
}

#[test]
fn error_that_is_wider_than_the_terminal_is_below_its_step_at_the_end() {
    let (outline, run) = (sample_outline(), sample());
    let at_the_end = Style { frame: None, ..style(Some(40)) };
    let lines = Progress::new(&outline, &run).tree(&at_the_end);
    let mail = lines.iter().position(|line| line.contains("mail")).unwrap();
    assert_eq!(lines[mail..mail + 3], ["  ✗ mail    0 ms", "    PROVIDER_ERROR: the upstream", "      answered 500"]);
}

#[test]
fn tree_that_is_higher_than_the_terminal_shows_the_steps_in_progress() {
    let (outline, run) = (sample_outline(), sample());
    let lines = Progress::new(&outline, &run).excerpt(&style(Some(60)), 4);
    assert_eq!(
        lines[..3].iter().map(|line| &line[..]).map(|line| line.split_whitespace().nth(1).unwrap()).collect::<Vec<_>>(),
        ["ship", "ask", "mail"]
    );
    assert_eq!(lines[3], "6 steps in total: 1 completed, 1 failed, 1 running, 1 waiting, 1 skipped, 1 pending");
    assert_eq!(Progress::new(&outline, &run).excerpt(&style(Some(60)), 6).len(), 6);
}

#[test]
fn change_of_a_step_is_one_line_with_its_status() {
    let (outline, run) = (sample_outline(), sample());
    let progress = Progress::new(&outline, &run);
    let lines: Vec<String> = progress.steps().map(|(step, view)| progress.change(step, view, &style(None))).collect();
    assert_eq!(lines[0], "✓ check  COMPLETED  12 ms  3 attempts");
    assert_eq!(lines[3], "? ask  WAITING  waits for approval");
    assert_eq!(lines[5], "· end  PENDING");
}

#[test]
fn waiting_step_names_its_signal_or_its_time() {
    let waiting = |changes: Value| {
        let mut step =
            json!({ "status": "WAITING", "output": null, "attempts": 1, "startedAt": "2026-11-19T10:00:00Z" });
        step.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
        step
    };
    let at = "2026-11-19T10:01:00Z";
    let run = run(json!({ "status": "WAITING", "steps": {
        "paid": waiting(json!({ "signal": "payment" })),
        "late": waiting(json!({ "signal": "payment", "wakesAt": at })),
        "sleep": waiting(json!({ "wakesAt": at })),
        "call": waiting(json!({ "wakesAt": at })),
    } }));
    let outline = outline(&[
        ("paid", "quantum.flow.waitForSignal", 0),
        ("late", "quantum.flow.waitForSignal", 0),
        ("sleep", "quantum.flow.sleep", 0),
        ("call", "orders/ship", 0),
    ]);
    let progress = Progress::new(&outline, &run);
    let lines: Vec<String> = progress.steps().map(|(step, view)| progress.change(step, view, &style(None))).collect();
    assert_eq!(
        lines,
        [
            "? paid  WAITING  waits for signal payment",
            "? late  WAITING  waits for signal payment until 2026-11-19 10:01:00",
            "? sleep  WAITING  waits until 2026-11-19 10:01:00",
            "? call  WAITING  next attempt at 2026-11-19 10:01:00",
        ]
    );
}
